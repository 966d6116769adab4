"""The lease ids that were withdrawn, each remembered for ten leases.

An id is remembered at least as long as was asked and at most as long as the
longest-remembered one that came before it: times of different origin are not
sorted, because remembering one for longer harms nobody.
"""

from collections import OrderedDict


class WithdrawnIds:
    """Times are on the monotonic clock."""

    def __init__(self) -> None:
        """None yet."""
        self._until: OrderedDict[str, float] = OrderedDict()

    def __contains__(self, lease_id: str) -> bool:
        """Whether it is remembered."""
        return lease_id in self._until

    def add(self, lease_id: str, until: float) -> None:
        """Remembers it; told again, the later time counts."""
        self._until[lease_id] = max(until, self._until.get(lease_id, until))
        self._until.move_to_end(lease_id)

    def forget(self, now: float) -> None:
        """Lets go of those whose time is over."""
        while self._until and next(iter(self._until.values())) <= now:
            self._until.popitem(last=False)
