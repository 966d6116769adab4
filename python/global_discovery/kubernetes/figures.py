"""What a reader counts, for metrics and status pages."""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from global_discovery.kubernetes.failures import Failure


class Relist(Enum):
    """Why everything was listed. The values are labels."""

    FIRST = "first"
    """Nothing was known."""
    PERIODIC = "periodic"
    """It was due: what no watch shows heals with it."""
    LOST = "lost"
    """The watch could not go on from where it was; see the failures for the reason."""
    TOO_NEW = "too_new"
    """The server stayed behind the version that the watch was at."""


@dataclass(slots=True)
class Figures:
    """Of one list and watch. Times are of its timer; None is never."""

    requests: int = 0
    """A page of a list counts as one."""
    relists: Counter[Relist] = field(default_factory=Counter)
    """Begun, by reason."""
    failures: Counter[Failure] = field(default_factory=Counter)
    """Lists and watches that failed, by reason."""
    events: int = 0
    """Events and bookmarks."""
    heard: float | None = None
    """When the last event, bookmark or complete list came."""
    listed: float | None = None
    """When the last complete list came."""


@dataclass(frozen=True, slots=True)
class ReaderFigures:
    """Of a reader: sums, and the worst of its watches."""

    in_sync: bool
    requests: int
    relists: Counter[Relist]
    failures: Counter[Failure]
    events: int
    seconds_since_heard: float | None
    """Since the last event, bookmark or complete list; None before the first."""
    seconds_since_list: float | None


def summed(figures: list[Figures], *, now: float, in_sync: bool) -> ReaderFigures:
    """The figures of all watches of a reader."""
    relists: Counter[Relist] = Counter()
    failures: Counter[Failure] = Counter()
    for each in figures:
        relists += each.relists
        failures += each.failures
    return ReaderFigures(
        in_sync=in_sync,
        requests=sum(each.requests for each in figures),
        relists=relists,
        failures=failures,
        events=sum(each.events for each in figures),
        seconds_since_heard=_age([each.heard for each in figures], now),
        seconds_since_list=_age([each.listed for each in figures], now),
    )


def _age(moments: list[float | None], now: float) -> float | None:
    known = [moment for moment in moments if moment is not None]
    return now - min(known) if len(known) == len(moments) else None
