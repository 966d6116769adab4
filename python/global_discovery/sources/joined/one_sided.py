"""Pools that only one side lists, for so long that somebody should look at them.

Each key has a clock of its own that begins when it becomes one-sided and ends
when it no longer is, whatever is relisted in between. The clock stands still
while nothing can be concluded from what is missing: while the Kubernetes side
is out of sync or the registration side starts or cannot be read, and while this
process does not run. A key is told once; its next time begins when it was on
both sides or on none, or changes sides.
"""

from collections import OrderedDict
from enum import Enum
from typing import NamedTuple

from global_discovery.domain.completeness import Mark, Reason
from global_discovery.domain.events import Event, Report, ignore
from global_discovery.domain.pool import PoolKey

TOLD_A_TICK = 20
MIN_SECONDS, MAX_SECONDS = 30.0, 600.0
_LONGEST_STEP = 1.0
"""More than this between two looks is a stall: time in which this process saw nothing."""
_INCONCLUSIVE = frozenset(
    {
        Reason.SOURCE_UNSYNCED,
        Reason.STARTING,
        Reason.STORE_UNREADABLE,
        Reason.REGION_SILENT,
    }
)


class Side(Enum):
    """The only side that lists a pool. The values are those of the metric's label."""

    SLICES = "slices"
    REGISTRATION = "registration"


CAUSES = {
    Side.SLICES: (
        "imported slices show it Ready and it is not registered here: its lease lapsed and the "
        "slice is stale, or its relays do not register here with this key"
    ),
    Side.REGISTRATION: (
        "it is registered and no imported slice shows a Ready relay of it: cluster_id may not be "
        "the pool's cluster name in MCS, or its relay Service is not exported"
    ),
}
"""Why it may be so, for each side that alone lists a pool."""


class _Waiting(NamedTuple):
    side: Side
    since: float


def patience(lease_duration: float) -> float:
    """For how many seconds a pool may be one-sided before it is told: two leases, within limits."""
    return min(max(2 * lease_duration, MIN_SECONDS), MAX_SECONDS)


class OneSided:
    """The keys that one side alone lists."""

    def __init__(self, *, lease_duration: float, now: float, report: Report = ignore) -> None:
        """`now` is on the monotonic clock. Nothing is concluded before the first `follow`."""
        self._patience = patience(lease_duration)
        self._report = report
        self._looked = now
        self._counted = 0.0
        """The common clock of all keys: it runs only while something can be concluded."""
        self._counting = False
        self._waiting: OrderedDict[PoolKey, _Waiting] = OrderedDict()
        """In the order in which they became one-sided."""
        self._told: dict[PoolKey, Side] = {}

    @property
    def told(self) -> dict[PoolKey, Side]:
        """Those that were told and still are one-sided."""
        return self._told

    def counts(self) -> dict[Side, int]:
        """How many were told and still are one-sided, by side."""
        sides = list(self._told.values())
        return {side: sides.count(side) for side in Side}

    def follow(self, mark: Mark, *, synced: bool, now: float) -> None:
        """What the sides say of themselves from now on."""
        self._advance(now)
        self._counting = synced and not mark.reasons & _INCONCLUSIVE

    def put(self, key: PoolKey, side: Side | None) -> None:
        """Which side alone lists the key now; None when both do or none does."""
        waiting = self._waiting.get(key)
        before = self._told.get(key) if waiting is None else waiting.side
        if side is before:
            return
        self._waiting.pop(key, None)
        self._told.pop(key, None)
        if side is not None:
            self._waiting[key] = _Waiting(side, self._counted)

    def tick(self, now: float) -> None:
        """Tells those whose time has come; many at once on several ticks."""
        self._advance(now)
        for _ in range(TOLD_A_TICK):
            if not self._waiting:
                return
            key, waiting = next(iter(self._waiting.items()))
            seconds = self._counted - waiting.since
            if seconds < self._patience:
                return
            del self._waiting[key]
            self._told[key] = waiting.side
            self._report(
                Event.POOL_ONE_SIDED,
                pool=str(key),
                listed_by=waiting.side.value,
                seconds=round(seconds),
                message=CAUSES[waiting.side],
            )

    def _advance(self, now: float) -> None:
        step = min(now - self._looked, _LONGEST_STEP)
        self._looked = now
        if self._counting:
            self._counted += step
