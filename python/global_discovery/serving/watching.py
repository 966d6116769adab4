"""Follows the imported EndpointSlices of one API server, for the modes that read them.

Needs the extra `kubernetes`; nothing else of `serving` imports this. Nothing here
waits for the API server: what it shows is out of sync until it answers.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from global_discovery.domain.events import Event, Report, ignore
from global_discovery.domain.timer import SuspendAwareTimer
from global_discovery.kubernetes.connection import ApiConnection
from global_discovery.kubernetes.credentials import find_credentials
from global_discovery.kubernetes.failures import Failure
from global_discovery.kubernetes.figures import Relist
from global_discovery.kubernetes.reader import Reader
from global_discovery.kubernetes.scope import ENDPOINT_SLICES
from global_discovery.serving.core import ImportedSources
from global_discovery.serving.metrics import counter, gauge
from global_discovery.slices.model import EndpointSlice, decode_slice
from global_discovery.slices.naming import Naming
from global_discovery.slices.recognise import SELECTORS, Discovery
from global_discovery.sources.imported.member_clusters import (
    CLUSTERS,
    MemberClusters,
    decode_cluster,
)
from global_discovery.sources.imported.pools import ImportedPools
from global_discovery.sources.imported.routers import ImportedRouters, RouterService
from global_discovery.sources.imported.slices import ImportedSlices

WARNINGS = (Event.FRONTEND_PORT_MISSING, Event.SLICE_DAMAGED, Event.TOO_MANY_ENDPOINTS)
GATHER_SECONDS = 0.05
"""Between the first event of several and the look at all of them."""


@dataclass(frozen=True, slots=True)
class WatchingSettings:
    """Where slices are read, and what they mean."""

    discovery: Discovery
    naming: Naming
    router_service: RouterService | None = None
    kubeconfig: str | None = None
    strict_x509: bool = True
    namespaces: Sequence[str] = ()
    """Those that are watched, beside that of the routers; none: all."""

    @property
    def watched(self) -> list[str]:
        """Every namespace to watch; none: all."""
        if not self.namespaces:
            return []
        routers = [] if self.router_service is None else [self.router_service.namespace]
        return [*self.namespaces, *routers]


class SlicesWatching:
    """One watch, and the sources that read what it brings."""

    def __init__(self, settings: WatchingSettings, *, report: Report = ignore) -> None:
        """Must be made inside the event loop; asks nothing yet."""
        loop = asyncio.get_running_loop()
        timer = SuspendAwareTimer()
        slices = ImportedSlices(
            settings.discovery,
            call_soon=loop.call_soon,
            gather=lambda turn: loop.call_later(GATHER_SECONDS, turn),
            report=report,
        )
        pools = ImportedPools(
            slices, naming=settings.naming, watched=settings.watched, report=report
        )
        routers = None
        if settings.router_service is not None:
            routers = ImportedRouters(slices, service=settings.router_service, report=report)
        connection = ApiConnection(
            find_credentials(settings.kubeconfig), timer=timer, strict_x509=settings.strict_x509
        )
        reader = Reader(
            connection,
            ENDPOINT_SLICES,
            decode_slice,
            slices,
            label_selector=SELECTORS[settings.discovery],
            namespaces=settings.watched,
            timer=timer,
            report=report,
        )
        self._connection = connection
        self._readers: list[Reader[Any]] = [reader]
        if settings.discovery is Discovery.KARMADA:
            names = MemberClusters(slices)
            # What it may not read it does not report: few need it.
            clusters = Reader(connection, CLUSTERS, decode_cluster, names, timer=timer)
            self._readers.append(clusters)
        warned = [source.warnings for source in (pools, routers) if source is not None]
        self.figures: Collector = WatchingCollector(slices, reader, warned)
        naming = settings.naming
        self.sources = ImportedSources(
            pools,
            routers,
            naming.frontend_suffix,
            naming.frontend_port,
            explained=pools,
            figures=lambda: reader.figures,
        )

    async def run(self) -> None:
        """For ever: no failure of the API server ends it."""
        try:
            async with asyncio.TaskGroup() as group:
                for reader in self._readers:
                    group.create_task(reader.run())
        finally:
            await self._connection.close()


class WatchingCollector(Collector):
    """Reads the watch's own figures at each scrape."""

    def __init__(
        self,
        slices: ImportedSlices,
        reader: Reader[EndpointSlice],
        warned: Sequence[Callable[[], Counter[Event]]],
    ) -> None:
        """Reads only; `warned` says what holds of the warnings about slices."""
        self._slices = slices
        self._reader = reader
        self._warned = warned

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        figures = self._reader.figures
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
        yield gauge("slices_in_sync", "Whether every watch is in sync.", figures.in_sync)
        yield from _age("slices_event_age_seconds", "event", figures.seconds_since_heard)
        yield from _age("slices_list_age_seconds", "complete list", figures.seconds_since_list)
        yield counter("slices_requests", "Lists and watches begun.", figures.requests)
        relists = counter("slices_relists", "Whole lists begun, by reason.", None, "reason")
        for relist in Relist:
            relists.add_metric([relist.value], figures.relists[relist])
        failures = counter("slices_watch_failures", "Lists and watches failed.", None, "reason")
        for failure in Failure:
            failures.add_metric([failure.value], figures.failures[failure])
        yield from (relists, failures)


def _age(name: str, what: str, seconds: float | None) -> Iterator[GaugeMetricFamily]:
    """No sample before the first one: there is no age that would be right."""
    family = gauge(name, f"Since the last {what} of the watch that waits longest.", None)
    if seconds is not None:
        family.add_metric([], seconds)
    yield family
