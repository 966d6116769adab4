"""The example router's manners, in this process: what it passes on and what it refuses."""

import asyncio
import contextlib
import gzip
import importlib.util
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict

from global_discovery.client import PoolCache
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from support.scripted_server import HANG, scripted_server

PATIENCE = 30
SLOW_CALLS = 130
"""More than the hundred connections that a session has by itself."""
SCRIPT = Path(__file__).resolve().parents[2] / "examples/router.py"
EXACT = pool_pb2.Mark(completeness=pool_pb2.COMPLETENESS_EXACT)


def the_example() -> Any:
    spec = importlib.util.spec_from_file_location("example_router", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def unused_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextlib.asynccontextmanager
async def serving(app: web.Application) -> AsyncIterator[str]:
    """Its URL."""
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@contextlib.asynccontextmanager
async def a_router(*frontends: str) -> AsyncIterator[str]:
    """The example with one pool of the model m, which has these frontends."""
    key = pool_pb2.PoolKey(cluster_id="c", namespace="n", dgd_name="p")
    pool = pool_pb2.Pool(key=key, model="m", frontends=frontends)
    view = pb.WatchPoolsResponse(snapshot=pb.PoolSnapshot(pools=[pool]), position="1", mark=EXACT)
    hello = pb.WatchPoolsResponse(server=pb.ServerInfo(instance_id="x"))
    example = the_example()
    async with scripted_server() as server:
        server.script("WatchPools", [hello, view, HANG])
        async with (
            PoolCache([server.target]) as cache,
            example.open_session() as session,
        ):
            await cache.wait_synced()
            async with serving(example.Router(cache, session).app()) as url:
                yield url


async def post(url: str, body: bytes) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.post(url, data=body) as answer:
        return answer.status, await answer.json()


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b"{}", b"\xff", b"[" * 100_000])
async def test_a_body_without_a_model_is_refused_as_openai_refuses_it(body: bytes) -> None:
    async with a_router("http://127.0.0.1:9") as router:
        status, answer = await post(f"{router}/v1/chat/completions", body)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize("model", ["unknown", 7, None, ["m"], {}])
async def test_an_unknown_model_is_not_found_whatever_it_is(model: Any) -> None:
    async with a_router("http://127.0.0.1:9") as router:
        status, answer = await post(f"{router}/v1/x", json.dumps({"model": model}).encode())
    assert (status, answer["error"]["code"]) == (404, "model_not_found")


async def test_a_pool_without_a_frontend_that_can_be_reached_is_a_503() -> None:
    for frontends in ([], [f"http://127.0.0.1:{unused_port()}"]):
        async with a_router(*frontends) as router:
            status, answer = await post(f"{router}/v1/x", b'{"model": "m"}')
        assert (status, answer["error"]["code"]) == (503, "no_backend")


async def test_path_query_body_headers_and_status_are_passed_on() -> None:
    seen: list[Any] = []

    async def frontend(request: web.Request) -> web.Response:
        seen.append((request.path_qs, await request.read(), request.headers["Authorization"]))
        return web.Response(status=418, body=b"tea", headers={"X-Mine": "yes"})

    app = web.Application()
    app.router.add_post("/base/v1/x", frontend)
    refuses = f"http://127.0.0.1:{unused_port()}"
    async with (
        serving(app) as url,
        a_router(refuses, f"{url}/base") as router,
        aiohttp.ClientSession(headers={"Authorization": "Bearer t"}) as session,
    ):
        for _ in range(2):
            async with session.post(f"{router}/v1/x?a=%20b", data=b'{"model":"m"}') as answer:
                assert (answer.status, await answer.read()) == (418, b"tea")
                assert answer.headers["X-Mine"] == "yes"
    assert seen == [("/base/v1/x?a=%20b", b'{"model":"m"}', "Bearer t")] * 2


async def test_a_stream_arrives_piece_by_piece_and_a_broken_one_is_broken_off() -> None:
    go_on = asyncio.Event()

    async def frontend(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await go_on.wait()
        assert request.transport is not None
        request.transport.abort()
        return response

    app = web.Application()
    app.router.add_post("/v1/x", frontend)
    async with (
        serving(app) as url,
        a_router(url) as router,
        aiohttp.ClientSession() as session,
        session.post(f"{router}/v1/x", data=b'{"model":"m"}') as answer,
    ):
        assert await answer.content.readany() == b"first"
        go_on.set()
        with pytest.raises(aiohttp.ClientError):
            await answer.read()


ASKED = b'{"model":"m"}'


async def test_headers_that_come_several_times_are_passed_on_several_times() -> None:
    seen: list[list[str]] = []

    async def frontend(request: web.Request) -> web.Response:
        seen.append(request.headers.getall("X-Mine"))
        assert "X-Hop" not in request.headers
        answer = web.Response()
        answer.headers.extend([("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])
        return answer

    app = web.Application()
    app.router.add_post("/v1/x", frontend)
    told = [("X-Mine", "1"), ("X-Mine", "2"), ("Connection", "X-Hop"), ("X-Hop", "near")]
    async with (
        serving(app) as url,
        a_router(url) as router,
        aiohttp.ClientSession() as session,
        session.post(f"{router}/v1/x", data=ASKED, headers=CIMultiDict(told)) as answer,
    ):
        assert answer.headers.getall("Set-Cookie") == ["a=1", "b=2"]
    assert seen == [["1", "2"]]


async def test_a_compressed_body_is_passed_on_as_what_it_is_then() -> None:
    seen: list[Any] = []

    async def frontend(request: web.Request) -> web.Response:
        seen.append((await request.read(), request.headers.get("Content-Encoding")))
        return web.Response()

    app = web.Application()
    app.router.add_post("/v1/x", frontend)
    packed = {"data": gzip.compress(ASKED), "headers": {"Content-Encoding": "gzip"}}
    async with (
        serving(app) as url,
        a_router(url) as router,
        aiohttp.ClientSession() as session,
        session.post(f"{router}/v1/x", **packed) as answer,
    ):
        assert answer.status == 200
    assert seen == [(ASKED, None)]


async def test_a_frontend_that_speaks_no_http_is_passed_over() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    async def frontend(_: web.Request) -> web.Response:
        return web.Response(body=b'"good"')

    app = web.Application()
    app.router.add_post("/v1/x", frontend)
    async with (
        await asyncio.start_server(talk, "127.0.0.1", 0) as mail,
        serving(app) as url,
    ):
        odd = f"http://127.0.0.1:{mail.sockets[0].getsockname()[1]}"
        async with a_router(odd) as router:
            status, answer = await post(f"{router}/v1/x", ASKED)
            assert (status, answer["error"]["code"]) == (503, "no_backend")
        async with a_router(odd, url) as router, aiohttp.ClientSession() as session:
            for _ in range(2):
                async with session.post(f"{router}/v1/x", data=ASKED) as good:
                    assert (good.status, await good.read()) == (200, b'"good"')


async def test_a_caller_that_left_before_the_answer_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked, gone, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def frontend(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        asked.set()
        await gone.wait()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b"x" * 65_536)
                await asyncio.sleep(0)
        done.set()
        return response

    app = web.Application()
    app.router.add_post("/v1/x", frontend)
    async with serving(app) as url, a_router(url) as router:
        port = int(router.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: {len(ASKED)}\r\n\r\n"
        writer.write(head.encode() + ASKED)
        async with asyncio.timeout(PATIENCE):
            await asked.wait()
            writer.transport.abort()
            async with aiohttp.ClientSession() as session:  # the router has seen the other one go
                await session.get(f"{router}/health")
            gone.set()
            await done.wait()
    assert "Error handling request" not in caplog.text


async def test_any_number_of_slow_answers_holds_up_no_other_one() -> None:
    go_on, waiting = asyncio.Event(), asyncio.Semaphore(0)

    async def slow(_: web.Request) -> web.Response:
        waiting.release()
        await go_on.wait()
        return web.Response()

    async def fast(_: web.Request) -> web.Response:
        return web.Response(status=204)

    app = web.Application()
    app.router.add_post("/v1/slow", slow)
    app.router.add_post("/v1/fast", fast)
    many = aiohttp.TCPConnector(limit=0)
    async with (
        serving(app) as url,
        a_router(url) as router,
        aiohttp.ClientSession(connector=many) as session,
        asyncio.timeout(PATIENCE),
        asyncio.TaskGroup() as calls,
    ):
        for _ in range(SLOW_CALLS):
            calls.create_task(post_only(session, f"{router}/v1/slow"))
        for _ in range(SLOW_CALLS):
            await waiting.acquire()
        assert await post_only(session, f"{router}/v1/fast") == 204
        go_on.set()


async def post_only(session: aiohttp.ClientSession, url: str) -> int:
    async with session.post(url, data=ASKED) as answer:
        return answer.status


async def test_the_frontends_that_live_share_the_requests_evenly() -> None:
    counts = [0, 0]

    def counting(number: int) -> web.Application:
        async def answer(_: web.Request) -> web.Response:
            counts[number] += 1
            return web.json_response({})

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        return app

    async with serving(counting(0)) as one, serving(counting(1)) as other:
        dead = f"http://127.0.0.1:{unused_port()}"
        for frontends in ((dead, one, other), (one, dead, other), (one, other, dead)):
            counts[:] = [0, 0]
            async with a_router(*frontends) as router, aiohttp.ClientSession() as session:
                for _ in range(10):
                    async with session.post(f"{router}/v1/x", data=b'{"model": "m"}') as answer:
                        assert answer.status == 200
            assert counts == [5, 5]
