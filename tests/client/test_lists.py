"""Listing once, over all pages."""

import grpc
import pytest

from global_discovery.client import CallFailed, list_pools
from global_discovery.client.lists import MAX_RESTARTS, list_routers
from global_discovery.domain.pool import Router
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.pools import a_registration
from support.running import a_service, target
from support.scripted_server import scripted_server


def page(name: str, token: str = "") -> pb.ListPoolsResponse:
    key = pool_pb2.PoolKey(cluster_id="c", namespace="n", dgd_name=name)
    return pb.ListPoolsResponse(pools=[pool_pb2.Pool(key=key)], next_page_token=token, position="p")


async def test_all_pages_of_a_real_server_are_one_list() -> None:
    async with a_service() as service, grpc.aio.insecure_channel(target(service)) as channel:
        stub = PoolDiscoveryServiceStub(channel)
        for number in range(7):
            await stub.RegisterPool(pb.RegisterPoolRequest(registration=a_registration(number)))
        listing = await list_pools([target(service)], page_size=2)
        names = [pool.key.dgd_name for pool in listing.entries]
        assert names == [f"pool-{number:05}" for number in range(7)]
        assert listing.position
        assert listing.mark.completeness == pool_pb2.COMPLETENESS_ESTIMATED


async def test_routers_are_listed_too() -> None:
    routers = tuple(Router(f"r{number}", f"http://r{number}") for number in range(3))
    async with a_service(routers=routers) as service:
        listing = await list_routers([target(service)], page_size=2)
        assert [router.id for router in listing.entries] == ["r0", "r1", "r2"]


async def test_a_list_that_the_server_no_longer_has_is_begun_again() -> None:
    async with scripted_server() as server:
        server.script("ListPools", page("old", "t1"), grpc.StatusCode.ABORTED, page("new"))
        listing = await list_pools([server.target])
        assert [pool.key.dgd_name for pool in listing.entries] == ["new"]
        tokens = [(await server.next_call()).request.page_token for _ in range(3)]
        assert tokens == ["", "t1", ""]


async def test_a_list_is_not_begun_again_for_ever() -> None:
    async with scripted_server() as server:
        server.script("ListPools", grpc.StatusCode.ABORTED)
        with pytest.raises(CallFailed) as raised:
            await list_pools([server.target])
        assert raised.value.code is grpc.StatusCode.ABORTED
        assert server.asked.qsize() == MAX_RESTARTS + 1


async def test_another_server_begins_the_list_anew() -> None:
    async with scripted_server() as one, scripted_server() as other:
        one.script("ListPools", page("old", "t1"), grpc.StatusCode.UNAVAILABLE)
        other.script("ListPools", page("new"))
        listing = await list_pools([one.target, other.target])
        assert [pool.key.dgd_name for pool in listing.entries] == ["new"]
        assert (await other.next_call()).request.page_token == ""


async def test_what_a_server_refuses_is_not_asked_of_another() -> None:
    async with scripted_server() as one, scripted_server() as other:
        one.script("ListPools", grpc.StatusCode.INVALID_ARGUMENT)
        other.script("ListPools", page("new"))
        with pytest.raises(CallFailed):
            await list_pools([one.target, other.target])
        assert other.asked.empty()


async def test_an_error_of_the_server_names_its_fields() -> None:
    async with a_service() as service:
        with pytest.raises(CallFailed) as raised:
            await list_pools([target(service)], page_size=-1)
        error = raised.value
        assert error.details.reason == "INVALID_ARGUMENT"
        assert [violation.field for violation in error.details.violations] == ["page_size"]
        assert str(error).startswith(f"{target(service)} refused the call: page_size: ")


async def test_a_list_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that brings nothing, or more pools than there can be."""
    monkeypatch.setattr("global_discovery.client.lists.MAX_ENTRIES", 3)
    for again in (pb.ListPoolsResponse(next_page_token="t"), page("a", "t")):
        async with scripted_server() as server:
            server.script("ListPools", again)
            with pytest.raises(CallFailed, match="does not come to an end"):
                await list_pools([server.target])
            assert server.asked.qsize() <= 4
