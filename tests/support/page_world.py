"""A service that has something to show on its status page, with relays and watchers of its own."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

from global_discovery.domain.clock import SystemClock
from global_discovery.domain.lease import Heartbeat, LeaseTerms
from global_discovery.domain.pool import Content, Location, PoolKey, Registration, Router
from global_discovery.serving.service import Service
from global_discovery.view.filters import EVERYTHING, PoolFilter
from support.imported import a_slice, endpoint
from support.imported_watching import ImportedWatching
from support.running import a_service

MODELS = (
    ("Qwen/Qwen3-0.6B", "l40s", 2),
    ("Qwen/Qwen3-235B-A22B", "h200", 16),
    ("deepseek-ai/DeepSeek-R1", "b200", 32),
    ("meta-llama/Llama-3.3-70B-Instruct", "h100", 8),
    ("mistralai/Mistral-Small-3.2-24B", "h100", 4),
    ("openai/gpt-oss-120b", "gb200", 8),
)
REGIONS = {"eu-central": ("fra-1", "fra-2"), "us-east": ("iad-1", "iad-2"), "ap-south": ("bom-1",)}
ROUTERS = tuple(
    Router(f"{cluster}/global-router-0", f"http://10.0.{number}.9:8090")
    for number, cluster in enumerate(("fra-1", "iad-1", "bom-1"), 1)
)


def a_call(
    number: int = 0,
    *,
    name: str = "",
    model: str = "",
    cluster: str = "",
    region: str = "",
    relay_id: str = "relay-0",
    frontends: int = 2,
) -> Heartbeat:
    """A registration as many that differ look; the same for the same arguments."""
    chosen, sku, gpus = MODELS[number % len(MODELS)]
    clusters = [(one, where) for where, all_of in REGIONS.items() for one in all_of]
    where = clusters[number // len(MODELS) % len(clusters)]
    urls = tuple(f"http://10.{number // 250}.{number % 250}.{n}:8000" for n in range(frontends))
    short = (model or chosen).rpartition("/")[2].lower().replace(".", "-")
    key = PoolKey(cluster or where[0], "llm", name or f"{short}-{number:04}"[:63])
    content = Content(
        model or chosen,
        Location(region or where[1], f"{where[1]}-a"),
        capabilities=("chat", "tools"),
        capacity=((sku, gpus),),
        frontends=urls,
    )
    registration = Registration(key, content, (f"ip:10.9.{number // 250}.{number % 250}",))
    return Heartbeat(registration, caller="10.9.0.1", relay_id=relay_id)


class MovableClock(SystemClock):
    """Runs as this machine's does, and can be moved on besides."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead

    def boottime(self) -> float:
        return super().boottime() + self._ahead

    def wall(self) -> float:
        return super().wall() + self._ahead

    def advance(self, seconds: float) -> None:
        self._ahead += seconds


class PageWorld:
    """A running service in the mode `registrations` or, with `watching`, `mcs`."""

    def __init__(
        self, service: Service, clock: MovableClock, watching: ImportedWatching | None
    ) -> None:
        self.service = service
        self.clock = clock
        self.watching = watching
        self.beating = True
        self._lease_ids: dict[tuple[PoolKey, str], str] = {}
        self._watchers: list[asyncio.Task[None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.service.rest.port}"

    async def register(self, *calls: Heartbeat) -> None:
        for call in calls:
            lease = await self.service.core.registrar.register(call)
            self._lease_ids[call.registration.key, call.relay_id] = lease.lease_id

    async def register_many(self, count: int) -> None:
        for start in range(0, count, 200):
            await self.register(*map(a_call, range(start, min(start + 200, count))))
            await asyncio.sleep(0)

    def silence(self, call: Heartbeat) -> None:
        """Its relay sends no more heartbeats."""
        del self._lease_ids[call.registration.key, call.relay_id]

    def show(self, call: Heartbeat, *, frontends: int = 2, port: str = "http") -> None:
        """Imported slices show the pool Ready."""
        assert self.watching is not None
        cluster, namespace, name = call.registration.key
        where = {"cluster": cluster, "namespace": namespace}
        ready = [
            endpoint(f"10.3.0.{n + 1}", pod=f"{name}-{n}", ready=True) for n in range(frontends)
        ]
        relay = endpoint("10.3.1.1", pod=f"{name}-relay", ready=True)
        self.watching.put(
            a_slice(f"{name}-pool-relay", relay, name=f"{cluster}-{name}-relay", **where),
            a_slice(f"{name}-frontend", *ready, name=f"{cluster}-{name}", port=port, **where),
        )

    def watch(self, wanted: PoolFilter = EVERYTHING, *, peer: str, reads: bool = True) -> None:
        """A stream of pools, of a caller who may not read it."""

        async def follow() -> None:
            watcher = self.service.core.pool_watchers.open(wanted, None, 5.0, peer=peer)
            with contextlib.suppress(Exception):
                while True:
                    await watcher.next()
                    if not reads:
                        await asyncio.Event().wait()

        self._watchers.append(asyncio.create_task(follow()))

    async def pass_time(self, seconds: float) -> None:
        """Moves the clock on, with the ticks and heartbeats of that time."""
        for _ in range(round(seconds * 4)):
            self.clock.advance(0.25)
            self.service.core.tick()
            self.service.core.pools.refresh()
            if self.beating:
                await self.service.core.registrar.renew(list(self._lease_ids.values()))

    async def beat(self, interval: float = 0.5) -> None:
        """Renews what was registered, a part at a time, as relays do."""
        chosen = random.Random(1)
        while True:
            if self.beating:
                ids = [lease for lease in self._lease_ids.values() if chosen.random() < 0.25]
                await self.service.core.registrar.renew(ids)
            await asyncio.sleep(interval)

    async def close(self) -> None:
        for task in self._watchers:
            task.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)


@contextlib.asynccontextmanager
async def a_page_world(
    *,
    slices: bool = False,
    rest_port: int = 0,
    beats: bool = True,
    terms: LeaseTerms | None = None,
) -> AsyncIterator[PageWorld]:
    """Started; its relays send heartbeats unless `beats` is false."""
    watching = ImportedWatching() if slices else None
    clock = MovableClock()
    async with a_service(
        clock=clock,
        terms=terms,
        rest_port=rest_port,
        routers=() if slices else ROUTERS,
        watching=watching,
        pool_discovery="mcs" if slices else "registrations",
    ) as service:
        world = PageWorld(service, clock, watching)
        relays = asyncio.create_task(world.beat()) if beats else None
        try:
            yield world
        finally:
            if relays is not None:
                relays.cancel()
                await asyncio.gather(relays, return_exceptions=True)
            await world.close()
