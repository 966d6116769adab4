"""How often each of many may do something: token buckets that cost one number each."""

from collections import OrderedDict
from collections.abc import Callable

MAX_REMEMBERED = 65_536
"""Whose bucket is not full. Of more, the one that was used longest ago starts anew."""

_ROUNDING = 1e-6
"""Seconds that are none: what is left of adding up what has no exact form."""


class Rates:
    """A bucket for each name, which holds what comes in during `burst_seconds`.

    Kept is only when a bucket will be full again; a full one is not kept at all. So
    nobody can make this grow beyond its bound, with whatever many names.
    """

    def __init__(
        self, per_second: float, now: Callable[[], float], *, burst_seconds: float = 1.0
    ) -> None:
        """`now` is a clock in seconds, of which only differences count."""
        self._per_second = per_second
        self._now = now
        self._burst = burst_seconds
        self._full_at: OrderedDict[str, float] = OrderedDict()
        """In the order of their last use."""

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._full_at)

    def take(self, name: str, amount: float = 1.0) -> float:
        """Takes so much; or takes nothing, and gives the seconds after which it is there.

        More than a whole bucket is there when the bucket is full.
        """
        wait = self.wait(name, amount)
        if not wait:
            now = self._now()
            full_at = max(self._full_at.get(name, now), now)
            self._full_at[name] = full_at + self._cost(amount)
            self._full_at.move_to_end(name)
            self._forget(now)
        return wait

    def wait(self, name: str, amount: float = 1.0) -> float:
        """The seconds after which so much is there; 0 when it is. Takes nothing."""
        now = self._now()
        full_at = max(self._full_at.get(name, now), now)
        wait = full_at + self._cost(amount) - self._burst - now
        return wait if wait > _ROUNDING else 0.0

    def _cost(self, amount: float) -> float:
        """The seconds in which so much comes in."""
        return min(amount / self._per_second, self._burst)

    def _forget(self, now: float) -> None:
        """The two that were used longest ago, when they are full or there are too many."""
        for _ in range(2):
            name = next(iter(self._full_at), None)
            if name is None or (self._full_at[name] > now and len(self._full_at) <= MAX_REMEMBERED):
                return
            del self._full_at[name]
