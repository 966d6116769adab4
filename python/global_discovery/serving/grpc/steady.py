"""A grpc.aio server that no path can stop.

grpc.aio decodes the path of every call to a method that it does not know by name, in
the one loop that takes calls; a path that is not UTF-8 ends that loop, and with it the
server, for everybody. Here all methods are registered, so that calls to them come in
under names of our own, and every other call is answered UNIMPLEMENTED without a look
at its path.

This leans on the inside of grpcio. Where a release looks different inside, its own
server is used: it serves as well, without this. A test holds the locked release to it.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
from grpc._cython import cygrpc
from grpc.aio import _server as library

_NEEDED = ("_handle_rpc", "_schedule_rpc_coro", "_MethodResolver", "_RequestCallError")
_NAMELESS = ""
"""What a call to an unknown method is called: no method is."""


def steady_server(options: Sequence[tuple[str, Any]]) -> grpc.aio.Server:
    """A server whose methods must all be registered (`add_registered_method_handlers`)."""
    inside = hasattr(cygrpc.AioServer, "_make_request_call_future")
    if inside and all(hasattr(cygrpc, name) for name in _NEEDED):
        return _SteadyServer(options)  # type: ignore[return-value] # a server as grpc.aio makes it
    return grpc.aio.server(options=options)


class _SteadyServer(library.Server):
    def __init__(self, options: Sequence[tuple[str, Any]]) -> None:
        self._loop = cygrpc.get_working_loop()
        arguments = library._augment_channel_arguments(options, None)  # noqa: SLF001 - as its own
        self._server = _TakingCalls(self._loop, None, (), (), arguments, None)


class _TakingCalls(cygrpc.AioServer):  # type: ignore[misc] # it has no types
    """The part of grpc.aio that takes calls."""

    def _make_request_call_future(self, method: bytes | None) -> "asyncio.Future[Any]":
        """The next call to a registered method; for all others, the end of the server."""
        if method is not None:
            return super()._make_request_call_future(method)  # type: ignore[no-any-return] # no types
        return asyncio.ensure_future(self._refuse_the_unknown())

    async def _refuse_the_unknown(self) -> None:
        """Until the server stops, which `_request_call` raises."""
        loop = asyncio.get_running_loop()
        nothing = cygrpc._MethodResolver([], {})  # noqa: SLF001 - see the module
        answering: set[asyncio.Task[None]] = set()
        while True:
            call = await self._request_call()
            answer = cygrpc._handle_rpc(_NAMELESS, nothing, (), call, loop, False)  # noqa: SLF001 - as above
            watched = cygrpc._schedule_rpc_coro(answer, call, loop, _NAMELESS)  # noqa: SLF001 - as above
            task = loop.create_task(watched)
            answering.add(task)
            task.add_done_callback(answering.discard)
