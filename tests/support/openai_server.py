"""A small OpenAI-compatible server on loopback, told by a test what to serve.

In the test's own loop (`openai_server`), or as a process of its own:
`python openai_server.py NAME MODEL...` prints its port, and `PUT /control` takes
the same things that a test sets directly.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class OpenAiServer:
    """What it serves; every field may be changed at any time."""

    name: str = "server"
    """Stands in every completion, so that one can tell who answered."""
    models: list[str] = field(default_factory=list)
    adapters: dict[str, str] = field(default_factory=dict)
    """Adapter names to the models that they belong to."""
    health: int = 200
    """The status of `/health`."""
    models_answer: tuple[int, bytes] | None = None
    """Answered by `/v1/models` in place of the list."""
    hangs: bool = False
    """Whether nothing is answered any more."""
    chunk_seconds: float = 0.0
    """The pause between the pieces of a streamed completion."""
    asked: list[str] = field(default_factory=list)
    """The paths of all requests."""
    port: int = 0
    _site: web.TCPSite | None = None
    _runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listens, again on the same port when it was stopped."""
        app = web.Application(middlewares=[self._seen])
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_put("/control", self._control)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await self._site.start()
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Refuses connections from now on."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    @web.middleware
    async def _seen(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if request.path != "/control":
            self.asked.append(request.path)
            if self.hangs:
                await asyncio.Event().wait()
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(status=self.health)

    async def _models(self, _request: web.Request) -> web.Response:
        if self.models_answer is not None:
            status, body = self.models_answer
            return web.Response(status=status, body=body, content_type="application/json")
        entries = [{"id": name, "object": "model", "parent": None} for name in self.models]
        entries += [
            {"id": name, "object": "model", "parent": parent}
            for name, parent in self.adapters.items()
        ]
        return web.json_response({"object": "list", "data": entries})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        words = [f"{self.name} ", "serves ", str(asked["model"])]
        if not asked.get("stream"):
            message = {"role": "assistant", "content": "".join(words)}
            return web.json_response({"model": asked["model"], "choices": [{"message": message}]})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for word in words:
            chunk = {"model": asked["model"], "choices": [{"delta": {"content": word}}]}
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
            await asyncio.sleep(self.chunk_seconds)
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _control(self, request: web.Request) -> web.Response:
        for name, value in (await request.json()).items():
            setattr(self, name, value)
        return web.Response(status=204)


@contextlib.asynccontextmanager
async def openai_server(*models: str, **fields: Any) -> AsyncIterator[OpenAiServer]:
    """Serves these models until the end."""
    server = OpenAiServer(models=list(models), **fields)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def _serve_for_ever(name: str, models: list[str]) -> None:
    async with openai_server(*models, name=name) as server:
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve_for_ever(sys.argv[1], sys.argv[2:]))
