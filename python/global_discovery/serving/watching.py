"""Follows the imported EndpointSlices of one API server, for the modes that read them.

Needs the extra `kubernetes`; nothing else of `serving` imports this. Nothing here
waits for the API server: what it shows is out of sync until it answers.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.registry import Collector

from global_discovery.domain.events import Report, ignore
from global_discovery.domain.timer import SuspendAwareTimer, Timer
from global_discovery.kubernetes.connection import ApiConnection
from global_discovery.kubernetes.credentials import find_credentials
from global_discovery.kubernetes.reader import Reader
from global_discovery.kubernetes.scope import ENDPOINT_SLICES
from global_discovery.serving.core import ImportedSources
from global_discovery.serving.metrics.slices import MemberClustersCollector, SlicesCollector
from global_discovery.slices.model import decode_slice
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
        slices = _slices(settings, report)
        pools = ImportedPools(
            slices, naming=settings.naming, watched=settings.watched, report=report
        )
        routers = None
        if settings.router_service is not None:
            routers = ImportedRouters(slices, service=settings.router_service, report=report)
        timer = SuspendAwareTimer()
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
        warned = [source.warnings for source in (pools, routers) if source is not None]
        self.figures: list[Collector] = [SlicesCollector(slices, lambda: reader.figures, warned)]
        if settings.discovery is Discovery.KARMADA:
            self._follow_member_clusters(slices, timer)
        naming = settings.naming
        self.sources = ImportedSources(
            pools,
            routers,
            naming.frontend_suffix,
            naming.frontend_port,
            explained=pools,
            figures=lambda: reader.figures,
        )

    def _follow_member_clusters(self, slices: ImportedSlices, timer: Timer) -> None:
        names = MemberClusters(slices)
        # What it may not read it does not report: few need it.
        reader = Reader(self._connection, CLUSTERS, decode_cluster, names, timer=timer)
        self._readers.append(reader)
        self.figures.append(MemberClustersCollector(names, lambda: reader.figures))

    async def run(self) -> None:
        """For ever: no failure of the API server ends it."""
        try:
            async with asyncio.TaskGroup() as group:
                for reader in self._readers:
                    group.create_task(reader.run())
        finally:
            await self._connection.close()


def _slices(settings: WatchingSettings, report: Report) -> ImportedSlices:
    loop = asyncio.get_running_loop()
    return ImportedSlices(
        settings.discovery,
        call_soon=loop.call_soon,
        gather=lambda turn: loop.call_later(GATHER_SECONDS, turn),
        report=report,
    )
