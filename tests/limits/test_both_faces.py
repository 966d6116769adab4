"""Limits as callers meet them: over real sockets, from many addresses, on a clock that stands."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from global_discovery.domain.access import ALL_RIGHTS, EVERY_KEY, NO_KEY, Rights
from global_discovery.domain.events import Event
from global_discovery.serving.limits import ServiceLimits
from global_discovery.serving.service import Service
from global_discovery.sources.registered.admission import RegistrationLimits
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.clock import FakeClock
from support.grpc_calls import PATIENCE_SECONDS, Refusal, Stub, eventually, refusal, refused
from support.metrics import metric
from support.rest import Reply, a_body, parse_replies
from support.running import a_service, target

FEW = ServiceLimits(
    registrations=RegistrationLimits(pools=3, shares=4, new_shares_per_second=100),
    watchers=3,
    watchers_per_caller=2,
)


@dataclass
class Told:
    """What the service reported."""

    events: list[tuple[Event, dict[str, Any]]] = field(default_factory=list)

    def __call__(self, event: Event, **fields: Any) -> None:
        self.events.append((event, fields))

    def of_limits(self) -> list[dict[str, Any]]:
        return [fields for event, fields in self.events if event is Event.LIMIT_REACHED]


@dataclass
class Running:
    service: Service
    clock: FakeClock
    told: Told
    stub: Stub

    async def register(self, number: int, **more: Any) -> pb.RegisterPoolResponse:
        registration = pool_pb2.PoolRegistration(
            key=pool_pb2.PoolKey(cluster_id="c1", namespace="ns", dgd_name=f"pool-{number:05}"),
            model=more.pop("model", "m"),
            location=pool_pb2.Location(region="r1"),
        )
        request = pb.RegisterPoolRequest(registration=registration, **more)
        return await self.stub.RegisterPool(request)

    async def post(self, number: int, source: str = "127.0.0.1", **more: Any) -> Reply:
        body = json.dumps(a_body(number, **more)).encode()
        return await self.http("POST /pools", body, source)

    async def http(self, what: str, body: bytes = b"", source: str = "127.0.0.1") -> Reply:
        """One request, on a connection of its own, from an address of loopback."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.service.rest.port, local_addr=(source, 0)
        )
        head = (
            f"{what} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                writer.write(head.encode() + body)
                return parse_replies(await reader.read())[0]
        finally:
            writer.close()


@asynccontextmanager
async def running(
    limits: ServiceLimits, *, anonymous: Rights = ALL_RIGHTS
) -> AsyncIterator[Running]:
    clock, told = FakeClock(), Told()
    async with (
        a_service(clock=clock, limits=limits, report=told, anonymous=anonymous) as service,
        grpc.aio.insecure_channel(target(service)) as channel,
    ):
        yield Running(service, clock, told, PoolDiscoveryServiceStub(channel))


def is_limit(told: Refusal, limit: str) -> bool:
    assert told.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert told.reason == "LIMIT_REACHED"
    assert told.retry_seconds is not None
    assert told.retry_seconds > 0
    return told.metadata["limit"] == limit


def is_429(reply: Reply, limit: str) -> bool:
    assert reply.status == 429
    assert reply.json["code"] == "LIMIT_REACHED"
    assert int(reply.headers["retry-after"]) >= 1
    return bool(reply.json["limit"] == limit)


async def test_a_full_list_refuses_new_pools_on_both_faces_and_renews_the_others() -> None:
    async with running(FEW) as world:
        leases = [(await world.register(number)).lease_id for number in range(3)]
        assert is_limit(await refused(world.register(3)), "pools")
        assert is_429(await world.post(4), "pools")
        await world.register(0, lease_id=leases[0])
        await world.register(1, lease_id=leases[1], model="changed")
        assert (await world.post(2)).status == 200
        listed = await world.stub.ListPools(pb.ListPoolsRequest())
        assert len(listed.pools) == 3


async def test_a_full_list_refuses_new_shares_of_its_pools() -> None:
    async with running(FEW) as world:
        for relay_id in ("a", "b", "c", "d"):
            await world.register(0, relay_id=relay_id)
        assert is_limit(await refused(world.register(0, relay_id="e")), "shares")
        assert is_429(await world.post(0, relay_id="e"), "shares")
        await world.register(0, relay_id="d")


async def test_a_caller_that_begins_too_many_shares_is_refused_and_no_other_one() -> None:
    limits = ServiceLimits(registrations=RegistrationLimits(new_shares_per_second=1))
    async with running(limits) as world:
        for number in range(3):
            assert (await world.post(number, "127.0.0.2")).status == 200
        assert is_429(await world.post(3, "127.0.0.2"), "new_shares_per_second")
        assert (await world.post(0, "127.0.0.2")).status == 200, "a renewal is no new share"
        assert (await world.post(3, "127.0.0.3")).status == 200
        for number in range(4, 7):
            await world.register(number)
        assert is_limit(await refused(world.register(7)), "new_shares_per_second")
        world.clock.advance(1.0)
        await world.register(7)


async def test_an_attacker_with_many_addresses_fills_the_list_and_loses_nobody() -> None:
    limits = ServiceLimits(registrations=RegistrationLimits(pools=50))
    async with running(limits) as world:
        assert (await world.post(0)).status == 200
        replies = await asyncio.gather(
            *(world.post(number, f"127.0.{number}.2") for number in range(1, 100))
        )
        assert [reply.status for reply in replies].count(429) == 50
        assert (await world.post(0)).status == 200
        assert (
            await metric(world.service.rest.port, 'global_discovery_limit_used{limit="pools"}')
            == 50
        )


async def test_watches_are_bounded_for_one_and_for_all() -> None:
    async with running(FEW) as world:
        one, two = (world.stub.WatchPools(pb.WatchPoolsRequest()) for _ in range(2))
        await one.read()
        await two.read()
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await world.stub.WatchPools(pb.WatchPoolsRequest()).read()
        assert is_limit(refusal(error.value), "watchers_per_caller")
        with pytest.raises(grpc.aio.AioRpcError):
            await world.stub.WatchRouters(pb.WatchRoutersRequest()).read()
        one.cancel()
        await eventually(lambda: len(world.service.core.limits.seats) == 1)
        assert await world.stub.WatchPools(pb.WatchPoolsRequest()).read() != grpc.aio.EOF


async def test_a_watch_that_was_refused_for_its_request_gives_its_place_back() -> None:
    async with running(FEW) as world:
        for _ in range(5):
            call = world.stub.WatchPools(pb.WatchPoolsRequest(position="damaged"))
            with pytest.raises(grpc.aio.AioRpcError):
                await call.read()
        assert len(world.service.core.limits.seats) == 0


async def test_500_watches_on_one_connection_work_with_the_usual_limits() -> None:
    async with running(ServiceLimits()) as world:
        calls = [world.stub.WatchPools(pb.WatchPoolsRequest()) for _ in range(500)]
        async with asyncio.timeout(PATIENCE_SECONDS):
            first = await asyncio.gather(*(call.read() for call in calls))
        assert all(message.HasField("server") for message in first)
        for call in calls:
            call.cancel()
        await eventually(lambda: len(world.service.core.limits.seats) == 0)


async def test_large_requests_beyond_the_bytes_of_a_second_are_refused_and_small_ones_taken() -> (
    None
):
    padding = "x" * 90_000
    all_of_a_second = len(json.dumps(a_body(0, unknown=padding)))
    async with running(ServiceLimits(bytes_per_second=all_of_a_second)) as world:
        assert (await world.post(0, unknown=padding)).status == 200
        assert is_429(await world.post(1, unknown=padding), "bytes_per_second")
        assert (await world.post(0)).status == 200
        assert (await world.post(1, "127.0.0.2")).status == 200
        relays = [f"ip:10.{n >> 8}.{n & 255}.1" for n in range(7_000)]
        key = pool_pb2.PoolKey(cluster_id="c1", namespace="ns", dgd_name="p")
        request = pb.DeregisterPoolRequest(key=key, relays=relays)
        assert is_limit(await refused(world.stub.DeregisterPool(request)), "bytes_per_second")


async def test_a_refused_large_body_is_not_read() -> None:
    limits = ServiceLimits(bytes_per_second=100_000)
    async with running(limits) as world:
        assert (await world.post(0, unknown="x" * 90_000)).status == 200
        reader, writer = await asyncio.open_connection("127.0.0.1", world.service.rest.port)
        writer.write(
            b"POST /pools HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 90000\r\n\r\n"
        )
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert (await reader.readline()).startswith(b"HTTP/1.1 429")
        writer.close()


async def test_the_largest_body_is_a_flag_on_both_faces() -> None:
    limits = ServiceLimits(body_bytes=150_000)
    async with running(limits) as world:
        assert (await world.post(0, unknown="x" * 140_000)).status == 200
        assert (await world.post(0, unknown="x" * 160_000)).status == 413
        names = [f"{number:020}" for number in range(8_000)]
        too_large = pb.ListPoolsRequest(filter=pb.PoolFilter(models=names))
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await world.stub.ListPools(too_large)
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_the_longest_header_is_a_flag_on_both_faces() -> None:
    async with running(ServiceLimits(header_bytes=16_384)) as world:
        assert (await world.http("GET /pools?model=" + "x" * 12_000)).status == 200
        assert (await world.http("GET /pools?model=" + "x" * 17_000)).status == 400
        call = world.stub.ListPools(pb.ListPoolsRequest(), metadata=(("x-long", "x" * 12_000),))
        await call
        call = world.stub.ListPools(pb.ListPoolsRequest(), metadata=(("x-long", "x" * 17_000),))
        with pytest.raises(grpc.aio.AioRpcError):
            await call


async def test_one_grpc_connection_has_so_many_calls_and_the_next_waits() -> None:
    async with running(ServiceLimits(streams_per_connection=2)) as world:
        watches = [world.stub.WatchPools(pb.WatchPoolsRequest()) for _ in range(2)]
        for watch in watches:
            await watch.read()
        waiting = asyncio.ensure_future(world.register(0))
        watches[0].cancel()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert (await waiting).lease_id


async def test_grpc_connections_beyond_the_limit_are_closed() -> None:
    async with running(ServiceLimits(grpc_connections=3)) as world:
        opened = [
            await asyncio.open_connection("127.0.0.1", world.service.grpc.port) for _ in range(6)
        ]
        async with asyncio.timeout(PATIENCE_SECONDS):
            first = await asyncio.gather(*(reader.read(1) for reader, _ in opened))
        assert first == [b"\0"] * 3 + [b""] * 3, "the settings, or the end"
        for _, writer in opened:
            writer.close()


async def test_http_connections_of_one_address_are_bounded_and_told_so() -> None:
    limits = ServiceLimits(http_connections=10, http_connections_per_caller=2)
    async with running(limits) as world:
        port = world.service.rest.port
        held = [
            await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
            for _ in range(2)
        ]
        await eventually(lambda: len(world.service.rest.connections) == 2)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, local_addr=("127.0.0.2", 0)
        )
        async with asyncio.timeout(PATIENCE_SECONDS):
            (reply,) = parse_replies(await reader.read())
        assert is_429(reply, "http_connections_per_caller")
        writer.close()
        assert (await world.post(0)).status == 200
        for _, each in held:
            each.close()
        await eventually(lambda: len(world.service.rest.connections) == 0)


async def test_who_holds_all_http_connections_makes_room_for_everyone_else() -> None:
    async with running(ServiceLimits(http_connections=5)) as world:
        port = world.service.rest.port
        held = [
            await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
            for _ in range(5)
        ]
        await eventually(lambda: len(world.service.rest.connections) == 5)
        assert (await world.post(0)).status == 200
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await held[0][0].read() == b""
        for _, each in held:
            each.close()


async def test_a_limit_is_told_once_a_minute_with_the_caller_and_counted() -> None:
    async with running(FEW) as world:
        for number in range(3):
            await world.register(number)
        for number in range(3, 8):
            await world.post(number, "127.0.0.9")
        assert world.told.of_limits() == [{"limit": "pools", "caller": "127.0.0.9", "refused": 1}]
        world.clock.advance(60)
        world.service.core.tick()
        for number in range(3):
            await world.register(number)
        await world.post(9, "127.0.0.8")
        assert world.told.of_limits()[1:] == [
            {"limit": "pools", "caller": "127.0.0.8", "refused": 5}
        ]
        port = world.service.rest.port
        name = 'global_discovery_limit_refusals_total{limit="pools"}'
        assert await metric(port, name) == 6
        assert await metric(port, 'global_discovery_limit{limit="watchers"}') == 3


async def test_who_fails_too_often_to_prove_who_it_is_is_told_to_come_later() -> None:
    limits = ServiceLimits(failed_authentications_per_second=3)
    async with running(limits, anonymous=Rights(EVERY_KEY, NO_KEY)) as world:
        statuses = [(await world.post(0, "127.0.0.2")).status for _ in range(3)]
        assert statuses == [401] * 3
        late = await world.post(0, "127.0.0.2")
        assert is_429(late, "failed_authentications_per_second")
        assert (await world.http("GET /pools", source="127.0.0.2")).status == 200
        assert (await world.post(0, "127.0.0.3")).status == 401
        for _ in range(3):
            told = await refused(world.register(0))
            assert told.code is grpc.StatusCode.UNAUTHENTICATED
        assert is_limit(await refused(world.register(0)), "failed_authentications_per_second")


async def test_a_thousand_renewals_of_a_call_are_worked_off_in_portions() -> None:
    async with running(ServiceLimits()) as world:
        leases = [(await world.register(number)).lease_id for number in range(5)]
        ids = [f"nobody-{number}" for number in range(1_995)]
        request = pb.RenewPoolsRequest(lease_ids=[*ids[:1_000], *leases, *ids[1_000:]])
        answer = await world.stub.RenewPools(request)
        assert list(answer.unknown_lease_ids) == ids
        assert not answer.not_renewed_lease_ids


async def test_mistakes_are_held_back_and_heartbeats_beside_them_are_not() -> None:
    """What is held back is seen in the budget: how long that takes is not measured here."""
    async with running(ServiceLimits()) as world:
        budget = world.service.core.budget
        await world.register(0)
        wrong = [asyncio.create_task(world.http("GET /x", source="127.0.0.2")) for _ in range(400)]
        await eventually(lambda: len(world.service.rest.connections) >= 100)
        world.clock.advance(5)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await world.register(0)
        assert budget.charge("127.0.0.1", 0.0) <= 0.0
        replies = await asyncio.gather(*wrong)
        assert {reply.status for reply in replies} == {404}
