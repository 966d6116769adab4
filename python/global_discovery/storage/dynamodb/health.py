"""What the store says of itself: how old its newest complete read is, and what fails.

The bound is the refresh period, one second and the time that the last complete
read took, plus two beacon intervals when the table has several regions. The
mark must not move with every read, so that the time told is a multiple of half
a second: it rises at once and falls after a minute of faster reads.

A table that is throttled refuses one call and takes the next. Such a time is one
failure, told once: it is over when nothing has failed for some seconds.
"""

import math
from collections.abc import Sequence

from global_discovery.domain.clock import Clock
from global_discovery.domain.completeness import Reason
from global_discovery.domain.events import Event, Report
from global_discovery.storage.store import Figure, FigureKind, StoreState

READ_TIME_STEP = 0.5
FALLS_AFTER_SECONDS = 60.0
STEADY_SECONDS = 5.0
"""For how long nothing must have failed before a failure is over."""


class Health:
    """Follows reads and writes. Times are on the monotonic clock."""

    def __init__(self, *, clock: Clock, refresh_period: float, report: Report) -> None:
        """`refresh_period` in seconds."""
        self._clock = clock
        self._period = refresh_period
        self._report = report
        self._newest_began: float | None = None
        self._read_time = 0.0
        self._newest_took = 0.0
        self._slow_at = float("-inf")
        """When a read last took as long as is told."""
        self._failing: set[str] = set()
        self._told: set[str] = set()
        """What was told to fail, until that is over."""
        self._failed_at = float("-inf")
        self._failures = 0
        self.silent: frozenset[str] = frozenset()
        """Regions that are not heard."""
        self.across_regions = 0.0
        """What several regions add to the bound, in seconds."""

    def read_completed(self, *, began: float) -> None:
        """A read of the whole table that began then is complete."""
        now = self._clock.monotonic()
        self._newest_took = now - began
        took = math.ceil((now - began) / READ_TIME_STEP) * READ_TIME_STEP
        if took >= self._read_time or now - self._slow_at > FALLS_AFTER_SECONDS:
            self._read_time, self._slow_at = took, now
        self._newest_began = began
        self.works("read")
        self.works("content")

    def fails(self, what: str, error: Exception) -> None:
        """A read or a write failed, with all its repetitions."""
        self._failed_at = self._clock.monotonic()
        self._failing.add(what)
        if what in self._told:
            return
        if not self._told:
            self._failures += 1
        self._told.add(what)
        self._report(Event.STORE_FAILING, store="dynamodb", message=f"{what}: {error}")

    def works(self, what: str) -> None:
        """A read or a write did what it should."""
        if not self._told:
            return  # as nearly always
        self._failing.discard(what)
        steady = self._clock.monotonic() - self._failed_at >= STEADY_SECONDS
        if steady and not self._failing:
            self._told.clear()
            self._report(Event.STORE_WORKS_AGAIN)

    @property
    def reads_fail(self) -> bool:
        """Whether the last thing heard of reading is that it fails."""
        return "read" in self._failing

    @property
    def writes_fail(self) -> bool:
        """Whether the last thing heard of writing is that it fails."""
        return "write" in self._failing

    @property
    def bound(self) -> float:
        """How old a registration is at most before it is seen here, in seconds."""
        return self._period + 1.0 + self._read_time + self.across_regions

    def figures(self) -> Sequence[Figure]:
        """Of the newest complete read, none before the first; and the regions not heard."""
        gauge = FigureKind.GAUGE
        silent: dict[tuple[str, ...], float] = {(): len(self.silent)}
        age: dict[tuple[str, ...], float] = {}
        took: dict[tuple[str, ...], float] = {}
        if self._newest_began is not None:
            age[()] = self._clock.monotonic() - self._newest_began
            took[()] = self._newest_took
        return (
            Figure("dynamodb_read_age_seconds", "Since the newest complete read.", gauge, age),
            Figure("dynamodb_read_seconds", "How long that read took.", gauge, took),
            Figure("dynamodb_silent_regions", "Regions that are not heard.", gauge, silent),
        )

    def state(self) -> StoreState:
        """How it is now."""
        began = self._newest_began
        late = began is not None and self._clock.monotonic() - began > self.bound
        reasons = set()
        if self._failing or late:
            reasons.add(Reason.STORE_UNREADABLE)
        if self.silent:
            reasons.add(Reason.REGION_SILENT)
        return StoreState(
            reasons=frozenset(reasons),
            bound=self.bound,
            failing=bool(self._failing) or late,
            failures=self._failures,
            read_until=-math.inf if began is None else began,
        )
