"""How long the troubles of a store cast doubt on the registrations.

A store says what is wrong with it at this moment. A renewal that was missed in
that time shows no later than one lease after it, so each reason holds for one
whole lease after the store last gave it. Whether a lease ended in doubt is
judged by when it ended; a reason that is new may have held since the store was
last asked.
"""

from collections.abc import Callable

from global_discovery.domain.completeness import Reason
from global_discovery.storage.store import StoreState


class StoreDoubts:
    """Asks the store whenever it is asked itself. Times are on the monotonic clock."""

    def __init__(self, state: Callable[[], StoreState], now: float) -> None:
        """`state` is cheap."""
        self._state = state
        self._asked = now
        self._since: dict[Reason, float] = {}
        self._until: dict[Reason, float] = {}

    def reasons(self, now: float, lease: float) -> set[Reason]:
        """Those that hold; `lease` is the longest known one, in seconds."""
        for reason in self._state().reasons:
            if self._until.get(reason, self._asked) <= self._asked:
                self._since[reason] = self._asked
            self._until[reason] = now + lease
        self._asked = now
        return {reason for reason, until in self._until.items() if now < until}

    def held_at(self, time: float) -> bool:
        """Whether one held when a lease ended; as of the last question."""
        return any(self._since[reason] <= time < until for reason, until in self._until.items())

    @property
    def bound(self) -> float:
        """The store's bound, in seconds."""
        return self._state().bound
