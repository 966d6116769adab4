"""A running service over both sides: what its faces, probes and figures say, and its end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import grpc
import pytest

from global_discovery.domain.events import Event
from global_discovery.domain.lease import LeaseTerms
from global_discovery.domain.pool import PoolKey, Router
from global_discovery.serving.service import Service
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.clock import FakeClock
from support.grpc_calls import Watch, eventually
from support.hand_watching import HandWatching
from support.join_world import FRONTENDS, IN_SYNC, OUT_OF_SYNC, RELAYS
from support.metrics import metric
from support.pools import a_registration
from support.running import a_service, target

KEY = PoolKey("c1", "ns", "pool-00000")
ROUTER = Router("c1/router-0", "http://10.2.0.1:80")


@dataclass
class World:
    """A service in the mode `mcs` on a clock that is moved, and a caller of both faces."""

    service: Service
    watching: HandWatching
    clock: FakeClock
    events: list[tuple[Event, dict[str, object]]]
    stub: Any
    session: aiohttp.ClientSession

    async def get(self, path: str) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.service.rest.port}{path}"
        async with self.session.get(url) as answer:
            return answer.status, await answer.json(content_type=None)

    async def register(self, number: int = 0) -> None:
        await self.stub.RegisterPool(
            pb.RegisterPoolRequest(registration=a_registration(number), relay_id="r")
        )

    def end_of_starting(self) -> None:
        """The start lease passes, and no lease ends: the pool renews in it."""
        for _ in range(70):
            self.clock.advance(0.25)
            self.service.core.tick()


@asynccontextmanager
async def a_world(*, routers: bool = True) -> AsyncIterator[World]:
    watching, clock = HandWatching(routers=routers), FakeClock()
    events: list[tuple[Event, dict[str, object]]] = []
    async with (
        a_service(
            terms=LeaseTerms(5, 15),
            clock=clock,
            watching=watching,
            pool_discovery="mcs",
            report=lambda event, **fields: events.append((event, fields)),
        ) as service,
        grpc.aio.insecure_channel(target(service)) as channel,
        aiohttp.ClientSession() as session,
    ):
        yield World(service, watching, clock, events, PoolDiscoveryServiceStub(channel), session)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with a_world() as world:
        yield world


# -- before the first sync ---------------------------------------------------


async def test_it_is_ready_and_alive_without_kubernetes_and_healthy_only_once_it_was_read(
    world: World,
) -> None:
    assert [(await world.get(path))[0] for path in ("/livez", "/readyz", "/healthz")] == [
        200,
        200,
        503,
    ]
    world.watching.say(IN_SYNC)
    status, document = await world.get("/healthz")
    assert (status, document["status"]) == (200, "degraded")
    assert document["reasons"] == ["STARTING"]


async def test_health_waits_for_the_routers_too(world: World) -> None:
    world.watching.pools.say(IN_SYNC)
    assert (await world.get("/healthz"))[0] == 503
    world.watching.routers.say(IN_SYNC)
    assert (await world.get("/healthz"))[0] == 200


async def test_lists_answer_at_once_with_what_both_sides_have_shown(world: World) -> None:
    await world.register(0)
    await world.register(1)
    world.watching.show(KEY)
    world.watching.show_router(ROUTER)
    _, pools = await world.get("/pools")
    assert [pool["dgd_name"] for pool in pools["pools"]] == [KEY.dgd_name]
    assert (pools["complete"], pools["reasons"]) == (False, ["SOURCE_UNSYNCED", "STARTING"])
    _, routers = await world.get("/routers")
    assert routers == {
        "routers": [{"id": ROUTER.id, "url": ROUTER.url}],
        "complete": False,
        "reasons": ["SOURCE_UNSYNCED"],
    }
    listed = await world.stub.ListPools(pb.ListPoolsRequest())
    assert [pool.key.dgd_name for pool in listed.pools] == [KEY.dgd_name]


async def test_a_watcher_gets_reasons_without_a_position_and_its_snapshot_once_synced(
    world: World,
) -> None:
    await world.register()
    world.watching.show(KEY)
    watch = Watch(world.stub, pb.WatchPoolsRequest(idle_interval_secs=1))
    client = await watch.begun()
    assert client.server.pool_discovery == "mcs"
    (idle,) = [message for message in client.messages if message.WhichOneof("event") == "idle"]
    assert idle.position == ""
    assert len(idle.mark.reasons) == 2
    assert client.fold == {}
    world.watching.say(IN_SYNC)
    await watch.until(lambda client: bool(client.position))
    assert list(client.fold) == [KEY]
    assert {m.WhichOneof("event") for m in client.messages} == {"server", "idle", "snapshot"}
    watch.call.cancel()


# -- in sync, and out of it --------------------------------------------------


async def test_both_faces_tell_both_bounds_and_the_addresses_of_the_slices(world: World) -> None:
    world.watching.say(IN_SYNC)
    await world.register()
    world.watching.show(KEY)
    _, pools = await world.get("/pools")
    assert (pools["bound_secs"], pools["slices_bound_secs"]) == (1, 90)
    (pool,) = pools["pools"]
    assert (pool["frontends"], pool["relays"]) == ([*FRONTENDS], [*RELAYS])
    listed = await world.stub.ListPools(pb.ListPoolsRequest())
    assert (listed.mark.bound_secs, listed.mark.slices_bound_secs) == (1, 90)
    assert [*listed.pools[0].frontends] == [*FRONTENDS]


async def test_a_side_that_is_lost_later_degrades_health_and_nothing_else(world: World) -> None:
    world.watching.say(IN_SYNC)
    await world.register()
    world.end_of_starting()
    assert (await world.get("/healthz"))[1]["status"] == "ok"
    world.watching.say(OUT_OF_SYNC)
    status, document = await world.get("/healthz")
    assert (status, document) == (
        200,
        {"status": "degraded", "complete": False, "reasons": ["SOURCE_UNSYNCED"]},
    )
    assert [(await world.get(path))[0] for path in ("/livez", "/readyz")] == [200, 200]


async def test_routers_out_of_sync_alone_degrade_health(world: World) -> None:
    world.watching.say(IN_SYNC)
    await world.register()
    world.end_of_starting()
    assert (await world.get("/healthz"))[1]["status"] == "ok"
    world.watching.routers.say(OUT_OF_SYNC)
    assert (await world.get("/healthz"))[1]["reasons"] == ["SOURCE_UNSYNCED"]
    assert (await world.get("/pools"))[1]["complete"] is True
    assert (await world.get("/routers"))[1]["complete"] is False


async def test_routers_are_watched_with_their_marks(world: World) -> None:
    stream = world.stub.WatchRouters(pb.WatchRoutersRequest(idle_interval_secs=1))
    world.watching.show_router(ROUTER)
    world.watching.say(IN_SYNC)
    seen = []
    async with asyncio.timeout(30):
        async for message in stream:
            seen.append(message)
            if message.WhichOneof("event") == "snapshot":
                break
    assert [router.id for router in seen[-1].snapshot.routers] == [ROUTER.id]
    assert not seen[-1].mark.reasons
    stream.cancel()


async def test_without_a_router_service_the_list_of_routers_is_empty_and_exact() -> None:
    async with a_world(routers=False) as world:
        _, routers = await world.get("/routers")
        assert routers == {"routers": [], "complete": True, "reasons": []}
        assert [event for event, _ in world.events].count(Event.NO_ROUTERS) == 1


async def test_the_figures_of_the_join_are_served(world: World) -> None:
    world.watching.say(IN_SYNC)
    await world.register(0)
    await world.register(1)
    world.watching.show(KEY, frontends=())
    world.watching.show(PoolKey("c9", "ns", "stranger"))
    for _ in range(130):
        world.clock.advance(0.5)
        await world.register(0)
        await world.register(1)
        world.service.core.pools.refresh()
        world.service.core.tick()
    port = world.service.rest.port
    prefix = "global_discovery_"
    assert await metric(port, f'{prefix}one_sided_pools{{side="registration"}}') == 1
    assert await metric(port, f'{prefix}one_sided_pools{{side="slices"}}') == 1
    assert await metric(port, f"{prefix}pools_without_frontends") == 1
    assert await metric(port, f"{prefix}held_pools") == 0
    assert await metric(port, f"{prefix}view_slices_bound_seconds") == 90
    told = [event for event, _ in world.events]
    assert told.count(Event.POOL_ONE_SIDED) == 2
    assert told.count(Event.POOL_WITHOUT_FRONTENDS) == 1


async def test_a_stream_of_reads_and_events_repeats_no_warning(world: World) -> None:
    world.watching.say(IN_SYNC)
    await world.register()
    for _ in range(100):
        world.watching.show(KEY, frontends=())
        await world.get("/pools")
        world.service.core.tick()
    told = [event for event, _ in world.events]
    assert told.count(Event.POOL_WITHOUT_FRONTENDS) == 1


# -- its end -----------------------------------------------------------------


async def test_the_death_of_what_follows_the_slices_ends_the_service(world: World) -> None:
    running = asyncio.create_task(world.service.run())
    world.watching.dies.set()
    with pytest.raises(RuntimeError, match="died"):
        await running
    await eventually(lambda: not world.service._readiness.live())
    assert (await world.get("/livez"))[0] == 503
