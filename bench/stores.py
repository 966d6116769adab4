"""The service over each of its stores, and loads that all of them are given.

Calls are made with the raw client of h2.py, which costs a few microseconds a
call. DynamoDB is dynamodb_server.py, over TLS as the real one.
"""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from itertools import count
from pathlib import Path

import content
import h2
import http1
import measure
import processes
from sides import Ours, in_parallel

from global_discovery.v1 import pool_discovery_pb2 as pb

REGISTER = content.SERVICE + "RegisterPool"
RENEW = content.SERVICE + "RenewPools"
CONNECTIONS = 4
CONCURRENT = 32
TURN_SECONDS = 0.01
PROBE_SECONDS = 0.002
DISK = Path("/var/tmp")
"""Of the places for temporary files the one that is on a disk, everywhere."""
_sequence = count(1)


class Table:
    """Where a table is, for `serve`."""

    def __init__(self, port: int, authority: Path) -> None:
        """`authority` is the certificate that the server there is to be known by."""
        self._flags = (
            "--registration-storage=dynamodb",
            "--dynamodb-table=bench",
            "--dynamodb-region=eu-west-1",
            f"--dynamodb-endpoint-url=https://127.0.0.1:{port}",
        )
        self._environment = {
            "AWS_ACCESS_KEY_ID": "AKIABENCH",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_CA_BUNDLE": str(authority),
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def replica(self, *, refresh_seconds: int) -> contextlib.AbstractAsyncContextManager[Ours]:
        """An instance over this table."""
        period = f"--dynamodb-refresh-secs={refresh_seconds}"
        return instance(*self._flags, period, environment=self._environment)


@contextlib.asynccontextmanager
async def instance(
    *flags: str, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Ours]:
    """The service, started with these flags."""
    with processes.our_server(*flags, environment=environment) as server:
        channel = await h2.connect(server.ports["grpc"])
        try:
            yield Ours(server, channel)
        finally:
            channel.close()


@contextlib.asynccontextmanager
async def a_table() -> AsyncIterator[Table]:
    """An empty table on a server of its own."""
    with tempfile.TemporaryDirectory() as folder:
        authority = Path(folder) / "authority.pem"
        with processes.dynamodb_server(authority) as server:
            yield Table(server.ports["https"], authority)


@contextlib.asynccontextmanager
async def all_stores(*, refresh_seconds: int) -> AsyncIterator[dict[str, Ours]]:
    """One instance with each store, all of them empty."""
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=DISK))
        table = await stack.enter_async_context(a_table())
        yield {
            "memory": await stack.enter_async_context(instance()),
            "sqlite": await stack.enter_async_context(instance(*sqlite_flags(Path(folder, "db")))),
            "dynamodb": await stack.enter_async_context(
                table.replica(refresh_seconds=refresh_seconds)
            ),
        }


def sqlite_flags(path: Path) -> tuple[str, str]:
    """Registrations in this file."""
    return "--registration-storage=sqlite", f"--sqlite-path={path}"


def heartbeat(side: Ours, index: int) -> bytes:
    """What the relay of a registered pool sends each heartbeat interval."""
    request = content.register_request(index, lease_id=side.lease_ids[index])
    return request + content.sequence_field(next(_sequence))


async def connections(side: Ours) -> list[h2.Channel]:
    """Some, as if of several relays."""
    return [await h2.connect(side.server.ports["grpc"]) for _ in range(CONNECTIONS)]


async def call_all(
    side: Ours, requests: Sequence[bytes], *, workers: int = CONCURRENT, settle: float = 0.0
) -> tuple[dict[str, float], list[bytes]]:
    """Makes these calls; what that cost, and the answers.

    `settle` seconds later what the store does afterwards is done too, and is counted.
    """
    channels = await connections(side)
    seconds: list[float] = []
    answers = [b""] * len(requests)

    async def call(number: int) -> None:
        started = time.perf_counter()
        channel = channels[number % CONNECTIONS]
        answers[number] = await channel.unary(REGISTER, requests[number])
        seconds.append(time.perf_counter() - started)

    with measure.Cost(side.server) as whole:
        with measure.Cost(side.server) as calls:
            await in_parallel(len(requests), call, workers)
        await asyncio.sleep(settle)
    for channel in channels:
        channel.close()
    seconds.sort()
    return {
        "rate": len(requests) / calls.wall,
        "cpu": whole.cpu / len(requests) * 1e6,
        "p50": measure.percentile(seconds, 0.5) * 1e3,
        "p99": measure.percentile(seconds, 0.99) * 1e3,
    }, answers


async def register_new(side: Ours, pools: int, *, workers: int = CONCURRENT) -> dict[str, float]:
    """Registers that many further pools, and keeps their lease ids."""
    first = len(side.lease_ids)
    requests = [content.register_request(first + number) for number in range(pools)]
    found, answers = await call_all(side, requests, workers=workers)
    side.lease_ids += [pb.RegisterPoolResponse.FromString(a).lease_id for a in answers]
    return found


async def renew(side: Ours, lease_ids: Sequence[str]) -> None:
    """One RenewPools."""
    request = pb.RenewPoolsRequest(lease_ids=lease_ids).SerializeToString()
    answer = pb.RenewPoolsResponse.FromString(await side.channel.unary(RENEW, request))
    if answer.unknown_lease_ids or answer.not_renewed_lease_ids:
        raise RuntimeError("a lease was not renewed")


async def paced(rate: float, seconds: float, call: Callable[[int], Awaitable[None]]) -> None:
    """Begins `call(0)`, `call(1)`, ... so many times a second, and waits for all of them."""
    total = round(rate * seconds)
    under_way: list[asyncio.Future[None]] = []
    began = time.perf_counter()
    while len(under_way) < total:
        due = min(int((time.perf_counter() - began) * rate) + 1, total)
        under_way += [asyncio.ensure_future(call(n)) for n in range(len(under_way), due)]
        await asyncio.sleep(TURN_SECONDS)
    await asyncio.gather(*under_way)


@contextlib.asynccontextmanager
async def probed(side: Ours) -> AsyncIterator[list[float]]:
    """Asks /livez all the time; what the process did until each answer, in ms of CPU.

    It is answered by the loop alone, so that the largest of these shows for how long
    that was held by other work, also on a machine that does other things too.
    """
    connection = await http1.connect(side.server.ports["http"])
    found: list[float] = []

    async def ask() -> None:
        while True:
            with measure.Cost(side.server) as cost:
                await connection.ask(http1.request("GET", "/livez"))
            found.append(cost.cpu * 1e3)
            await asyncio.sleep(PROBE_SECONDS)

    asking = asyncio.create_task(ask())
    try:
        yield found
    finally:
        asking.cancel()
        await asyncio.wait([asking])
        connection.close()
