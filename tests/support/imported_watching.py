"""What follows imported slices, with the real sources: a test puts slices in by hand."""

import asyncio
from collections.abc import Sequence

from prometheus_client.registry import Collector

from global_discovery.domain.events import Report, ignore
from global_discovery.serving.core import ImportedSources
from global_discovery.slices.model import EndpointSlice
from global_discovery.slices.naming import Naming
from global_discovery.slices.recognise import Discovery
from global_discovery.sources.imported.pools import ImportedPools
from global_discovery.sources.imported.slices import ImportedSlices


class ImportedWatching:
    """Out of sync until a test says otherwise. What is put in counts at once."""

    def __init__(self, *, watched: Sequence[str] = (), report: Report = ignore) -> None:
        self.slices = ImportedSlices(
            Discovery.MCS, call_soon=lambda turn: turn(), report=report, endpoints_a_turn=1_000_000
        )
        naming = Naming()
        pools = ImportedPools(self.slices, naming=naming, watched=watched, report=report)
        self.sources = ImportedSources(
            pools, None, naming.frontend_suffix, naming.frontend_port, explained=pools
        )
        self.figures: list[Collector] = []

    async def run(self) -> None:
        await asyncio.Event().wait()

    def put(self, *slices: EndpointSlice) -> None:
        for one in slices:
            self.slices.put(one)
