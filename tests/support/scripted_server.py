"""A real gRPC server that answers as a test tells it, and remembers what it was asked."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc

from global_discovery.v1 import pool_discovery_pb2 as pb

SERVICE = "global_discovery.v1.PoolDiscoveryService"
HANG = "hang"
END = "end"
INSTANCE = "x-global-discovery-instance"

Step = grpc.StatusCode | Any


@dataclass
class Asked:
    """One call."""

    request: Any
    peer: str
    seconds_left: float | None


@dataclass
class ScriptedServer:
    """Each call takes the next step of its script, the last one again and again.

    A step is a response, a status code to fail with, or HANG. A step of a stream
    is a list of messages, ended by END, a status code or HANG.
    """

    scripts: dict[str, deque[Step]] = field(default_factory=dict)
    asked: asyncio.Queue[Asked] = field(default_factory=asyncio.Queue)
    ended_with: "asyncio.Queue[float | None]" = field(default_factory=asyncio.Queue)
    """What was left of the deadline of each call that hung, when it was ended."""
    withdrawn: list[pb.DeregisterPoolRequest] = field(default_factory=list)
    instance: str = "scripted"
    """Named in the trailing metadata of every unary answer; empty names nobody."""
    port: int = 0

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    def script(self, method: str, *steps: Step) -> None:
        self.scripts[method] = deque(steps)

    async def next_call(self) -> Asked:
        async with asyncio.timeout(30):
            return await self.asked.get()

    def _step(self, method: str) -> Step:
        steps = self.scripts[method]
        return steps.popleft() if len(steps) > 1 else steps[0]

    async def unary(self, method: str, request: Any, context: Any) -> Any:
        if isinstance(request, pb.DeregisterPoolRequest):
            self.withdrawn.append(request)
        self.asked.put_nowait(Asked(request, context.peer(), context.time_remaining()))
        if self.instance:
            context.set_trailing_metadata(((INSTANCE, self.instance),))
        return await _play(self._step(method), context, self.ended_with)

    async def stream(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self.asked.put_nowait(Asked(request, context.peer(), context.time_remaining()))
        for step in self._step("WatchPools"):
            if step is END:
                return
            yield await _play(step, context, self.ended_with)


def _unary(scripted: ScriptedServer, method: str) -> Any:
    async def handle(request: Any, context: Any) -> Any:
        return await scripted.unary(method, request, context)

    return handle


async def _play(step: Step, context: Any, ended_with: "asyncio.Queue[float | None]") -> Any:
    if step is HANG:
        try:
            await asyncio.Event().wait()
        finally:
            ended_with.put_nowait(context.time_remaining())
    if isinstance(step, grpc.StatusCode):
        await context.abort(step, "as the test says")
    return step


@contextlib.asynccontextmanager
async def scripted_server(port: int = 0) -> AsyncIterator[ScriptedServer]:
    """Listens on loopback until the end."""
    scripted = ScriptedServer()
    unary = {
        "RegisterPool": pb.RegisterPoolRequest,
        "DeregisterPool": pb.DeregisterPoolRequest,
        "ListPools": pb.ListPoolsRequest,
    }
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            _unary(scripted, name),
            request_deserializer=message.FromString,
            response_serializer=_serialized,
        )
        for name, message in unary.items()
    }
    handlers["WatchPools"] = grpc.unary_stream_rpc_method_handler(
        scripted.stream,
        request_deserializer=pb.WatchPoolsRequest.FromString,
        response_serializer=_serialized,
    )
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    scripted.port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield scripted
    finally:
        await server.stop(0)


def _serialized(message: Any) -> bytes:
    return bytes(message.SerializeToString())


def granted(lease: int = 15, heartbeat: int = 5, lease_id: str = "id-1") -> pb.RegisterPoolResponse:
    """A good answer to RegisterPool."""
    return pb.RegisterPoolResponse(
        lease_duration_secs=lease, heartbeat_interval_secs=heartbeat, lease_id=lease_id
    )
