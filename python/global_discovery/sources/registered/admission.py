"""Whether one more share may begin: how many there are in all, and how fast one caller begins them.

Asked for shares that begin by a call, and for nothing else: not for a renewal, a
change of content or a new incarnation of a live share, and not for what a store
had or another instance took, which only counts. A pool that was refused is not a
registered one, so that a list without it may still be EXACT.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from global_discovery.domain.limits import Limit, LimitReached
from global_discovery.domain.rate import Rates

BURST_SECONDS = 3.0
"""Of the rate, that a caller may begin at once: relays all come back in the same second."""


@dataclass(frozen=True, slots=True)
class RegistrationLimits:
    """How much may be registered."""

    pools: int = 100_000
    shares: int = 200_000
    new_shares_per_second: int = 10_000
    """Of one caller: far above what one cluster's relays do when all come back at once."""


class Admission:
    """The door for new shares."""

    def __init__(
        self, limits: RegistrationLimits, now: Callable[[], float], *, lease_seconds: float
    ) -> None:
        """`now` is the monotonic clock."""
        self._limits = limits
        self._rates = Rates(limits.new_shares_per_second, now, burst_seconds=BURST_SECONDS)
        self._lease_seconds = lease_seconds

    def admit(self, account: str, *, pools: int, shares: int, new_pool: bool) -> None:
        """One more beside so many. Raises LimitReached, and has then counted nothing."""
        if new_pool and pools >= self._limits.pools:
            raise LimitReached(Limit.POOLS, retry_after=self._until_one_ends())
        if shares >= self._limits.shares:
            raise LimitReached(Limit.SHARES, retry_after=self._until_one_ends())
        wait = self._rates.take(account)
        if wait > 0.0:
            # Those who were refused together do not come back together.
            spread = random.uniform(0.5, 1.5)  # noqa: S311 - no secret
            raise LimitReached(Limit.NEW_SHARES, retry_after=wait + spread)

    def _until_one_ends(self) -> float:
        """A share may end with its lease; the instance does not know of an earlier end."""
        return self._lease_seconds * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
