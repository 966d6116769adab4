"""A Global Router in one page: an HTTP proxy in front of the pools of all clusters.

It takes OpenAI requests, looks up the pools of their `model` in a `PoolCache` and
passes each request on to the next frontend of these pools. A frontend that cannot
be reached is passed over. Answers are streamed. Run it with

    python examples/router.py --server discovery.example:50051 --listen 127.0.0.1:8000

What a real one needs besides: limits, authentication, metrics, a choice by load
or region.
"""

import argparse
import asyncio
import itertools
import json
import signal
from collections.abc import Iterator, Mapping

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from global_discovery.client import PoolCache

MAX_BODY_BYTES = 32 * 1024 * 1024
CONNECT_SECONDS = 2.0
HOP_BY_HOP = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
# The body is read, and decoded, before it is passed on.
OURS = HOP_BY_HOP | {"host", "expect", "content-length", "content-encoding"}


class Router:
    """Passes requests on to the frontends that the cache knows."""

    def __init__(self, cache: PoolCache, session: aiohttp.ClientSession) -> None:
        self._cache = cache
        self._session = session
        self._turns: dict[str, Iterator[int]] = {}

    def app(self) -> web.Application:
        """What it serves."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_get("/health", self.health)
        app.router.add_get("/v1/models", self.models)
        app.router.add_route("*", "/{path:.*}", self.forward)
        return app

    async def models(self, _: web.Request) -> web.Response:
        """`GET /v1/models`: what can be asked for at present."""
        data = [{"id": model, "object": "model"} for model in self._cache.models()]
        return web.json_response({"object": "list", "data": data})

    async def health(self, _: web.Request) -> web.Response:
        """`GET /health`: 200 once there is a view, from a server or from the file."""
        state = self._cache.state
        known = {"synced": state.synced, "exact": state.exact, "connected": state.connected}
        counts = {"listed": state.listed, "carried": state.carried}
        usable = state.synced or bool(state.carried)
        return web.json_response(known | counts, status=200 if usable else 503)

    async def forward(self, request: web.Request) -> web.StreamResponse:
        """Any other call: by the model in its body."""
        body = await request.read()
        try:
            model = json.loads(body)["model"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return refusal(400, "invalid_request_error", "the body must be JSON with a model")
        pools = self._cache.pools(model) if isinstance(model, str) else ()
        if not pools and self._cache.state.exact:
            return refusal(404, "model_not_found", f"the model {model!r} does not exist")
        frontends = [url for each in pools for url in each.pool.frontends]
        for frontend in self._in_turn(model, frontends):
            try:
                answer = await self._session.request(
                    request.method,
                    frontend + request.path_qs,
                    data=body,
                    headers=without(request.headers, OURS),
                    allow_redirects=False,
                )
            except aiohttp.ClientError:
                continue  # no answer has begun, or none in HTTP: the next one may do it
            async with answer:
                return await stream(request, answer)
        return refusal(503, "no_backend", f"no frontend of {model!r} is known and can be reached")

    def _in_turn(self, model: str, frontends: list[str]) -> Iterator[str]:
        """Each once, in turn. One that is passed over has had its turn: the rest share evenly."""
        left = list(frontends)
        if not left:
            return
        turns = self._turns.setdefault(model, itertools.count())
        while left:
            frontend = frontends[next(turns) % len(frontends)]
            if frontend in left:
                left.remove(frontend)
                yield frontend


def without(headers: Mapping[str, str], dropped: set[str]) -> CIMultiDict[str]:
    """The other headers, those that come several times included (RFC 9110, 7.6.1)."""
    named = headers.get("Connection", "").lower().split(",")
    dropped = dropped | {name.strip() for name in named}
    return CIMultiDict((k, v) for k, v in headers.items() if k.lower() not in dropped)


async def stream(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    """Hands an answer on as it comes; a broken one is broken off, never ended well."""
    headers = without(answer.headers, HOP_BY_HOP)
    response = web.StreamResponse(status=answer.status, headers=headers)
    try:
        await response.prepare(request)
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
    except (aiohttp.ClientError, ConnectionError):
        if request.transport is not None:
            request.transport.abort()
    return response


def refusal(status: int, code: str, message: str) -> web.Response:
    """An error as OpenAI's clients expect it."""
    kind = {503: "server_error"}.get(status, "invalid_request_error")
    return web.json_response(
        {"error": {"message": message, "type": kind, "param": None, "code": code}}, status=status
    )


def open_session() -> aiohttp.ClientSession:
    """How frontends are called."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),  # one slow model must not hold up the others
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        auto_decompress=False,
        skip_auto_headers=("Accept-Encoding",),
    )


async def serve(servers: list[str], listen: str, saved_view: str | None) -> None:
    """Runs until SIGTERM or Ctrl-C."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with (
        PoolCache(servers, saved_view=saved_view) as cache,
        open_session() as session,
    ):
        runner = web.AppRunner(Router(cache, session).app(), shutdown_timeout=1)
        await runner.setup()
        host, _, port = listen.rpartition(":")
        site = web.TCPSite(runner, host.strip("[]"), int(port))
        await site.start()
        address = runner.addresses[0]
        print(f"listening on http://{address[0]}:{address[1]}", flush=True)
        await stopped.wait()
        await runner.cleanup()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--server", action="append", required=True, help="host:port or URL")
    parser.add_argument("--listen", default="127.0.0.1:8000")
    parser.add_argument("--saved-view", help="a file to begin with when no server answers")
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.server, arguments.listen, arguments.saved_view))
