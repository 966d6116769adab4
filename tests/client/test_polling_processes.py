"""Polling where several processes may answer, and beside servers that can be watched."""

from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
import pytest
from aiohttp import web

from global_discovery.client import CallFailed, PoolCache
from global_discovery.client.servers import is_url
from global_discovery.client.watch import LONGEST_POLLING_SECONDS, Reconnect
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from support.clock import FakeClock
from support.list_server import By, HttpServer, a_list, info, list_server, names, until
from support.running import a_service, target
from support.scripted_server import HANG, scripted_server
from support.timer import MovedTimer

PATIENCE = 30
Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    async with list_server() as server:
        yield server


async def test_an_exact_list_of_the_process_that_told_a_pool_ends_it_within_the_bound(
    server: HttpServer,
) -> None:
    timer = MovedTimer()
    server.script(By("x", a_list("a", slices_bound_secs=9e9)))
    async with PoolCache([server.url], timer=timer) as cache:
        await cache.wait_synced()
        assert cache.state.info is not None
        assert cache.state.info.instance_id == "x"
        server.script(By("x"), By("x", a_list("b", slices_bound_secs=9e9)))
        await until(timer, lambda: names(cache) == "b")
        assert cache.state.exact


async def test_an_exact_list_of_another_process_ends_no_pool_within_the_bound(
    server: HttpServer,
) -> None:
    timer = MovedTimer()
    server.script(By("x", a_list("a")), By("y", a_list("b", bound_secs=60)))
    async with PoolCache([server.url], timer=timer) as cache:
        await cache.wait_synced()
        began = timer.now()
        await until(timer, lambda: names(cache) == "ab")
        await until(timer, lambda: names(cache) == "b")
        assert timer.now() - began > 60


async def test_a_process_that_has_the_same_list_tells_it_as_its_own(server: HttpServer) -> None:
    timer = MovedTimer()
    server.script(By("x", a_list("a", bound_secs=9e9)), By("y"))
    async with PoolCache([server.url], timer=timer) as cache:
        await until(timer, lambda: cache.state.exact and info(cache) == "y")
        assert names(cache) == "a"
        server.script(By("y", a_list("b", bound_secs=9e9)))
        await until(timer, lambda: names(cache) == "b")


@pytest.mark.parametrize("named", ["", "\xff", "x" * 257])
async def test_a_process_that_is_not_named_properly_is_never_the_same_one(
    server: HttpServer, named: str
) -> None:
    timer = MovedTimer()
    server.script(By(named, a_list("a")), By(named, a_list("b", bound_secs=60)))
    async with PoolCache([server.url], timer=timer) as cache:
        await until(timer, lambda: names(cache) == "ab")
        assert info(cache) == ""


async def test_over_both_wires_one_process_is_the_same_one() -> None:
    timer = MovedTimer()
    async with (
        a_service(clock=FakeClock()) as service,
        PoolCache([f"http://127.0.0.1:{service.rest.port}"], timer=timer) as polling_cache,
        PoolCache([target(service)]) as watching_cache,
    ):
        for cache in (polling_cache, watching_cache):
            await cache.wait_synced()
        assert info(polling_cache) == info(watching_cache) != ""


# -- beside servers that can be watched ----------------------------------------------


@pytest.mark.parametrize(
    ("server", "polls"),
    [("http://x", True), ("HTTPS://x", True), ("x:50051", False), ("dns:///x:1", False)],
)
def test_only_a_url_is_polled(server: str, polls: bool) -> None:  # noqa: FBT001 - a case
    assert is_url(server) is polls


def test_in_a_mixed_list_those_that_can_be_watched_come_first() -> None:
    reconnect = Reconnect(["http://a", "b:1", "http://c", "d:1"])
    away = CallFailed("", grpc.StatusCode.UNAVAILABLE, "")
    seen = [reconnect.server]
    for _ in range(3):
        reconnect.ended(away, lasted=0)
        seen.append(reconnect.server)
    assert seen == ["b:1", "d:1", "http://a", "http://c"]
    assert reconnect.makes_do
    reconnect.begin_again()
    assert (reconnect.server, reconnect.makes_do) == ("b:1", False)
    assert not Reconnect(["http://a"]).makes_do


async def test_polling_is_left_for_a_server_that_can_be_watched_again(server: HttpServer) -> None:
    timer = MovedTimer()
    server.script(a_list("a", complete=False))
    hello = pb.WatchPoolsResponse(server=pb.ServerInfo(instance_id="x", idle_interval_secs=3600))
    view = pb.WatchPoolsResponse(
        snapshot=pb.PoolSnapshot(),
        position="1",
        mark=pool_pb2.Mark(completeness=pool_pb2.COMPLETENESS_ESTIMATED),
    )
    async with scripted_server() as watched:
        watched.script("WatchPools", [grpc.StatusCode.UNAVAILABLE])
        servers = [server.url, watched.target]
        async with PoolCache(servers, timer=timer, poll_seconds=60) as cache:
            await cache.wait_synced()
            assert cache.state.server == server.url
            watched.script("WatchPools", [hello, view, HANG])
            began = timer.now()
            await until(timer, lambda: cache.state.server == watched.target)
            assert timer.now() - began >= LONGEST_POLLING_SECONDS - 60
            await until(timer, lambda: cache.pools()[0].carried)
            assert names(cache) == "a"


async def test_a_position_of_before_the_polling_is_not_used_after_it(server: HttpServer) -> None:
    timer = MovedTimer()
    server.script(a_list("a"), 503)
    exact = pool_pb2.Mark(completeness=pool_pb2.COMPLETENESS_EXACT)
    hello = pb.WatchPoolsResponse(server=pb.ServerInfo(instance_id="x"))
    view = pb.WatchPoolsResponse(snapshot=pb.PoolSnapshot(), position="old", mark=exact)
    async with scripted_server() as watched:
        watched.script(
            "WatchPools",
            [hello, view, grpc.StatusCode.UNAVAILABLE],
            [hello, view, HANG],
        )
        async with PoolCache([watched.target, server.url], timer=timer, poll_seconds=1) as cache:
            await until(timer, lambda: names(cache) == "a")
            await until(timer, lambda: cache.state.server == watched.target)
            positions = [(await watched.next_call()).request.position for _ in range(2)]
    assert positions == ["", ""]
