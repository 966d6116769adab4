"""Every call, as its comment in the protocol says, over a real connection."""

from ipaddress import ip_network

import grpc
import pytest

from global_discovery import __version__
from global_discovery.domain.pool import Router
from global_discovery.serving.service import Service
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.clock import FakeClock
from support.fold import key_of
from support.grpc_calls import Stub, Watch, eventually, refused
from support.pools import a_registration
from support.running import a_service, target

ESTIMATED = pool_pb2.COMPLETENESS_ESTIMATED
STARTING = pool_pb2.ESTIMATED_REASON_STARTING


def a_call(number: int = 0, **fields: str) -> pb.RegisterPoolRequest:
    relay = fields.pop("relay_id", "")
    lease = fields.pop("lease_id", "")
    registration = a_registration(number, **fields)
    return pb.RegisterPoolRequest(registration=registration, relay_id=relay, lease_id=lease)


async def test_registrations_and_errors_name_the_instance() -> None:
    async with a_service() as service, grpc.aio.insecure_channel(target(service)) as channel:
        stub = PoolDiscoveryServiceStub(channel)
        named = ("x-global-discovery-instance", service.core.settings.instance_id)
        call = stub.RegisterPool(a_call())
        await call
        assert named in tuple(await call.trailing_metadata())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.DeregisterPool(pb.DeregisterPoolRequest(key=a_call(9).registration.key))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert named in tuple(caught.value.trailing_metadata())


async def the_pools(stub: Stub) -> list[pool_pb2.Pool]:
    return list((await stub.ListPools(pb.ListPoolsRequest())).pools)


async def test_a_registered_pool_is_listed_as_it_was_given(stub: Stub) -> None:
    given = pool_pb2.PoolRegistration(
        key=pool_pb2.PoolKey(cluster_id="c", namespace="n", dgd_name="d"),
        model="Qwen/Qwen3-0.6B",
        location=pool_pb2.Location(region="eu", availability_zone="eu-1", datacenter="d1"),
        capabilities=["tools", "chat", "tools"],
        capacity=[
            pool_pb2.Capacity(gpu_sku="H100", gpu_count=2),
            pool_pb2.Capacity(gpu_sku="A100", gpu_count=1),
            pool_pb2.Capacity(gpu_sku="H100", gpu_count=3),
        ],
        frontends=["HTTP://Example.org:80/", "https://[FD00::1]:8443/v1"],
        relays=["ip:10.0.0.9", "ip:::ffff:10.0.0.8"],
    )
    await stub.RegisterPool(pb.RegisterPoolRequest(registration=given))
    (pool,) = await the_pools(stub)
    assert pool.key == given.key
    assert pool.model == given.model
    assert pool.location == given.location
    assert pool.capabilities == ["chat", "tools"]
    assert [(entry.gpu_sku, entry.gpu_count) for entry in pool.capacity] == [
        ("A100", 1),
        ("H100", 5),
    ]
    assert pool.frontends == ["http://example.org", "https://[fd00::1]:8443/v1"]
    assert pool.relays == ["ip:10.0.0.8", "ip:10.0.0.9"]
    assert pool.HasField("registered_time")
    assert pool.HasField("changed_time")


async def test_the_answer_gives_the_lease(stub: Stub) -> None:
    lease = await stub.RegisterPool(a_call())
    assert (lease.lease_duration_secs, lease.heartbeat_interval_secs) == (15, 5)
    assert 1 <= len(lease.lease_id) <= 64


async def test_a_heartbeat_keeps_its_lease_id_and_one_without_gets_a_new_one(
    stub: Stub,
) -> None:
    first = await stub.RegisterPool(a_call())
    second = await stub.RegisterPool(a_call(lease_id=first.lease_id))
    third = await stub.RegisterPool(a_call())
    assert second.lease_id == first.lease_id
    assert third.lease_id != first.lease_id


async def test_without_relays_the_callers_address_is_listed(stub: Stub) -> None:
    await stub.RegisterPool(a_call())
    assert (await the_pools(stub))[0].relays == ["ip:127.0.0.1"]


async def test_a_pool_leaves_when_its_lease_ends(
    service: Service, stub: Stub, clock: FakeClock
) -> None:
    await stub.RegisterPool(a_call())
    for _ in range(8):
        clock.advance(4)
        service.core.tick()
    await eventually(lambda: len(service.core.registrations) == 0)
    assert await the_pools(stub) == []


class TestRenewing:
    async def test_current_ids_are_renewed_and_the_others_named(
        self, service: Service, stub: Stub
    ) -> None:
        ids = [(await stub.RegisterPool(a_call(number))).lease_id for number in range(3)]
        before = service.core.pools.sequence
        answer = await stub.RenewPools(pb.RenewPoolsRequest(lease_ids=[*ids, "unknown", ""]))
        assert answer.unknown_lease_ids == ["unknown", ""]
        assert answer.not_renewed_lease_ids == []
        assert answer.retry_delay_secs == 0
        assert (answer.lease_duration_secs, answer.heartbeat_interval_secs) == (15, 5)
        service.core.pools.refresh()
        assert service.core.pools.sequence - before <= 3, "renewals are no changes"

    async def test_ten_thousand_ids_of_64_bytes_are_taken(self, stub: Stub) -> None:
        ids = [f"{number:064}" for number in range(10_000)]
        answer = await stub.RenewPools(pb.RenewPoolsRequest(lease_ids=ids))
        assert len(answer.unknown_lease_ids) == 10_000

    async def test_one_id_more_is_refused(self, stub: Stub) -> None:
        request = pb.RenewPoolsRequest(lease_ids=map(str, range(10_001)))
        error = await refused(stub.RenewPools(request))
        assert error.code is grpc.StatusCode.INVALID_ARGUMENT
        assert error.fields == ["lease_ids"]

    async def test_longer_ids_are_named_each(self, stub: Stub) -> None:
        request = pb.RenewPoolsRequest(lease_ids=["x" * 64, "x" * 65, "x", "\u00e9" * 33])
        error = await refused(stub.RenewPools(request))
        assert error.code is grpc.StatusCode.INVALID_ARGUMENT
        assert error.fields == ["lease_ids[1]", "lease_ids[3]"]


class TestWithdrawing:
    async def test_a_share_is_withdrawn_by_its_lease_id_once(self, stub: Stub) -> None:
        lease = await stub.RegisterPool(a_call())
        request = pb.DeregisterPoolRequest(key=a_registration().key, lease_id=lease.lease_id)
        assert (await stub.DeregisterPool(request)).ended_shares == 1
        assert await the_pools(stub) == []
        error = await refused(stub.DeregisterPool(request))
        assert (error.code, error.reason) == (grpc.StatusCode.NOT_FOUND, "SHARE_NOT_FOUND")

    async def test_a_late_withdrawal_does_not_touch_a_newer_incarnation(self, stub: Stub) -> None:
        lease = await stub.RegisterPool(a_call())
        await stub.RegisterPool(a_call())
        request = pb.DeregisterPoolRequest(key=a_registration().key, lease_id=lease.lease_id)
        assert (await refused(stub.DeregisterPool(request))).code is grpc.StatusCode.NOT_FOUND
        assert len(await the_pools(stub)) == 1

    async def test_a_withdrawn_lease_brings_nothing_back(self, stub: Stub) -> None:
        lease = await stub.RegisterPool(a_call())
        await stub.DeregisterPool(pb.DeregisterPoolRequest(key=a_registration().key))
        error = await refused(stub.RegisterPool(a_call(lease_id=lease.lease_id)))
        assert (error.code, error.reason) == (
            grpc.StatusCode.FAILED_PRECONDITION,
            "LEASE_WITHDRAWN",
        )
        assert await the_pools(stub) == []

    async def test_by_relay_id_by_relays_or_all_shares(self, stub: Stub) -> None:
        key = a_registration().key
        await stub.RegisterPool(a_call(relay_id="a"))
        await stub.RegisterPool(a_call(relay_id="b"))
        with_relays = a_call()
        with_relays.registration.relays.append("ip:10.0.0.9")
        await stub.RegisterPool(with_relays)
        by_relay_id = pb.DeregisterPoolRequest(key=key, relay_id="a")
        assert (await stub.DeregisterPool(by_relay_id)).ended_shares == 1
        by_relays = pb.DeregisterPoolRequest(key=key, relays=["ip:::ffff:10.0.0.9"])
        assert (await stub.DeregisterPool(by_relays)).ended_shares == 1
        assert len(await the_pools(stub)) == 1
        await stub.RegisterPool(a_call(relay_id="a"))
        everything = pb.DeregisterPoolRequest(key=key, all_shares=True)
        assert (await stub.DeregisterPool(everything)).ended_shares == 2

    async def test_the_65th_share_is_refused_with_a_time_to_retry(self, stub: Stub) -> None:
        for number in range(64):
            await stub.RegisterPool(a_call(relay_id=str(number)))
        error = await refused(stub.RegisterPool(a_call(relay_id="one more")))
        assert (error.code, error.reason) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "TOO_MANY_SHARES",
        )
        assert error.retry_seconds


class TestListing:
    async def test_a_filter_is_applied_and_the_mark_is_told(self, stub: Stub) -> None:
        await stub.RegisterPool(a_call(0, model="a", region="r1"))
        await stub.RegisterPool(a_call(1, model="a", region="r2"))
        await stub.RegisterPool(a_call(2, model="b", region="r1"))
        wanted = pb.PoolFilter(models=["a"], regions=["r1", "r3"])
        answer = await stub.ListPools(pb.ListPoolsRequest(filter=wanted))
        assert [pool.key.dgd_name for pool in answer.pools] == ["pool-00000"]
        assert (answer.mark.completeness, list(answer.mark.reasons)) == (ESTIMATED, [STARTING])
        assert answer.mark.bound_secs == 1

    async def test_a_watch_begins_at_a_lists_position(self, stub: Stub) -> None:
        await stub.RegisterPool(a_call(0))
        listed = await stub.ListPools(pb.ListPoolsRequest())
        await stub.RegisterPool(a_call(1))
        watch = Watch(stub, pb.WatchPoolsRequest(position=listed.position))
        await watch.begun()
        (message,) = watch.client.messages[1:]
        assert [pool.key.dgd_name for pool in message.changes.pools] == ["pool-00001"]

    async def test_pages_of_one_position(self, stub: Stub) -> None:
        for number in range(5):
            await stub.RegisterPool(a_call(number))
        first = await stub.ListPools(pb.ListPoolsRequest(page_size=3))
        await stub.RegisterPool(a_call(9))
        rest = await stub.ListPools(
            pb.ListPoolsRequest(page_size=3, page_token=first.next_page_token)
        )
        assert [len(first.pools), len(rest.pools)] == [3, 2]
        assert rest.next_page_token == ""
        assert (rest.position, rest.mark) == (first.position, first.mark)

    async def test_a_page_whose_list_is_gone_is_aborted(self, stub: Stub, clock: FakeClock) -> None:
        for number in range(2):
            await stub.RegisterPool(a_call(number))
        first = await stub.ListPools(pb.ListPoolsRequest(page_size=1))
        clock.advance(61)
        again = pb.ListPoolsRequest(page_size=1, page_token=first.next_page_token)
        error = await refused(stub.ListPools(again))
        assert (error.code, error.reason) == (grpc.StatusCode.ABORTED, "POSITION_GONE")


class TestRouters:
    ROUTERS = (Router("b", "http://b:1"), Router("a", "http://a:1"))

    async def test_the_configured_ones_are_listed_and_exact_from_the_start(self) -> None:
        async with (
            a_service(routers=self.ROUTERS) as service,
            grpc.aio.insecure_channel(target(service)) as channel,
        ):
            stub = PoolDiscoveryServiceStub(channel)
            answer = await stub.ListRouters(pb.ListRoutersRequest())
            assert [(router.id, router.url) for router in answer.routers] == [
                ("a", "http://a:1"),
                ("b", "http://b:1"),
            ]
            assert answer.mark.completeness == pool_pb2.COMPLETENESS_EXACT

    async def test_they_are_listed_in_pages(self) -> None:
        async with (
            a_service(routers=self.ROUTERS) as service,
            grpc.aio.insecure_channel(target(service)) as channel,
        ):
            stub = PoolDiscoveryServiceStub(channel)
            first = await stub.ListRouters(pb.ListRoutersRequest(page_size=1))
            request = pb.ListRoutersRequest(page_size=1, page_token=first.next_page_token)
            second = await stub.ListRouters(request)
            assert [router.id for router in (*first.routers, *second.routers)] == ["a", "b"]

    async def test_a_stream_of_them_begins_with_a_snapshot_and_resumes(self) -> None:
        async with (
            a_service(routers=self.ROUTERS) as service,
            grpc.aio.insecure_channel(target(service)) as channel,
        ):
            stub = PoolDiscoveryServiceStub(channel)
            call = stub.WatchRouters(pb.WatchRoutersRequest(idle_interval_secs=25))
            server, snapshot = await call.read(), await call.read()
            assert isinstance(server, pb.WatchRoutersResponse)
            assert isinstance(snapshot, pb.WatchRoutersResponse)
            assert server.server.idle_interval_secs == 25
            assert [router.id for router in snapshot.snapshot.routers] == ["a", "b"]
            again = stub.WatchRouters(pb.WatchRoutersRequest(position=snapshot.position))
            await again.read()
            caught_up = await again.read()
            assert isinstance(caught_up, pb.WatchRoutersResponse)
            assert caught_up.WhichOneof("event") == "changes"
            assert caught_up.position == snapshot.position

    async def test_none_is_an_empty_exact_list(self, stub: Stub) -> None:
        answer = await stub.ListRouters(pb.ListRoutersRequest())
        assert list(answer.routers) == []
        assert answer.mark.completeness == pool_pb2.COMPLETENESS_EXACT


class TestWatching:
    async def test_the_first_message_says_who_serves(self, service: Service, stub: Stub) -> None:
        client = await Watch(stub, pb.WatchPoolsRequest(idle_interval_secs=7)).begun()
        assert client.server == pb.ServerInfo(
            instance_id=service.core.settings.instance_id,
            version=__version__,
            pool_discovery="registrations",
            registration_storage="memory",
            lease_duration_secs=15,
            heartbeat_interval_secs=5,
            idle_interval_secs=7,
        )

    async def test_registration_change_and_withdrawal_are_told(self, stub: Stub) -> None:
        watch = Watch(stub)
        await watch.begun()
        await stub.RegisterPool(a_call(model="a"))
        client = await watch.until(lambda client: len(client.fold) == 1)
        await stub.RegisterPool(a_call(model="b"))
        key = key_of(a_registration().key)
        await watch.until(lambda client: client.fold[key].model == "b")
        await stub.DeregisterPool(pb.DeregisterPoolRequest(key=a_registration().key))
        await watch.until(lambda client: not client.fold)
        assert [key_of(gone) for gone in client.messages[-1].changes.removed] == [key]

    async def test_a_heartbeat_without_news_is_not_told(self, service: Service, stub: Stub) -> None:
        lease = await stub.RegisterPool(a_call())
        watch = Watch(stub)
        await watch.begun()
        for _ in range(20):
            await stub.RegisterPool(a_call(lease_id=lease.lease_id))
            await stub.RegisterPool(a_call())
        await stub.RegisterPool(a_call(1))
        client = await watch.until(lambda client: len(client.fold) == 2)
        assert len(client.messages) == 3
        assert service.core.pool_watchers.counters.snapshots == 1

    @pytest.mark.parametrize(("asked", "given"), [(0, 15), (1, 1), (25, 25)])
    async def test_the_idle_interval_is_taken(self, stub: Stub, asked: int, given: int) -> None:
        client = await Watch(stub, pb.WatchPoolsRequest(idle_interval_secs=asked)).begun()
        assert client.server is not None
        assert client.server.idle_interval_secs == given

    @pytest.mark.parametrize("asked", [26, 2**32 - 1])
    async def test_a_longer_one_is_refused(self, stub: Stub, asked: int) -> None:
        end = await Watch(stub, pb.WatchPoolsRequest(idle_interval_secs=asked)).end()
        assert end is not None
        assert end.code is grpc.StatusCode.INVALID_ARGUMENT
        assert end.fields == ["idle_interval_secs"]

    async def test_a_quiet_stream_says_that_it_lives(self, stub: Stub) -> None:
        watch = Watch(stub, pb.WatchPoolsRequest(idle_interval_secs=1))
        position = (await watch.begun()).position
        client = await watch.until(lambda client: client.messages[-1].WhichOneof("event") == "idle")
        assert client.position == position

    async def test_a_position_that_does_not_decode_is_refused(self, stub: Stub) -> None:
        end = await Watch(stub, pb.WatchPoolsRequest(position="nonsense")).end()
        assert end is not None
        assert (end.code, end.fields) == (grpc.StatusCode.INVALID_ARGUMENT, ["position"])


class TestCallers:
    PROXY = (ip_network("127.0.0.0/8"),)

    async def registered_from(self, service: Service, *metadata: tuple[str, str]) -> list[str]:
        async with grpc.aio.insecure_channel(target(service)) as channel:
            stub = PoolDiscoveryServiceStub(channel)
            await stub.RegisterPool(a_call(), metadata=metadata)
            return list((await the_pools(stub))[0].relays)

    async def test_a_trusted_proxy_names_the_caller(self) -> None:
        async with a_service(trusted_proxies=self.PROXY) as service:
            header = ("x-forwarded-for", "6.6.6.6, 10.9.9.9, 127.0.0.3")
            assert await self.registered_from(service, header) == ["ip:10.9.9.9"]

    async def test_the_last_of_several_headers_counts(self) -> None:
        async with a_service(trusted_proxies=self.PROXY) as service:
            headers = (("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "::ffff:10.9.9.8"))
            assert await self.registered_from(service, *headers) == ["ip:10.9.9.8"]

    async def test_anybody_else_does_not(self) -> None:
        async with a_service(trusted_proxies=(ip_network("10.0.0.0/8"),)) as service:
            header = ("x-forwarded-for", "10.9.9.9")
            assert await self.registered_from(service, header) == ["ip:127.0.0.1"]
