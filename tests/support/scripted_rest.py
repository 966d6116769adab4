"""A real HTTP server that answers registrations as a test tells it, and remembers them."""

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

HANG = "hang"
DROP = "drop"
"""Ends the connection without an answer."""
PROBLEM = "application/problem+json"


@dataclass(frozen=True)
class Said:
    """One answer."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


Step = Said | str


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    peer: tuple[str, int]


@dataclass
class ScriptedRest:
    """Each request takes the next step of its method's script, the last one again and again."""

    scripts: dict[str, deque[Step]] = field(default_factory=dict)
    asked: asyncio.Queue[Asked] = field(default_factory=asyncio.Queue)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the caller of a request that hangs has given it up."""
    instance: str = "scripted"
    """Named by every answer; empty names nobody."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def script(self, method: str, *steps: Step) -> None:
        self.scripts[method] = deque(steps)

    async def next_call(self) -> Asked:
        async with asyncio.timeout(30):
            return await self.asked.get()

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        assert request.transport is not None
        self.asked.put_nowait(
            Asked(
                request.method,
                request.raw_path,
                request.headers,
                json.loads(body) if body else None,
                request.transport.get_extra_info("peername"),
            )
        )
        steps = self.scripts.get(request.method, deque([Said(405, b"no", "text/plain")]))
        step = steps.popleft() if len(steps) > 1 else steps[0]
        if isinstance(step, Said):
            return web.Response(
                status=step.status,
                body=step.body,
                content_type=step.content_type,
                headers=dict(step.headers)
                | ({"X-Global-Discovery-Instance": self.instance} if self.instance else {}),
            )
        if step == HANG:
            try:
                await asyncio.Event().wait()
            finally:
                self.hung_up.set()
        request.transport.abort()
        return web.Response()


@contextlib.asynccontextmanager
async def scripted_rest(port: int = 0) -> AsyncIterator[ScriptedRest]:
    """Listens on loopback until the end."""
    scripted = ScriptedRest()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", scripted.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        scripted.port = int(runner.addresses[0][1])
        yield scripted
    finally:
        await runner.cleanup()


def granted_json(lease: Any = 15, heartbeat: Any = 5, **more: Any) -> Said:
    """A good answer to `POST /pools`; without `lease_id` that of a legacy server."""
    document = {"lease_duration_secs": lease, "heartbeat_interval_secs": heartbeat} | more
    return Said(200, json.dumps(document).encode())


def a_problem(status: int, detail: str = "as the test says", **more: Any) -> Said:
    """A problem document."""
    document = {"title": "t", "status": status, "detail": detail} | more
    return Said(status, json.dumps(document).encode(), PROBLEM)
