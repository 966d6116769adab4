"""A process that is stopped, or killed and started again: what its callers see of it.

Real stops of real processes. The lease is as short as it may be, and nothing is
asserted about how long anything took.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.fold import FoldingClient
from support.pools import a_registration
from support.serve_process import LOOPBACK, PATIENCE_SECONDS, SHORT_LEASE, started

LEASE_SECONDS = 3
STARTING, STALLED = (
    pool_pb2.ESTIMATED_REASON_STARTING,
    pool_pb2.ESTIMATED_REASON_STALLED,
)


@asynccontextmanager
async def relays(stub: Any, *numbers: int) -> AsyncIterator[None]:
    """Relays of these pools, which send one heartbeat after another, whatever the server does."""

    async def beat(number: int) -> None:
        request = pb.RegisterPoolRequest(registration=a_registration(number), relay_id="relay")
        while True:
            await stub.RegisterPool(request, wait_for_ready=True)
            await asyncio.sleep(1)  # the heartbeat interval

    tasks = [asyncio.create_task(beat(number)) for number in numbers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def watch(stub: Any, client: FoldingClient) -> Any:
    """One stream, for a client that keeps what it has."""
    client.begin_stream()
    return stub.WatchPools(pb.WatchPoolsRequest(idle_interval_secs=1), wait_for_ready=True)


async def follow(stream: Any, client: FoldingClient, until: Callable[[], bool]) -> None:
    """Reads until a condition holds after a message."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not until():
            message = await stream.read()
            assert message is not grpc.aio.EOF
            client.take(message)


def reasons(client: FoldingClient) -> list[int]:
    return [] if client.mark is None else list(client.mark.reasons)


@pytest.mark.slow
async def test_a_stop_longer_than_a_lease_loses_no_pool_and_is_told_as_a_stall() -> None:
    flags = [*LOOPBACK, *SHORT_LEASE]
    async with started(*flags) as server:
        port = (await server.ready())["grpc_port"]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = PoolDiscoveryServiceStub(channel)
            client = FoldingClient()
            stream = watch(stub, client)
            async with relays(stub, *range(10)):
                async with relays(stub, *range(10, 20)):
                    await follow(stream, client, lambda: client.exact and len(client.fold) == 20)
                server.send(signal.SIGSTOP)
                await asyncio.sleep(LEASE_SECONDS + 1)  # how long the stop lasts: the input
                server.send(signal.SIGCONT)
                before = len(client.messages)
                await follow(stream, client, lambda: STALLED in reasons(client))
                async with relays(stub, *range(10, 20)):
                    await follow(stream, client, lambda: client.exact)
            later = client.messages[before:]
            assert not [key for message in later for key in message.changes.removed]
            assert not [key for message in later for key in message.changes.unlisted]
            assert len(client.fold) == 20
        assert (await server.event("stalled"))["level"] == "warning"
        assert await server.stop() == 0


async def test_after_a_kill_the_next_one_says_that_it_is_starting_until_it_knows() -> None:
    client = FoldingClient()
    async with started(*LOOPBACK, *SHORT_LEASE) as server:
        port = (await server.ready())["grpc_port"]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = PoolDiscoveryServiceStub(channel)
            for number in range(2):
                request = pb.RegisterPoolRequest(registration=a_registration(number))
                await stub.RegisterPool(request)
            await follow(watch(stub, client), client, lambda: len(client.fold) == 2)
        server.send(signal.SIGKILL)
        assert await server.ended() == -signal.SIGKILL
    again = ["--listen", "127.0.0.1:0", "--grpc-listen", f"127.0.0.1:{port}", *SHORT_LEASE]
    async with (
        started(*again) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        await server.ready()
        stub = PoolDiscoveryServiceStub(channel)
        stream = watch(stub, client)
        await follow(stream, client, lambda: len(client.fold) == 0)
        assert reasons(client) == [STARTING]
        assert len(client.offered) == 2
        async with relays(stub, 0):
            await follow(stream, client, lambda: client.exact)
            assert len(client.offered) == 1
        assert await server.stop() == 0
