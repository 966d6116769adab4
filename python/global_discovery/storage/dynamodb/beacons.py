"""Which regions of the table are heard.

Every instance writes a beacon each interval and deletes it when it is told to
stop. A region whose newest beacon did not change for two intervals is silent,
until it is heard again or that beacon is an hour old; one whose beacons were
all deleted has left and is not silent. Ages are measured on this process's
monotonic clock from when it saw a beacon change; the interval is the writer's, or
the own one when that is longer. Only a beacon that the first
read found is as old as its wall time says; clocks that are wrong are wrong
there for two intervals at most.

The own region is never silent: this process speaks there, and what it cannot
write or read is the store's failure.
"""

from collections.abc import Iterable
from typing import NamedTuple

from global_discovery.domain.clock import Clock
from global_discovery.domain.events import Event, Report
from global_discovery.storage.dynamodb.api import Item
from global_discovery.storage.dynamodb.items import number_of, text_of

FORGOTTEN_AFTER_SECONDS = 3600.0


class Beacon(NamedTuple):
    """What was seen of one."""

    said: str
    when: float
    """When that was new, on the monotonic clock."""
    interval: float
    """How often it should say something new, in seconds."""


class Beacons:
    """What was seen of all beacons."""

    def __init__(self, *, clock: Clock, region: str, interval: float, report: Report) -> None:
        """`interval` in seconds."""
        self._clock = clock
        self._region = region
        self._interval = interval
        self._report = report
        self._seen: dict[str, Beacon] = {}
        """By sort key."""
        self._read = False
        self.silent: frozenset[str] = frozenset()
        self.across_regions = 0.0
        """What several regions add to the bound: two intervals. In seconds."""

    def see(self, items: Iterable[Item]) -> None:
        """A read found these beacons, and no others."""
        now = self._clock.monotonic()
        seen = {}
        for item in items:
            name = text_of(item, "sk")
            said = f"{text_of(item, 'c', 'N')} {text_of(item, 't', 'N')}"
            before = self._seen.get(name)
            when = now
            if before is not None and before.said == said:
                when = before.when
            elif before is None and not self._read:
                age = self._clock.wall() - number_of(item, "t")
                when = now - min(max(age, 0.0), FORGOTTEN_AFTER_SECONDS)
            seen[name] = Beacon(said, when, max(number_of(item, "i"), self._interval))
        self._seen, self._read = seen, True
        self._judge(now)

    def _judge(self, now: float) -> None:
        """The longest interval of a region's instances is that of the region."""
        newest: dict[str, float] = {}
        intervals: dict[str, float] = {}
        for name, beacon in self._seen.items():
            region = name.partition("#")[0]
            if region != self._region and now - beacon.when < FORGOTTEN_AFTER_SECONDS:
                newest[region] = max(beacon.when, newest.get(region, beacon.when))
                intervals[region] = max(beacon.interval, intervals.get(region, 0.0))
        silent = frozenset(r for r, when in newest.items() if now - when > 2 * intervals[r])
        for region in sorted(silent - self.silent):
            self._report(Event.REGION_SILENT, region=region)
        for region in sorted(self.silent - silent):
            self._report(Event.REGION_HEARD, region=region, left=region not in newest)
        self.silent = silent
        self.across_regions = 2 * max(intervals.values(), default=0.0)
