"""What follows imported slices, moved by a test instead of an API server."""

import asyncio

from prometheus_client.registry import Collector

from global_discovery.domain.completeness import Mark
from global_discovery.domain.pool import PoolKey, Router
from global_discovery.serving.core import ImportedSources
from global_discovery.slices.imported import ImportedPool
from global_discovery.slices.naming import Naming
from global_discovery.slices.recognise import Discovery
from global_discovery.sources.imported.pools import ImportedPools
from global_discovery.sources.imported.slices import ImportedSlices
from support.hand_source import HandSource
from support.join_world import FRONTENDS, OUT_OF_SYNC, RELAYS


class HandWatching:
    """Out of sync until a test says otherwise; its task ends when a test wants that."""

    def __init__(self, *, routers: bool = True) -> None:
        self.pools = HandSource(mark=OUT_OF_SYNC, synced=False)
        self.routers = HandSource(mark=OUT_OF_SYNC, synced=False) if routers else None
        no_slices = ImportedSlices(Discovery.MCS, call_soon=lambda turn: turn())
        unexplained = ImportedPools(no_slices, naming=Naming())
        self.sources = ImportedSources(
            self.pools, self.routers, "-frontend", "http", explained=unexplained
        )
        self.figures: list[Collector] = []
        self.dies = asyncio.Event()

    async def run(self) -> None:
        await self.dies.wait()
        raise RuntimeError("died")

    def say(self, mark: Mark, *, synced: bool = True) -> None:
        self.pools.say(mark, synced=synced)
        if self.routers is not None:
            self.routers.say(mark, synced=synced)

    def show(self, key: PoolKey, *, frontends: tuple[str, ...] = FRONTENDS) -> None:
        self.pools.put(ImportedPool(key, RELAYS, frontends, 1, True))

    def show_router(self, router: Router) -> None:
        assert self.routers is not None
        self.routers.put(router)
