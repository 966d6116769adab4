"""The example router's manners, in this process: what it passes on and what it refuses."""

import asyncio
import contextlib
import importlib.util
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from global_discovery.client import PoolCache
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from support.scripted_server import HANG, scripted_server

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
    async with scripted_server() as server:
        server.script("WatchPools", [hello, view, HANG])
        async with (
            PoolCache([server.target]) as cache,
            aiohttp.ClientSession(auto_decompress=False) as session,
        ):
            await cache.wait_synced()
            async with serving(the_example().Router(cache, session).app()) as url:
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
