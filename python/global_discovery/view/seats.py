"""How many streams may be open, in all and of one caller."""

import random
from collections.abc import Callable

from global_discovery.domain.limits import Limit, LimitReached

LONGEST_RETRY_SECONDS = 10.0


class Seats:
    """The places for watchers, of all lists together."""

    def __init__(self, total: int, of_one: int) -> None:
        """All free."""
        self._total = total
        self._of_one = of_one
        self._taken: dict[str, int] = {}
        """By caller; those with none are not here."""
        self._in_all = 0

    def __len__(self) -> int:
        """How many are taken."""
        return self._in_all

    @property
    def most_of_one(self) -> int:
        """How many the caller with the most has."""
        return max(self._taken.values(), default=0)

    def take(self, account: str) -> Callable[[], None]:
        """Takes one; call what it gives, once, to give it back. Raises LimitReached."""
        mine = self._taken.get(account, 0)
        if mine >= self._of_one:
            raise LimitReached(Limit.WATCHERS_OF_ONE, retry_after=_some_seconds())
        if self._in_all >= self._total:
            raise LimitReached(Limit.WATCHERS, retry_after=_some_seconds())
        self._taken[account] = mine + 1
        self._in_all += 1
        return lambda: self._give_back(account)

    def _give_back(self, account: str) -> None:
        self._in_all -= 1
        left = self._taken.pop(account) - 1
        if left:
            self._taken[account] = left


def _some_seconds() -> float:
    """Nobody knows when a stream ends: not at once, and not all at the same time."""
    return random.uniform(1.0, LONGEST_RETRY_SECONDS)  # noqa: S311 - no secret
