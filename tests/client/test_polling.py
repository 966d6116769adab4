"""Following pools over HTTP only, against the real gateway and servers that misbehave."""

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.client import CallFailed, PoolCache, polling
from global_discovery.client.polling import polled, read_list
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.clock import FakeClock
from support.list_server import (
    By,
    HttpServer,
    a_list,
    a_pool,
    list_server,
    names,
    until,
    until_told,
)
from support.pools import a_registration
from support.running import a_service, target
from support.timer import MovedTimer

PATIENCE = 30
Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    async with list_server() as server:
        yield server


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
