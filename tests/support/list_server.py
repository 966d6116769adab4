"""A server of lists over HTTP that answers as a test tells it, and what a cache makes of that."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from global_discovery.client import PoolCache
from global_discovery.client.errors import INSTANCE
from support.timer import MovedTimer

PATIENCE = 30


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


@contextlib.asynccontextmanager
async def list_server() -> AsyncIterator[HttpServer]:
    """Listens on loopback until the end."""
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


def info(cache: PoolCache) -> str:
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
