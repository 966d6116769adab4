"""Which regions of the table are heard.

Every instance writes a beacon each interval and deletes it when it is told to
stop. A region whose newest beacon did not change for two intervals is silent,
until it is heard again or that beacon is an hour old; one whose beacons were
all deleted has left and is not silent. Ages are measured on this process's
monotonic clock from when it saw a beacon change. Only a beacon that the first
read found is as old as its wall time says; clocks that are wrong are wrong
there for two intervals at most.

The own region is never silent: this process speaks there, and what it cannot
write or read is the store's failure.
"""

from collections.abc import Iterable

from global_discovery.domain.clock import Clock
from global_discovery.domain.events import Event, Report
from global_discovery.storage.dynamodb.api import Item
from global_discovery.storage.dynamodb.items import number_of, text_of

FORGOTTEN_AFTER_SECONDS = 3600.0


class Beacons:
    """What was seen of all beacons."""

    def __init__(self, *, clock: Clock, region: str, interval: float, report: Report) -> None:
        """`interval` in seconds."""
        self._clock = clock
        self._region = region
        self._interval = interval
        self._report = report
        self._seen: dict[str, tuple[str, float]] = {}
        """By sort key: what it said last, and when that was new."""
        self._read = False
        self.silent: frozenset[str] = frozenset()
        self.several_regions = False

    def see(self, items: Iterable[Item]) -> None:
        """A read found these beacons, and no others."""
        now = self._clock.monotonic()
        seen = {}
        for item in items:
            name = text_of(item, "sk")
            said = f"{text_of(item, 'c', 'N')} {text_of(item, 't', 'N')}"
            before = self._seen.get(name)
            if before is not None and before[0] == said:
                seen[name] = before
            elif before is None and not self._read:
                age = self._clock.wall() - number_of(item, "t")
                seen[name] = (said, now - min(max(age, 0.0), FORGOTTEN_AFTER_SECONDS))
            else:
                seen[name] = (said, now)
        self._seen, self._read = seen, True
        self._judge(now)

    def _judge(self, now: float) -> None:
        newest: dict[str, float] = {}
        for name, (_, when) in self._seen.items():
            region = name.partition("#")[0]
            newest[region] = max(when, newest.get(region, when))
        ages = {
            region: now - when
            for region, when in newest.items()
            if region != self._region and now - when < FORGOTTEN_AFTER_SECONDS
        }
        silent = frozenset(r for r, age in ages.items() if age > 2 * self._interval)
        for region in sorted(silent - self.silent):
            self._report(Event.REGION_SILENT, region=region)
        for region in sorted(self.silent - silent):
            self._report(Event.REGION_HEARD, region=region, left=region not in ages)
        self.silent, self.several_regions = silent, bool(ages)
