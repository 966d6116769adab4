"""The watches of a Kubernetes API server, and what their slices show.

Needs the extra `kubernetes`; loaded in the modes that read slices only.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from global_discovery.domain.events import Event
from global_discovery.kubernetes.failures import Failure
from global_discovery.kubernetes.figures import ReaderFigures, Relist
from global_discovery.serving.metrics.families import counter, gauge
from global_discovery.sources.imported.member_clusters import MemberClusters
from global_discovery.sources.imported.slices import ImportedSlices

WARNINGS = (Event.FRONTEND_PORT_MISSING, Event.SLICE_DAMAGED, Event.TOO_MANY_ENDPOINTS)

ReadFigures = Callable[[], ReaderFigures]


class SlicesCollector(Collector):
    """Reads the figures of the slices and of their watch at each scrape."""

    def __init__(
        self,
        slices: ImportedSlices,
        read: ReadFigures,
        warned: Sequence[Callable[[], Counter[Event]]],
    ) -> None:
        """Reads only; `warned` says what holds of the warnings about slices."""
        self._slices = slices
        self._read = read
        self._warned = warned

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        yield gauge("slices", "Imported EndpointSlices, refused ones too.", len(self._slices))
        refused = gauge("slices_refused", "Slices that are not read.", None, "reason")
        for refusal, count in self._slices.refused.items():
            refused.add_metric([refusal.value], count)
        yield refused
        holding = sum((warned() for warned in self._warned), Counter[Event]())
        warnings = gauge("slice_warnings", "Warnings about slices that hold.", None, "warning")
        for event in WARNINGS:
            warnings.add_metric([event.value], holding[event])
        yield warnings
        yield from _of_the_watch("slices", self._read())


class MemberClustersCollector(Collector):
    """Reads the figures of Karmada's list of member clusters at each scrape."""

    def __init__(self, names: MemberClusters, read: ReadFigures) -> None:
        """Reads only."""
        self._names = names
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        yield gauge("member_clusters", "Member clusters that are known.", len(self._names))
        yield from _of_the_watch("member_clusters", self._read())


def _of_the_watch(name: str, figures: ReaderFigures) -> Iterator[Metric]:
    yield gauge(f"{name}_in_sync", "Whether every watch is in sync.", figures.in_sync)
    yield from _age(f"{name}_event_age_seconds", "event", figures.seconds_since_heard)
    yield from _age(f"{name}_list_age_seconds", "complete list", figures.seconds_since_list)
    yield counter(f"{name}_requests", "Lists and watches begun.", figures.requests)
    relists = counter(f"{name}_relists", "Whole lists begun, by reason.", None, "reason")
    for relist in Relist:
        relists.add_metric([relist.value], figures.relists[relist])
    failures = counter(f"{name}_watch_failures", "Lists and watches failed.", None, "reason")
    for failure in Failure:
        failures.add_metric([failure.value], figures.failures[failure])
    yield from (relists, failures)


def _age(name: str, what: str, seconds: float | None) -> Iterator[GaugeMetricFamily]:
    """No sample before the first one: there is no age that would be right."""
    family = gauge(name, f"Since the last {what} of the watch that waits longest.", None)
    if seconds is not None:
        family.add_metric([], seconds)
    yield family
