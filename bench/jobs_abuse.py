"""Job k: what everyone else notices of one abuser."""

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import content
import h2
import http1
import measure
import report
from abuser import KINDS
from processes import our_server
from report import Aim, Row
from sides import Ours

POOLS = 10_000
CALLS_A_SECOND = 200
RELAYS = 1_000
"""Each calls every five seconds, as relays do."""
REGISTER = content.SERVICE + "RegisterPool"
WARM_SECONDS = 1.0
"""Until an abuser is at its pace, and until the service is at rest after one."""


async def abuse(*, quick: bool, kinds: Sequence[str] = tuple(KINDS)) -> list[Row]:
    """The p99 of heartbeats over both faces, beside each kind of abuser and without."""
    rounds, seconds = (2, 2.0) if quick else (3, 3.0)
    rows: list[Row] = []
    aim = Aim("alone", 2, at_most=True)
    for kind in kinds:
        with our_server() as server:
            channel = await h2.connect(server.ports["grpc"])
            side = Ours(server, channel)
            await side.register_pools(POOLS)
            sides = {"alone": _beats(side, seconds), "beside": _beats(side, seconds, kind)}
            found = await measure.alternating(rounds, sides)
            channel.close()
        rows += [
            report.row("k", f"{kind}: RegisterPool, p99", "ms", found, "grpc", aim=aim),
            report.row("k", f"{kind}: POST /pools, p99", "ms", found, "http", aim=aim),
            report.row("k", f"{kind}: CPU", "% of a core", found, "busy"),
        ]
    return rows


def _beats(side: Ours, seconds: float, abuser: str = "") -> measure.Measure:
    async def one_round() -> dict[str, float]:
        async with _beside(side, abuser) if abuser else contextlib.nullcontext():
            await asyncio.sleep(WARM_SECONDS)
            with measure.Cost(side.server) as cost:
                found = await _heartbeats(side, seconds)
            return found | {"busy": cost.cpu / cost.wall * 100}

    return one_round


@contextlib.asynccontextmanager
async def _beside(side: Ours, kind: str) -> AsyncIterator[None]:
    """While an abuser is at work, in a process of its own."""
    ports = side.server.ports
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("abuser.py")),
        kind,
        str(ports["grpc"]),
        str(ports["http"]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        limit=2**20,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        await process.stdout.readline()
        yield
    finally:
        process.stdin.close()
        did = (await process.stdout.readline()).decode().strip()
        print(f"    {kind}: {did} times", flush=True)
        await process.wait()


async def _heartbeats(side: Ours, seconds: float) -> dict[str, float]:
    """Heartbeats in time, evenly spaced, over both faces in turn."""
    over_http = await http1.connect(side.server.ports["http"])
    one_at_a_time = asyncio.Lock()
    took: dict[str, list[float]] = {"grpc": [], "http": []}
    loop = asyncio.get_running_loop()

    async def beat(number: int) -> None:
        index = number % RELAYS
        lease_id = side.lease_ids[index]
        started = time.perf_counter()
        if number % 2:
            request = content.register_request(index, lease_id=lease_id)
            await side.channel.unary(REGISTER, request)
        else:
            async with one_at_a_time:
                started = time.perf_counter()
                await over_http.ask(_post(content.json_registration(index, lease_id)))
        took["grpc" if number % 2 else "http"].append((time.perf_counter() - started) * 1e3)

    began = loop.time()
    async with asyncio.TaskGroup() as group:
        for number in range(int(CALLS_A_SECOND * seconds)):
            await asyncio.sleep(began + number / CALLS_A_SECOND - loop.time())
            group.create_task(beat(number))
    over_http.close()
    return {face: measure.percentile(sorted(each), 0.99) for face, each in took.items()}


def _post(document: object) -> bytes:
    body = json.dumps(document).encode()
    return http1.request("POST", "/pools", body, Content_Type="application/json")
