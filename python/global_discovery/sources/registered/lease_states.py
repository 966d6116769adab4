"""How the leases that run are doing, for metrics."""

from collections.abc import Iterable
from enum import Enum

from global_discovery.domain.lease import LeaseTerms
from global_discovery.sources.registered.shares import Share

RESTORED = float("-inf")
"""What a lease is counted from that a store of one's own had at the start, until it is due."""


class LeaseState(Enum):
    """Each lease that runs is in one. The values are labels."""

    RENEWED = "renewed"
    """Its last heartbeat came in time, as far as is known."""
    OVERDUE = "overdue"
    """A heartbeat is missing: half of what is left after the first one is over."""
    EXTENDED = "extended"
    """It runs on without a renewal, because none could be heard."""


def count_leases(
    shares: Iterable[Share], *, terms: LeaseTerms, now: float
) -> dict[LeaseState, int]:
    """One look at each share: some milliseconds for 100,000 of them."""
    horizon = now - terms.overdue_after
    extended = overdue = total = 0
    for share in shares:
        total += 1
        if share.extensions or share.counted_from == RESTORED:
            extended += 1
        # What was not renewed here yet is counted from when it was read.
        elif (share.renewed_at or share.counted_from) < horizon:
            overdue += 1
    return {
        LeaseState.RENEWED: total - extended - overdue,
        LeaseState.OVERDUE: overdue,
        LeaseState.EXTENDED: extended,
    }
