"""Following pools over HTTP only, against the real gateway and servers that misbehave."""

import asyncio
import contextlib
import gzip
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.client import CallFailed, PoolCache, polling
from global_discovery.client.errors import INSTANCE
from global_discovery.client.polling import polled, read_list
from global_discovery.client.servers import is_url
from global_discovery.client.watch import LONGEST_POLLING_SECONDS, Reconnect
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.clock import FakeClock
from support.pools import a_registration
from support.running import a_service, target
from support.scripted_server import HANG, scripted_server
from support.timer import MovedTimer

PATIENCE = 30
Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]


def a_pool(name: str, **more: Any) -> dict[str, Any]:
    key = {"cluster_id": "c", "namespace": "n", "dgd_name": name}
    return key | {"model": "m", "location": {"region": "r"}, "frontends": ["http://f"]} | more


def a_list(*names: str, complete: bool = True, **more: Any) -> dict[str, Any]:
    return {"pools": [a_pool(name) for name in names], "complete": complete} | more


@dataclass(frozen=True)
class By:
    """What one process of several answers: a list, or that it is the one the caller has."""

    instance: str
    document: Any = None


class HttpServer:
    """Answers `GET /pools` with one step after the other, the last one again and again."""

    def __init__(self) -> None:
        self.url = ""
        self.steps: deque[Any] = deque()
        self.asked: list[web.Request] = []

    def script(self, *steps: Any) -> None:
        """A step is a JSON document, a `By`, bytes, a status, or a function that answers."""
        self.steps = deque(steps)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        step = self.steps.popleft() if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, int):
            return web.Response(status=step)
        if isinstance(step, bytes):
            return web.Response(body=step, content_type="application/json")
        if isinstance(step, dict):
            return web.json_response(step, headers={"ETag": '"tag"'})
        if isinstance(step, By):
            named = {INSTANCE: step.instance}
            if step.document is None:
                return web.Response(status=304, headers=named)
            return web.json_response(step.document, headers={"ETag": '"tag"'} | named)
        response: web.StreamResponse = await step(request)
        return response


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    server = HttpServer()
    app = web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


def names(cache: PoolCache) -> str:
    return "".join(each.key.dgd_name for each in cache.pools())


def _info(cache: PoolCache) -> str:
    """The process that is followed."""
    return cache.state.info.instance_id if cache.state.info else "none"


async def until(timer: MovedTimer, holds: Callable[[], bool]) -> None:
    """Lets time pass until it is so."""
    async with asyncio.timeout(PATIENCE):
        while not holds():
            timer.advance(0.5)
            await asyncio.sleep(0.005)


async def until_told(cache: PoolCache, name: str) -> None:
    """Returns once a pool of that name is offered; no time passes."""
    async with asyncio.timeout(PATIENCE):
        async for _ in cache.changes():
            if name in names(cache):
                return


async def first_error(server: HttpServer) -> CallFailed:
    messages = polled(server.url, wanted=None, every=1, timer=MovedTimer())
    try:
        async with asyncio.timeout(PATIENCE):
            async for _ in messages:
                pass
    except CallFailed as error:
        return error
    finally:
        await messages.aclose()
    raise AssertionError("it polls for ever")


async def test_it_follows_the_real_gateway_and_both_faces_tell_the_same() -> None:
    clock, timer = FakeClock(), MovedTimer()
    async with (
        a_service(clock=clock) as service,
        grpc.aio.insecure_channel(target(service)) as channel,
        PoolCache([f"http://127.0.0.1:{service.rest.port}"], timer=timer) as cache,
        PoolCache([target(service)]) as other,
    ):
        stub = PoolDiscoveryServiceStub(channel)
        registration = a_registration(1, frontends=["http://[::1]:1", "https://host"])
        registration.capacity.add(gpu_sku="H100", gpu_count=8)
        registration.capabilities.append("chat")
        registration.location.availability_zone = "z"
        await stub.RegisterPool(pb.RegisterPoolRequest(registration=registration))
        await until(timer, lambda: len(cache.pools("m")) == 1)
        await until(timer, lambda: len(other.pools("m")) == 1)
        assert cache.pools("m")[0].pool == other.pools("m")[0].pool
        assert cache.state.mark == other.state.mark
        await stub.DeregisterPool(pb.DeregisterPoolRequest(key=registration.key, all_shares=True))
        for _ in range(40):
            clock.advance(1)
            service.core.tick()
        await until(timer, lambda: cache.state.exact and not cache.pools())


async def test_an_exact_list_replaces_and_an_estimated_one_is_merged(server: HttpServer) -> None:
    timer = MovedTimer()
    server.script(a_list("a", "b"), a_list("b", "c", complete=False))
    async with PoolCache([server.url], timer=timer) as cache:
        await cache.wait_synced()
        await until(timer, lambda: names(cache) == "abc")
        assert [each.carried for each in cache.pools()] == [True, False, False]
        server.script(a_list("c"))
        await until(timer, lambda: names(cache) == "c")
        assert cache.state.exact


async def test_an_unchanged_list_is_asked_for_by_its_tag_and_ends_what_the_bound_kept(
    server: HttpServer,
) -> None:
    timer = MovedTimer()
    server.script(a_list("a"), a_list("b", bound_secs=12), 304)
    async with PoolCache([server.url], timer=timer, poll_seconds=5) as cache:
        await cache.wait_synced()
        await until(timer, lambda: names(cache) == "ab")
        await until(timer, lambda: names(cache) == "b")
    asked = [request.headers.get("If-None-Match") for request in server.asked]
    assert asked[:2] == [None, '"tag"']
    assert len(asked) >= 4
    assert {request.path for request in server.asked} == {"/pools"}


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
        await until(timer, lambda: cache.state.exact and _info(cache) == "y")
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
        assert _info(cache) == ""


async def test_over_both_wires_one_process_is_the_same_one() -> None:
    timer = MovedTimer()
    async with (
        a_service(clock=FakeClock()) as service,
        PoolCache([f"http://127.0.0.1:{service.rest.port}"], timer=timer) as polling_cache,
        PoolCache([target(service)]) as watching_cache,
    ):
        for cache in (polling_cache, watching_cache):
            await cache.wait_synced()
        assert _info(polling_cache) == _info(watching_cache) != ""


async def test_a_304_that_nobody_asked_for_is_a_failure(server: HttpServer) -> None:
    server.script(304)
    assert (await first_error(server)).code is grpc.StatusCode.INTERNAL


async def test_the_filter_is_applied_by_the_server(server: HttpServer) -> None:
    server.script(a_list())
    wanted = pb.PoolFilter(models=["a", "b&c"], regions=["r"], cluster_ids=["c"], namespaces=["n"])
    async with PoolCache([server.url + "/base/"], wanted=wanted) as cache:
        await cache.wait_synced()
    request = server.asked[0]
    assert request.path == "/base/pools"
    assert list(request.query.items()) == [
        ("model", "a"),
        ("model", "b&c"),
        ("region", "r"),
        ("cluster_id", "c"),
        ("namespace", "n"),
    ]


async def test_a_server_that_does_not_say_how_complete_it_is_counts_as_estimated(
    server: HttpServer,
) -> None:
    server.script({"pools": [a_pool("a")]})
    async with PoolCache([server.url]) as cache:
        await cache.wait_synced()
        assert (names(cache), cache.state.exact) == ("a", False)


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"<html>",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"pools": 1}',
        b"[]",
        b'{"pools": [1]}',
        b'{"pools": [{"model": "m"}]}',
        json.dumps(a_list() | {"pools": [a_pool("a", frontends="http://x")]}).encode(),
        json.dumps(a_list() | {"pools": [a_pool("a", frontends=[1])]}).encode(),
        json.dumps(a_list() | {"pools": [a_pool("a", location="here")]}).encode(),
        json.dumps(a_list() | {"pools": [a_pool("a", model="\ud800")]}).encode(),
        json.dumps(a_list() | {"pools": [a_pool("a", model="")]}).encode(),
        json.dumps(
            a_list() | {"pools": [a_pool("a", capacity=[{"gpu_sku": "x", "gpu_count": 2**40}])]}
        ).encode(),
        b'{"pools": [], "bound_secs": 1' + b"0" * 5000 + b"}",
        b'{"pools": [], "bound_secs": 1' + b"0" * 400 + b"}",
    ],
)
async def test_garbage_is_a_failed_call_and_never_a_crash(
    server: HttpServer, garbage: bytes
) -> None:
    server.script(garbage)
    assert (await first_error(server)).code is grpc.StatusCode.INTERNAL


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "pools",
                        "complete",
                        "reasons",
                        "bound_secs",
                        "model",
                        "slices_bound_secs",
                        "cluster_id",
                        "namespace",
                        "dgd_name",
                        "location",
                        "capacity",
                        "frontends",
                        "registered_time",
                        "key",
                    ]
                ),
                inner,
                max_size=6,
            )
        ),
        max_leaves=20,
    )
)
def test_any_json_is_a_list_or_a_value_error(document: Any) -> None:
    with contextlib.suppress(ValueError):
        read_list(json.dumps(document).encode())


def test_reasons_are_read_and_unknown_ones_change_nothing() -> None:
    told = a_list(complete=False, reasons=["STARTING", "LATER", 1, None], slices_bound_secs=90)
    _, mark = read_list(json.dumps(told).encode())
    assert list(mark.reasons) == [pool_pb2.ESTIMATED_REASON_STARTING]
    assert (mark.bound_secs, mark.slices_bound_secs) == (1, 90)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (503, grpc.StatusCode.UNAVAILABLE),
        (429, grpc.StatusCode.UNAVAILABLE),
        (500, grpc.StatusCode.INTERNAL),
        (301, grpc.StatusCode.INTERNAL),
        (204, grpc.StatusCode.INTERNAL),
        (400, grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
async def test_an_answer_that_is_no_list_is_a_failed_call(
    server: HttpServer, status: int, code: grpc.StatusCode
) -> None:
    server.script(status)
    error = await first_error(server)
    assert error.code is code
    assert str(status) in str(error)


async def test_a_body_without_end_is_read_up_to_a_bound_only(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "MAX_BODY_BYTES", 1024 * 1024)

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b" " * 65_536)
        return response

    async def bomb(_: web.Request) -> web.StreamResponse:
        packed = gzip.compress(b" " * 16 * 1024 * 1024)
        return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

    for step in (endless, bomb):
        server.script(step)
        assert "more than" in str(await first_error(server))


async def test_a_body_that_breaks_off_is_a_failed_call(server: HttpServer) -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"pools"')
        assert request.transport is not None
        request.transport.close()
        return response

    server.script(broken)
    assert (await first_error(server)).code is grpc.StatusCode.UNAVAILABLE


async def test_a_long_list_is_read_whole(server: HttpServer) -> None:
    many = [f"{number:04}" for number in range(1000)]
    server.script(a_list(*many))
    async with PoolCache([server.url]) as cache, asyncio.timeout(PATIENCE):
        await cache.wait_synced()
        assert [each.key.dgd_name for each in cache.pools("m")] == many


async def test_a_server_that_does_not_answer_is_left_and_nothing_is_dropped(
    server: HttpServer,
) -> None:
    timer = MovedTimer()
    released = asyncio.Event()

    async def hang(_: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.Response()

    server.script(a_list("a"), hang)
    async with PoolCache([server.url], timer=timer) as cache:
        await cache.wait_synced()
        await until(timer, lambda: not cache.state.connected)
        assert names(cache) == "a"
        assert cache.state.last_error is not None
        assert cache.state.last_error.code is grpc.StatusCode.DEADLINE_EXCEEDED
    released.set()


async def test_a_server_that_answers_slowly_but_within_the_deadline_is_no_silent_one(
    server: HttpServer,
) -> None:
    timer = MovedTimer()
    asked, released = asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.StreamResponse:
        asked.set()
        await released.wait()
        return web.json_response(a_list("b"))

    server.script(By("x", a_list("a")), slow)
    async with PoolCache([server.url], timer=timer, poll_seconds=1) as cache:
        await cache.wait_synced()
        await timer.slept_for(1)
        timer.advance(1)
        async with asyncio.timeout(PATIENCE):
            await asked.wait()
        timer.advance(9)
        released.set()
        await until_told(cache, "b")
        assert cache.state.last_error is None


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
            assert names(cache) == "a"
            assert cache.pools()[0].carried


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
