"""The bare server, as a process of its own.

Its handlers do nothing but what the transport asks for, with the options and
the libraries of the service: it is the ceiling that this transport has on this
machine. It prints its ports as one line of JSON, and ends when its standard
input is closed.
"""

import asyncio
import contextlib
import json
import sys

import grpc
from aiohttp import web

from global_discovery.serving.grpc.server import OPTIONS

ADDRESS = "127.0.0.1:0"
_LEASE = json.dumps(
    {"lease_duration_secs": 3600, "heartbeat_interval_secs": 600, "lease_id": 16 * "x"},
    separators=(",", ":"),
).encode()
Context = grpc.aio.ServicerContext[bytes, bytes]


class Bare:
    """Handlers that answer with what they were given beforehand."""

    def __init__(self) -> None:
        """Nothing to answer yet."""
        self._answer = b""
        self._parts: list[bytes] = []
        self._log: list[bytes] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._list = b""
        self._headers: dict[str, str] = {}

    def handlers(self) -> grpc.GenericRpcHandler:
        """The gRPC service."""
        unary = {
            "SetAnswer": self._set_answer,
            "AddPart": self._add_part,
            "Answer": self._give_answer,
            "Publish": self._publish,
        }
        streams = {"Parts": self._give_parts, "Watch": self._watch}
        methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {}
        methods |= {n: grpc.unary_unary_rpc_method_handler(h) for n, h in unary.items()}
        methods |= {n: grpc.unary_stream_rpc_method_handler(h) for n, h in streams.items()}
        return grpc.method_handlers_generic_handler("bench.Bare", methods)

    def application(self) -> web.Application:
        """The HTTP service."""
        application = web.Application(client_max_size=2**24)
        application.router.add_put("/pools", self._put_list)
        application.router.add_get("/pools", self._get_list)
        application.router.add_post("/pools", self._post)
        return application

    # -- unary -----------------------------------------------------------------

    async def _set_answer(self, request: bytes, context: Context) -> bytes:
        del context
        self._answer = request
        return b""

    async def _give_answer(self, request: bytes, context: Context) -> bytes:
        del request, context
        return self._answer

    # -- streams ---------------------------------------------------------------

    async def _add_part(self, request: bytes, context: Context) -> bytes:
        del context
        self._parts.append(request)
        return b""

    async def _give_parts(self, request: bytes, context: Context) -> None:
        del request
        for part in self._parts:
            await context.write(part)

    async def _publish(self, request: bytes, context: Context) -> bytes:
        del context
        self._log.append(request)
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
        return b""

    async def _watch(self, request: bytes, context: Context) -> None:
        loop = asyncio.get_running_loop()
        at = len(self._log)
        await context.write(request)
        while True:
            while at < len(self._log):
                await context.write(self._log[at])
                at += 1
            future = loop.create_future()
            self._waiting.append(future)
            await future

    # -- HTTP ------------------------------------------------------------------

    async def _put_list(self, request: web.Request) -> web.Response:
        self._list = await request.read()
        self._headers = {
            "Content-Type": "application/json",
            "ETag": request.headers["X-Answer-ETag"],
            "Vary": "Accept-Encoding",
            "X-Global-Discovery-Position": request.headers["X-Answer-Position"],
        }
        return web.Response(status=204)

    async def _get_list(self, request: web.Request) -> web.Response:
        if request.headers.get("If-None-Match") == self._headers["ETag"]:
            return web.Response(status=304, headers=self._headers)
        return web.Response(body=self._list, headers=self._headers)

    async def _post(self, request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=_LEASE, content_type="application/json")


async def serve() -> None:
    """Runs both servers until standard input is closed."""
    handlers = Bare()
    server = grpc.aio.server(options=[*OPTIONS, ("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers((handlers.handlers(),))
    port = server.add_insecure_port(ADDRESS)
    await server.start()
    runner = web.AppRunner(handlers.application(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(json.dumps({"grpc": port, "http": runner.addresses[0][1]}), flush=True)
    await _standard_input_closed()
    await server.stop(0)
    await runner.cleanup()


async def _standard_input_closed() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    await reader.read()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())
