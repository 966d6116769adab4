"""A gRPC client's side: what an error says, and a watch that folds what it reads."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import grpc
from google.rpc import error_details_pb2 as details_pb
from grpc_status import rpc_status

from global_discovery.v1 import pool_discovery_pb2 as pb
from support.fold import FoldingClient

if TYPE_CHECKING:  # the stub files alone tell the two kinds apart
    from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceAsyncStub

    Stub: TypeAlias = PoolDiscoveryServiceAsyncStub
else:
    from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub

    Stub = PoolDiscoveryServiceStub

PATIENCE_SECONDS = 60


class Refusal(NamedTuple):
    """A status with its details."""

    code: grpc.StatusCode
    message: str
    reason: str
    domain: str
    metadata: dict[str, str]
    fields: list[str]
    retry_seconds: float | None


def refusal(error: grpc.aio.AioRpcError) -> Refusal:
    """What an error says; its reason is empty when it has no details."""
    status = rpc_status.from_call(error)
    info, bad, retry = details_pb.ErrorInfo(), details_pb.BadRequest(), details_pb.RetryInfo()
    has_retry = False
    for detail in status.details if status is not None else ():
        detail.Unpack(info)
        detail.Unpack(bad)
        has_retry |= detail.Unpack(retry)
    return Refusal(
        code=error.code(),
        message=error.details() or "",
        reason=info.reason,
        domain=info.domain,
        metadata=dict(info.metadata),
        fields=[violation.field for violation in bad.field_violations],
        retry_seconds=retry.retry_delay.ToMilliseconds() / 1000 if has_retry else None,
    )


async def refused(call: Any) -> Refusal:
    """Awaits a unary call that must fail."""
    try:
        answer = await call
    except grpc.aio.AioRpcError as error:
        return refusal(error)
    raise AssertionError(f"answered: {answer}")


class Watch:
    """One WatchPools call over a real channel."""

    def __init__(
        self,
        stub: Stub,
        request: pb.WatchPoolsRequest | None = None,
        client: FoldingClient | None = None,
    ) -> None:
        self.client = client or FoldingClient()
        self.client.begin_stream()
        self.call: Any = stub.WatchPools(request or pb.WatchPoolsRequest())

    async def read(self) -> pb.WatchPoolsResponse | None:
        """The next message; None at the end."""
        message = await self.call.read()
        if message is grpc.aio.EOF:
            return None
        assert isinstance(message, pb.WatchPoolsResponse)
        self.client.take(message)
        return message

    async def until(self, reached: Callable[[FoldingClient], bool]) -> FoldingClient:
        """Reads until the client is where it should be."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not reached(self.client):
                assert await self.read() is not None, "the stream ended"
        return self.client

    async def begun(self) -> FoldingClient:
        """Reads until the first closing message."""
        return await self.until(lambda client: client.mark is not None)

    async def end(self) -> Refusal | None:
        """Reads to the end: None when it ended with OK."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            try:
                while await self.read() is not None:
                    pass
            except grpc.aio.AioRpcError as error:
                return refusal(error)
        return None


async def eventually(holds: Callable[[], bool]) -> None:
    """Waits for a condition, with patience."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110 - nothing tells when it holds
            await asyncio.sleep(0.01)


async def all_of(*jobs: Coroutine[Any, Any, Any]) -> list[Any]:
    """All at once, in order; the first failure ends them."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(job) for job in jobs]
    return [task.result() for task in tasks]
