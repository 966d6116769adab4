"""The server itself: its port, health, reflection, and its first and last moments."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from global_discovery.domain.errors import ShuttingDown
from global_discovery.serving.grpc.health import Health
from global_discovery.serving.grpc.service import SERVICE
from global_discovery.serving.service import Service, ServiceSettings
from global_discovery.storage.memory import MemoryStore
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.grpc_calls import PATIENCE_SECONDS, Watch, all_of, eventually, refusal, refused
from support.pools import a_registration
from support.running import a_service, target

Status = health_pb2.HealthCheckResponse
NAMES = ["", SERVICE]


class SlowToOpen(MemoryStore):
    """A store whose reading takes as long as a test wants."""

    def __init__(self) -> None:
        self.may_open = asyncio.Event()

    async def open(self) -> None:
        await self.may_open.wait()


@asynccontextmanager
async def starting(store: SlowToOpen) -> AsyncIterator[Service]:
    """A service whose ports are open and whose store is still being read."""
    settings = ServiceSettings(listen="127.0.0.1:0", grpc_listen="127.0.0.1:0")
    service = Service(settings, store)
    start = asyncio.create_task(service.start())
    try:
        await eventually(lambda: service._tasks)
        yield service
    finally:
        store.may_open.set()
        await start
        await service.stop()


async def check(channel: grpc.aio.Channel, name: str = "") -> int:
    stub = health_pb2_grpc.HealthStub(channel)
    answer: Any = await stub.Check(health_pb2.HealthCheckRequest(service=name))
    return int(answer.status)


def health_watch(channel: grpc.aio.Channel, name: str = "") -> Any:
    return health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=name))


class TestHealth:
    async def test_not_serving_until_the_store_was_read(self) -> None:
        store = SlowToOpen()
        async with (
            starting(store) as service,
            grpc.aio.insecure_channel(target(service)) as channel,
        ):
            watches = [health_watch(channel, name) for name in NAMES]
            assert [await check(channel, name) for name in NAMES] == [Status.NOT_SERVING] * 2
            assert [(await watch.read()).status for watch in watches] == [Status.NOT_SERVING] * 2
            store.may_open.set()
            assert [(await watch.read()).status for watch in watches] == [Status.SERVING] * 2
            assert [await check(channel, name) for name in NAMES] == [Status.SERVING] * 2

    async def test_registrations_are_refused_and_lists_estimated_until_then(self) -> None:
        async with (
            starting(SlowToOpen()) as service,
            grpc.aio.insecure_channel(target(service)) as channel,
        ):
            stub = PoolDiscoveryServiceStub(channel)
            call = pb.RegisterPoolRequest(registration=a_registration())
            error = await refused(stub.RegisterPool(call))
            assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "NOT_READY")
            assert error.retry_seconds
            answer = await stub.ListPools(pb.ListPoolsRequest())
            assert answer.mark.completeness == pool_pb2.COMPLETENESS_ESTIMATED
            assert not (await Watch(stub).begun()).exact

    async def test_not_serving_is_told_before_the_end(self) -> None:
        async with (
            a_service() as service,
            grpc.aio.insecure_channel(target(service)) as channel,
        ):
            watch = health_watch(channel)
            assert (await watch.read()).status == Status.SERVING
            stop = asyncio.create_task(service.stop())
            assert (await watch.read()).status == Status.NOT_SERVING
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await watch.read()
            assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
            await stop

    async def test_all_are_listed(self, channel: grpc.aio.Channel) -> None:
        stub = health_pb2_grpc.HealthStub(channel)
        answer: Any = await stub.List(health_pb2.HealthListRequest())
        statuses = {name: status.status for name, status in answer.statuses.items()}
        assert statuses == dict.fromkeys(NAMES, Status.SERVING)

    async def test_another_name_is_not_found_and_watched_as_unknown(
        self, channel: grpc.aio.Channel
    ) -> None:
        error = await refused(check(channel, "other"))
        assert error.code is grpc.StatusCode.NOT_FOUND
        watch = health_watch(channel, "other")
        assert (await watch.read()).status == Status.SERVICE_UNKNOWN

    async def test_a_watcher_that_does_not_read_holds_up_nobody(self) -> None:
        """No status is long enough to fill a real connection, so its write is a stand-in."""

        class Stuck:
            async def write(self, _: Any) -> None:
                await asyncio.Event().wait()

        class Reading:
            def __init__(self) -> None:
                self.told: asyncio.Queue[int] = asyncio.Queue()

            async def write(self, message: Any) -> None:
                self.told.put_nowait(message.status)

        health, reading = Health([SERVICE]), Reading()
        request = health_pb2.HealthCheckRequest()
        tasks = [
            asyncio.create_task(health.Watch(request, context)) for context in (Stuck(), reading)
        ]
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await reading.told.get() == Status.NOT_SERVING
            health.set_all(serving=True)
            assert await reading.told.get() == Status.SERVING
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not health._watchers

    async def test_watchers_that_are_gone_are_forgotten(
        self, service: Service, channel: grpc.aio.Channel
    ) -> None:
        watches = [health_watch(channel) for _ in range(20)]
        for watch in watches:
            await watch.read()
        for watch in watches:
            watch.cancel()
        await eventually(lambda: not service.grpc.health._watchers)


class TestReflection:
    async def test_a_tool_finds_the_services(self, channel: grpc.aio.Channel) -> None:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        call: Any = stub.ServerReflectionInfo()
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        answer = await call.read()
        names = {service.name for service in answer.list_services_response.service}
        assert names == {
            SERVICE,
            "grpc.health.v1.Health",
            "grpc.reflection.v1alpha.ServerReflection",
        }
        call.cancel()

    async def test_the_librarys_own_client_reads_every_call_with_its_types(
        self, service: Service
    ) -> None:
        def look() -> dict[str, str]:
            with grpc.insecure_channel(target(service)) as channel:
                database = ProtoReflectionDescriptorDatabase(channel)
                file = database.FindFileContainingSymbol(SERVICE)
                (described,) = [one for one in file.service if SERVICE.endswith(one.name)]
                database.FindFileByName("global_discovery/v1/pool.proto")
                return {method.name: method.output_type for method in described.method}

        found = await asyncio.to_thread(look)
        own = pb.DESCRIPTOR.services_by_name["PoolDiscoveryService"].methods
        assert found == {method.name: f".{method.output_type.full_name}" for method in own}


class TestPort:
    async def test_a_second_service_on_the_port_fails(self, service: Service) -> None:
        with pytest.raises(OSError, match=r"cannot listen on 127\.0\.0\.1"):
            async with a_service(port=service.grpc.port):
                pass

    async def test_the_port_is_free_after_the_end(self) -> None:
        async with a_service() as service:
            port = service.grpc.port
        async with a_service(port=port) as again:
            assert again.grpc.port == port


class TestStop:
    async def test_a_hundred_watchers_are_ended_with_a_status_on_which_they_come_back(
        self,
    ) -> None:
        async with (
            a_service() as service,
            grpc.aio.insecure_channel(target(service)) as channel,
        ):
            stub = PoolDiscoveryServiceStub(channel)
            watches = [Watch(stub) for _ in range(100)]
            await all_of(*(watch.begun() for watch in watches))
            ends = asyncio.create_task(all_of(*(watch.end() for watch in watches)))
            await service.stop()
            for end in await ends:
                assert end is not None
                assert (end.code, end.reason) == (
                    grpc.StatusCode.UNAVAILABLE,
                    "SHUTTING_DOWN",
                )
                assert end.retry_seconds
            assert len(service.core.pool_watchers) == 0

    async def test_streams_and_registrations_that_come_then_are_refused_alike(self) -> None:
        async with (
            a_service() as service,
            grpc.aio.insecure_channel(target(service)) as channel,
        ):
            stub = PoolDiscoveryServiceStub(channel)
            service.core.registrar.shut()
            service.core.pool_watchers.end_all(ShuttingDown())
            end = await Watch(stub).end()
            call = pb.RegisterPoolRequest(registration=a_registration())
            registering = await refused(stub.RegisterPool(call))
            assert end is not None
            for error in (end, registering):
                assert (error.code, error.reason) == (
                    grpc.StatusCode.UNAVAILABLE,
                    "SHUTTING_DOWN",
                )

    async def test_a_client_that_goes_during_the_shutdown_is_no_fault(self) -> None:
        """It neither reads what is written to it nor the end of its stream."""
        async with a_service() as service:
            channel = grpc.aio.insecure_channel(target(service))
            stub = PoolDiscoveryServiceStub(channel)
            watches = [Watch(stub) for _ in range(20)]
            await all_of(*(watch.begun() for watch in watches))
            stop = asyncio.create_task(service.stop())
            for watch in watches:
                watch.call.cancel()
            await channel.close()
            await stop
            assert len(service.core.pool_watchers) == 0

    async def test_a_stream_that_grpc_ends_says_so_as_an_error(self) -> None:
        async with (
            a_service() as service,
            grpc.aio.insecure_channel(target(service)) as channel,
        ):
            watch = Watch(PoolDiscoveryServiceStub(channel))
            await watch.begun()
            await service.grpc.stop(0)
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await watch.call.read()
            assert refusal(ended.value).code is grpc.StatusCode.UNAVAILABLE
