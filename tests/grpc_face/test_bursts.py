"""Calls that come faster than they are begun with wait for their turn, whoever sent them."""

import asyncio
import socket

import grpc

from global_discovery.serving.service import Service
from global_discovery.v1 import pool_discovery_pb2 as pb
from support.grpc_calls import Stub
from support.hostile_http2 import HELLO, PING, a_call, frame, reset
from support.running import target

RESETS = 6_000
LIST = b"/global_discovery.v1.PoolDiscoveryService/ListPools"


async def test_a_flood_of_calls_that_are_reset_cancels_nobody_elses(
    service: Service, stub: Stub
) -> None:
    """CVE-2023-44487; above 1,000 waiting calls gRPC by default cancels any of them at random."""
    host, _, port = target(service).rpartition(":")
    await stub.ListPools(pb.ListPoolsRequest())
    streams = range(1, 2 * RESETS, 2)
    flood = b"".join(a_call(each, LIST, flags=0) + reset(each) for each in streams)
    with socket.create_connection((host, int(port))) as attacker:
        # gRPC's own threads take them while this one, and with it the loop, waits here.
        attacker.sendall(HELLO + flood + frame(PING, b"all read"))
        came = b""
        while b"all read" not in came:
            came += attacker.recv(65_536)
        answers = await asyncio.gather(
            *(stub.ListPools(pb.ListPoolsRequest()) for _ in range(200)), return_exceptions=True
        )
        refused = [answer for answer in answers if isinstance(answer, grpc.aio.AioRpcError)]
    assert refused == []
