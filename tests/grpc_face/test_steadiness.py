"""No path ends the server; and should gRPC ever stop serving, the service ends with it."""

import asyncio
from itertools import count
from typing import Any

import grpc
import pytest
from grpc._cython import cygrpc

from global_discovery.serving.grpc import server as server_module
from global_discovery.serving.grpc import steady
from global_discovery.serving.service import Service
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.grpc_calls import Stub, Watch
from support.hostile_http2 import HELLO, a_call
from support.running import a_service, target

NO_PATHS = [b"\xff", b"/\xff\xfe/ListPools", b"\xed\xa0\x80", b"", b"/", b"//", b"/a\0b", b"*"]


async def send(service: Service, data: bytes) -> bytes:
    """Sends bytes on a connection of their own; what came first."""
    host, _, port = target(service).rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    async with asyncio.timeout(20):
        came = await reader.read(65_536)
    writer.close()
    return came


@pytest.mark.parametrize("path", NO_PATHS)
async def test_a_call_to_a_path_that_is_none_leaves_calls_and_streams_alone(
    service: Service, stub: Stub, path: bytes
) -> None:
    """grpc.aio ended its server, for everybody and for ever, at one that is not UTF-8."""
    watch = Watch(stub)
    await watch.begun()
    await send(service, HELLO + a_call(1, path) + a_call(3, path))
    await stub.ListPools(pb.ListPoolsRequest())
    assert not watch.call.done()
    watch.call.cancel()


async def test_a_call_that_fails_before_it_is_one_costs_no_taker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take, asked, waiting = steady._TakingCalls._request_registered_call, count(), 0

    async def fails_once(calls: steady._TakingCalls, method: bytes) -> Any:
        nonlocal waiting
        if b"ListPools" not in method:
            return await take(calls, method)
        if next(asked) == 0:
            raise cygrpc._RequestCallError
        waiting += 1
        try:
            return await take(calls, method)
        finally:
            waiting -= 1

    monkeypatch.setattr(steady._TakingCalls, "_request_registered_call", fails_once)
    async with a_service() as service, grpc.aio.insecure_channel(target(service)) as channel:
        async with asyncio.timeout(20):
            await PoolDiscoveryServiceStub(channel).ListPools(pb.ListPoolsRequest())
        assert waiting == steady.TAKERS


async def test_a_service_whose_grpc_server_has_failed_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """So that it is started again, instead of being ready and deaf."""
    monkeypatch.setattr(server_module, "steady_server", plain)
    async with a_service() as service:
        running = asyncio.create_task(service.run())
        host, _, port = target(service).rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(HELLO + a_call(1, b"\xff"))
        async with asyncio.timeout(20):
            with pytest.raises((RuntimeError, UnicodeDecodeError)):
                await running
        writer.close()
    caplog.clear()


def plain(options: list[tuple[str, int]]) -> grpc.aio.Server:
    """As grpc.aio makes it."""
    return grpc.aio.server(options=options)
