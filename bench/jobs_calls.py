"""Jobs a and b: heartbeats, one by one and in batches."""

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import count
from typing import Any

import content
import grpc
import h2
import measure
import report
from report import Aim, Row
from sides import BARE, Bare, Etcd, Ours, in_parallel

from global_discovery.v1 import pool_discovery_pb2 as pb

Unary = Callable[[str, bytes], Awaitable[bytes]]
RELAYS = 200
CONNECTIONS = 4
CONCURRENT = 32
KEEPALIVE_STREAMS = 8


async def register_pool(ours: Ours, bare: Bare, *, quick: bool) -> list[Row]:
    """Job a."""
    calls, rounds = (1_000, 3) if quick else (4_000, 9)
    requests = [
        content.register_request(index, lease_id=ours.lease_ids[index]) for index in range(RELAYS)
    ]
    sequence = count(1)
    register = content.SERVICE + "RegisterPool"
    answer = await ours.channel.unary(register, requests[0])
    await bare.channel.unary(BARE + "SetAnswer", answer)

    def heartbeats(side: Ours | Bare, unary: Sequence[Unary], path: str) -> measure.Measure:
        async def one_round() -> dict[str, float]:
            seconds: list[float] = []

            async def call(number: int) -> None:
                request = requests[number % RELAYS] + content.sequence_field(next(sequence))
                started = time.perf_counter()
                got = await unary[number % CONNECTIONS](path, request)
                seconds.append(time.perf_counter() - started)
                if len(got) != len(answer):
                    raise RuntimeError(f"{side.name}: an answer of another size")

            with measure.Cost(side.server) as cost:
                await in_parallel(calls, call, CONCURRENT)
            return {
                "rate": calls / cost.wall,
                "cpu": cost.cpu / calls * 1e6,
                "p99": measure.percentile(sorted(seconds), 0.99) * 1e3,
            }

        return one_round

    rows = []
    for client, connect in (("grpc.aio client", _grpc_callers), ("raw client", _raw_callers)):
        async with connect(ours) as to_ours, connect(bare) as to_bare:
            found = await measure.alternating(
                rounds,
                {
                    "ours": heartbeats(ours, to_ours, register),
                    "bare": heartbeats(bare, to_bare, BARE + "Answer"),
                },
            )
        p99 = f"{client}, p99, {CONCURRENT} calls at a time"
        rows += [
            report.row("a", f"{client}, calls", "1/s", found, "rate", aim=Aim("bare", 0.9)),
            report.row("a", f"{client}, CPU a call", "µs", found, "cpu"),
            report.row("a", p99, "ms", found, "p99"),
        ]
    return rows


@contextlib.asynccontextmanager
async def _raw_callers(side: Ours | Bare) -> AsyncIterator[list[Unary]]:
    """Costs next to nothing itself, so that the server sets the pace."""
    channels = [await h2.connect(side.server.ports["grpc"]) for _ in range(CONNECTIONS)]
    yield [channel.unary for channel in channels]
    for channel in channels:
        channel.close()


@contextlib.asynccontextmanager
async def _grpc_callers(side: Ours | Bare) -> AsyncIterator[list[Unary]]:
    """What relays use: costs about as much as the server."""
    address = f"127.0.0.1:{side.server.ports['grpc']}"
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(address, options=options) for _ in range(CONNECTIONS)]

    def caller(channel: grpc.aio.Channel) -> Unary:
        async def unary(path: str, message: bytes) -> bytes:
            call: Any = channel.unary_unary(path)  # bytes as they are, which no type says
            answer: bytes = await call(message)
            return answer

        return unary

    yield [caller(channel) for channel in channels]
    for channel in channels:
        await channel.close()


async def renew_pools(ours: Ours, etcd: Etcd | None, *, quick: bool) -> list[Row]:
    """Job b."""
    rows = []
    for batch in (1_000, 10_000):
        sides = {"ours": _batches(ours, batch, 20_000 if quick else 100_000)}
        if etcd is not None:
            sides["etcd"] = await _keepalives(etcd, 2_000 if quick else 10_000)
        found = await measure.alternating(2 if quick else 5, sides)
        aim = Aim("etcd", 20) if etcd else None
        rows += [
            report.row("b", f"renewals, batches of {batch:,}", "1/s", found, "rate", aim=aim),
            report.row("b", "CPU a renewal", "µs", found, "cpu"),
        ]
    return rows


def _batches(ours: Ours, batch: int, renewals: int) -> measure.Measure:
    path = content.SERVICE + "RenewPools"
    requests = [
        pb.RenewPoolsRequest(lease_ids=ours.lease_ids[at : at + batch]).SerializeToString()
        for at in range(0, len(ours.lease_ids), batch)
    ]

    async def one_round() -> dict[str, float]:
        with measure.Cost(ours.server) as cost:
            for number in range(renewals // batch):
                answer = await ours.channel.unary(path, requests[number % len(requests)])
                if pb.RenewPoolsResponse.FromString(answer).unknown_lease_ids:
                    raise RuntimeError("ours did not renew a lease")
        return {"rate": renewals / cost.wall, "cpu": cost.cpu / renewals * 1e6}

    return one_round


async def _keepalives(etcd: Etcd, renewals: int) -> measure.Measure:
    channels = [await h2.connect(etcd.server.ports["grpc"]) for _ in range(CONNECTIONS)]
    lease_ids = range(1, renewals + 1)

    async def one_round() -> dict[str, float]:
        async def stream(number: int) -> None:
            mine = lease_ids[number::KEEPALIVE_STREAMS]
            await etcd.keep_alive(mine, channels[number % CONNECTIONS])

        with measure.Cost(etcd.server) as cost:
            await in_parallel(KEEPALIVE_STREAMS, stream)
        return {"rate": renewals / cost.wall, "cpu": cost.cpu / renewals * 1e6}

    return one_round
