"""Many streams, slow streams, and streams that break, over real connections."""

import asyncio
import gc
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc
import psutil
import pytest
from prometheus_client import CollectorRegistry

from global_discovery.domain.errors import ShuttingDown
from global_discovery.domain.pool import PoolKey
from global_discovery.serving.access.guard import Guard
from global_discovery.serving.grpc import errors
from global_discovery.serving.grpc.peer import GrpcPeer
from global_discovery.serving.grpc.service import PoolDiscovery
from global_discovery.serving.metrics import CallMetrics
from global_discovery.serving.service import Service
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.clock import FakeClock
from support.fold import FoldingClient, key_of
from support.grpc_calls import Stub, Watch, all_of, eventually
from support.pools import a_heartbeat, a_registration, pool_key
from support.running import a_service, target
from support.tcp_proxy import tcp_proxy

LARGE = [f"http://10.0.0.1:8000/{'x' * 400}/{number}" for number in range(140)]
"""Frontends of about 60 KiB."""
MIB = 1024 * 1024


@asynccontextmanager
async def client_of(service: Service) -> AsyncIterator[Stub]:
    """On a connection of its own."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(target(service), options=options) as channel:
        yield PoolDiscoveryServiceStub(channel)


def register(service: Service, count: int, *, model: str = "m", large: bool = False) -> None:
    """Straight into the registrations, for speed."""
    frontends = LARGE if large else ("http://10.0.0.1:8000",)
    for number in range(count):
        call = a_heartbeat(pool_key(number), model=model, frontends=frontends)
        service.core.registrations.register(call)


def all_have(model: str, count: int) -> Callable[[FoldingClient], bool]:
    """Whether a client has so many pools, all with one model."""

    def reached(client: FoldingClient) -> bool:
        models = [pool.model for pool in client.fold.values()]
        return models == [model] * count

    return reached


async def flood(service: Service, holds: Callable[[], bool]) -> None:
    """Changes 12 MiB again and again; how much a connection takes unread is its own choice."""
    rounds = itertools.count()

    def change() -> bool:
        register(service, 200, model=str(next(rounds)), large=True)
        return holds()

    await eventually(change)


def calls_ended(service: Service, code: str, method: str = "WatchPools") -> float:
    labels = {"face": "grpc", "method": method, "code": code}
    return service.registry.get_sample_value("global_discovery_calls_total", labels) or 0.0


class TestManyStreams:
    async def test_500_on_one_connection_all_reach_the_last_position(
        self, service: Service, stub: Stub
    ) -> None:
        watches = [Watch(stub) for _ in range(500)]
        await all_of(*(watch.begun() for watch in watches))
        reading = asyncio.create_task(
            all_of(*(watch.until(all_have("last", 1)) for watch in watches))
        )
        for number in range(100):
            model = "last" if number == 99 else str(number)
            call = pb.RegisterPoolRequest(registration=a_registration(model=model))
            await stub.RegisterPool(call)
        clients = await reading
        listed = await stub.ListPools(pb.ListPoolsRequest())
        assert {client.position for client in clients} == {listed.position}
        assert len(service.core.pool_watchers) == 500

    async def test_300_that_are_opened_and_cancelled_leave_nothing_behind(
        self, service: Service, stub: Stub
    ) -> None:
        await Watch(stub).begun()
        before = len(asyncio.all_tasks())
        for _ in range(6):
            watches = [Watch(stub) for _ in range(50)]
            await all_of(*(watch.begun() for watch in watches[:25]))
            for watch in watches:
                watch.call.cancel()
            await eventually(lambda: len(service.core.pool_watchers) == 1)
        await eventually(lambda: len(asyncio.all_tasks()) <= before)
        assert len(service.core.pool_watchers._feeds) == 1
        assert calls_ended(service, "INTERNAL") == 0

    async def test_filters_are_applied_for_each(self, stub: Stub) -> None:
        wanted = {name: pb.PoolFilter(models=[name]) for name in ("a", "b")}
        watches = {name: Watch(stub, pb.WatchPoolsRequest(filter=wanted[name])) for name in wanted}
        await all_of(*(watch.begun() for watch in watches.values()))
        for number in range(6):
            registration = a_registration(number, model="ab"[number % 2])
            await stub.RegisterPool(pb.RegisterPoolRequest(registration=registration))
        for name, watch in watches.items():
            await watch.until(all_have(name, 3))


class TestBreaking:
    async def test_a_stream_that_was_cut_goes_on_where_it_was(
        self, service: Service, stub: Stub
    ) -> None:
        register(service, 3)
        async with tcp_proxy(service.grpc.port) as proxy:
            options = [("grpc.use_local_subchannel_pool", 1)]
            address = f"127.0.0.1:{proxy.port}"
            async with grpc.aio.insecure_channel(address, options=options) as channel:
                watch = Watch(PoolDiscoveryServiceStub(channel))
                await watch.begun()
                proxy.cut()
                end = await watch.end()
                assert end is not None
                assert end.code is grpc.StatusCode.UNAVAILABLE
        key = a_registration(1).key
        await stub.DeregisterPool(pb.DeregisterPoolRequest(key=key, all_shares=True))
        register(service, 1, model="new")
        begun = len(watch.client.messages)
        request = pb.WatchPoolsRequest(position=watch.client.position)
        again = Watch(stub, request, watch.client)
        await again.until(lambda client: len(client.messages) == begun + 2)
        message = watch.client.messages[-1]
        assert [key_of(pool.key) for pool in message.changes.pools] == [pool_key(0)]
        assert [key_of(gone) for gone in message.changes.removed] == [pool_key(1)]
        await eventually(lambda: len(service.core.pool_watchers) == 1)

    @pytest.mark.parametrize("how", ["cancel", "cut"])
    async def test_a_client_that_goes_while_it_is_written_to_is_no_fault(
        self, service: Service, how: str
    ) -> None:
        """Its stream is full: a write waits when the connection breaks."""
        register(service, 150, large=True)
        async with tcp_proxy(service.grpc.port) as proxy:
            options = [("grpc.use_local_subchannel_pool", 1)]
            address = f"127.0.0.1:{proxy.port}"
            async with grpc.aio.insecure_channel(address, options=options) as channel:
                watches = [Watch(PoolDiscoveryServiceStub(channel)) for _ in range(10)]
                for watch in watches:
                    await watch.read()
                await eventually(lambda: service.core.pool_watchers.counters.snapshots == 10)
                for watch in watches:
                    watch.call.cancel()
                    if how == "cut":
                        proxy.cut()
            await eventually(lambda: len(service.core.pool_watchers) == 0)
        await eventually(lambda: calls_ended(service, "CANCELLED") == 10)
        assert calls_ended(service, "INTERNAL") == 0


class TestAge:
    async def test_an_old_stream_ends_with_ok_and_goes_on_with_its_position(self) -> None:
        async with a_service(stream_age=(0.0, 0.0)) as service, client_of(service) as stub:
            watch = Watch(stub, pb.WatchPoolsRequest(idle_interval_secs=1))
            assert await watch.end() is None
            assert watch.client.position
            again = Watch(stub, pb.WatchPoolsRequest(position=watch.client.position))
            await again.begun()
            assert again.client.messages[1].WhichOneof("event") == "changes"


class TestSlowWatchers:
    async def test_those_that_stop_reading_are_ended_and_nobody_else_notices(
        self, clock: FakeClock
    ) -> None:
        async with a_service(clock=clock, slow_watcher_seconds=1) as service:
            register(service, 1)
            async with (
                client_of(service) as one,
                client_of(service) as two,
                client_of(service) as reader,
            ):
                slow = [Watch(stub) for stub in (one, one, one, two, two)]
                await all_of(*(watch.begun() for watch in slow))
                quick = Watch(reader)
                await quick.begun()
                reading = asyncio.create_task(quick.until(all_have("after", 200)))
                await flood(service, lambda: service.core.pool_watchers.counters.slow == 5)
                register(service, 200, model="after")
                await reading
                assert len(service.core.pool_watchers) == 1
                for end in await all_of(*(watch.end() for watch in slow)):
                    assert end is not None
                    assert (end.code, end.reason) == (
                        grpc.StatusCode.UNAVAILABLE,
                        "SLOW_WATCHER",
                    )
                    assert end.retry_seconds
                assert calls_ended(service, "UNAVAILABLE") == 5

    async def test_one_that_was_ended_goes_on_with_its_last_position(
        self, clock: FakeClock
    ) -> None:
        async with a_service(clock=clock, slow_watcher_seconds=1) as service:
            register(service, 1)
            async with client_of(service) as stub:
                watch = Watch(stub)
                await watch.begun()
                await flood(service, lambda: service.core.pool_watchers.counters.slow == 1)
                await watch.end()
                register(service, 200, model="after")
                request = pb.WatchPoolsRequest(position=watch.client.position)
                again = Watch(stub, request, watch.client)
                await again.until(all_have("after", 200))

    async def test_one_that_never_reads_again_keeps_no_task(
        self, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its status waits behind what it does not read, and the server does not."""
        monkeypatch.setattr(errors, "ABORT_SECONDS", 0.1)
        async with a_service(clock=clock, slow_watcher_seconds=1) as service:
            register(service, 1)
            async with client_of(service) as stub:
                watch = Watch(stub)
                await watch.begun()
                await flood(service, lambda: service.core.pool_watchers.counters.slow == 1)
                await eventually(lambda: calls_ended(service, "UNAVAILABLE") == 1)
                assert len(service.core.pool_watchers) == 0
                watch.call.cancel()

    async def test_they_cost_bounded_memory(self, service: Service) -> None:
        """Twenty times six MiB pass by five that do not read: queued it would be 600 MiB."""
        register(service, 1)
        process = psutil.Process()
        async with client_of(service) as stub, client_of(service) as reader:
            slow = [Watch(stub) for _ in range(5)]
            await all_of(*(watch.begun() for watch in slow))
            quick = Watch(reader)
            await quick.begun()
            register(service, 100, model="warm", large=True)
            await quick.until(all_have("warm", 100))
            gc.collect()
            before = process.memory_info().rss
            for number in range(20):
                register(service, 100, model=str(number), large=True)
                await quick.until(all_have(str(number), 100))
                quick.client.messages.clear()
            gc.collect()
            grown = process.memory_info().rss - before
            assert grown < 250 * MIB
            assert service.core.pool_watchers.furthest_behind >= 1000
            for watch in slow:
                watch.call.cancel()

    async def test_a_shutdown_does_not_wait_for_them(self, service: Service) -> None:
        async with client_of(service) as stub:
            watch = Watch(stub)
            await watch.begun()
            await flood(service, lambda: service.core.pool_watchers.furthest_behind >= 1000)
            async with asyncio.timeout(20):
                await service.stop()
            assert len(service.core.pool_watchers) == 0

    async def test_one_that_goes_during_a_shutdown_is_cancelled_and_not_answered(
        self, service: Service
    ) -> None:
        """The handler by itself: on a connection either may be noticed first."""

        class Full:
            def __init__(self) -> None:
                self.waits = asyncio.Event()

            def peer(self) -> str:
                return "ipv4:127.0.0.1:1"

            async def write(self, _: bytes) -> None:
                self.waits.set()
                await asyncio.Event().wait()

        context, metrics = Full(), CallMetrics(CollectorRegistry())
        handlers = PoolDiscovery(service.core, Guard(), metrics)
        visit = await Guard().visit(GrpcPeer(context), "WatchPools")  # type: ignore[arg-type]
        task = asyncio.create_task(
            handlers._watch_pools(pb.WatchPoolsRequest(), visit, context)  # type: ignore[arg-type]
        )
        await context.waits.wait()
        service.core.pool_watchers.end_all(ShuttingDown())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(service.core.pool_watchers) == 0


class TestLargeViews:
    POOLS = 20_000

    async def test_a_client_with_the_usual_limit_gets_20000_pools(
        self, service: Service, stub: Stub
    ) -> None:
        register(service, self.POOLS)
        watch = Watch(stub)
        await watch.begun()
        sizes = [message.ByteSize() for message in watch.client.messages]
        assert max(sizes) <= 256 * 1024
        assert sum(sizes) > 1.5 * MIB
        listed: list[PoolKey] = []
        token = ""
        while True:
            request = pb.ListPoolsRequest(page_size=self.POOLS, page_token=token)
            page = await stub.ListPools(request)
            assert page.ByteSize() < 1.1 * MIB
            assert page.position == watch.client.position
            listed += [PoolKey(*key_of(pool.key)) for pool in page.pools]
            token = page.next_page_token
            if not token:
                break
        assert listed == sorted(listed)
        assert len(listed) == self.POOLS
        assert set(listed) == set(watch.client.fold)

    async def test_they_all_leave_in_parts_too(
        self, service: Service, stub: Stub, clock: FakeClock
    ) -> None:
        register(service, self.POOLS)
        watch = Watch(stub)
        await watch.begun()
        begun = len(watch.client.messages)
        for _ in range(9):
            clock.advance(4)
            service.core.tick()
        await watch.until(lambda client: not client.fold)
        assert len(watch.client.carried) == self.POOLS, "a mass lapse removes nothing"
        sizes = [message.ByteSize() for message in watch.client.messages[begun:]]
        assert max(sizes) <= 256 * 1024
