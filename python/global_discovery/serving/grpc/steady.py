"""A grpc.aio server that no path can stop, and that takes calls for less.

grpc.aio decodes the path of every call to a method that it does not know by name, in
the one loop that takes calls; a path that is not UTF-8 ends that loop, and with it the
server, for everybody. Here all methods are registered, so that calls to them come in
under names of our own, and every other call is answered UNIMPLEMENTED without a look
at its path.

That loop also looks at all methods whenever one is called, and takes one call of each
at a time. Here each method is waited for on its own, by several takers: of a burst
several calls are begun in one turn of the event loop, in the order in which they came.

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
TAKERS = 4
"""Of each method: calls that are begun in one turn of the loop at the most."""


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

    _handlers: dict[str, Any]
    _answering: set[asyncio.Task[None]]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._handlers, self._answering = {}, set()

    def add_registered_method_handlers(self, method_handlers: dict[str, Any]) -> None:
        super().add_registered_method_handlers(method_handlers)
        self._handlers.update(method_handlers)

    def _make_request_call_future(self, method: bytes | None) -> "asyncio.Future[Any]":
        """For grpc.aio: the next call. Here none comes that way, and this ends with the server."""
        return asyncio.ensure_future(self._take_all(method))

    async def _take_all(self, method: bytes | None) -> None:
        """Raises _RequestCallError when the server stops, as grpc.aio expects it of one call."""
        await asyncio.gather(*(self._take(method) for _ in range(TAKERS)))
        raise cygrpc._RequestCallError  # noqa: SLF001 - see the module

    async def _take(self, method: bytes | None) -> None:
        """The calls to one method, or to all that are not registered, until the server stops."""
        loop = asyncio.get_running_loop()
        name = _NAMELESS if method is None else method.decode()
        methods = cygrpc._MethodResolver([], self._handlers)  # noqa: SLF001 - as above
        handle, watched = cygrpc._handle_rpc, cygrpc._schedule_rpc_coro  # noqa: SLF001 - as above
        while True:
            try:
                if method is None:
                    call = await self._request_call()
                else:
                    call = await self._request_registered_call(method)
            except cygrpc._RequestCallError:  # noqa: SLF001 - as above
                if self.is_running():
                    continue  # one call failed, before it was one
                return
            answer = handle(name, methods, (), call, loop, False)
            task = loop.create_task(watched(answer, call, loop, name))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
