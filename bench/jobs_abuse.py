"""Job k: what everyone else notices of one abuser."""

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
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

POOLS = 5_000
CALLS_A_SECOND = 200
RELAYS = 1_000
"""Each calls every five seconds, as relays do."""
REGISTER = content.SERVICE + "RegisterPool"
WARM_SECONDS = 0.7
"""Until an abuser is at its pace, and until the service is at rest after one."""


async def abuse(*, quick: bool, kinds: Sequence[str] = tuple(KINDS)) -> list[Row]:
    """The p99 of heartbeats over both faces, beside each kind of abuser and without.

    The calls of all rounds of a side are taken together: a percentile of one round
    would be one of its two or three worst calls.
    """
    rounds, seconds = (3, 1.0) if quick else (4, 2.0)
    rows: list[Row] = []
    aim = Aim("alone", 2, at_most=True)
    for kind in kinds:
        with our_server() as server:
            channel = await h2.connect(server.ports["grpc"])
            side = Ours(server, channel)
            await side.register_pools(POOLS)
            took: dict[str, _Took] = {"alone": _Took(), "beside": _Took()}
            for number in range(2 * rounds):
                name = ("alone", "beside", "beside", "alone")[number % 4]
                await _measure(side, seconds, took[name], kind if name == "beside" else "")
            channel.close()
        grpc, http = ({n: t.p99(face) for n, t in took.items()} for face in ("grpc", "http"))
        busy = {name: measure.median(each.busy) for name, each in took.items()}
        rows += [
            report.row_of("k", f"{kind}: RegisterPool, p99", "ms", grpc, aim=aim),
            report.row_of("k", f"{kind}: POST /pools, p99", "ms", http, aim=aim),
            report.row_of("k", f"{kind}: CPU", "% of a core", busy),
        ]
    return rows


class _Took:
    """What the calls of one side took, in milliseconds, by face, and what they cost."""

    def __init__(self) -> None:
        self.calls: dict[str, list[float]] = {"grpc": [], "http": []}
        self.busy: list[float] = []

    def p99(self, face: str) -> float:
        """Of all calls over a face."""
        return measure.percentile(sorted(self.calls[face]), 0.99)


async def _measure(side: Ours, seconds: float, took: _Took, abuser: str) -> None:
    """One round."""
    async with _beside(side, abuser) if abuser else contextlib.nullcontext():
        await asyncio.sleep(WARM_SECONDS)
        with measure.Cost(side.server) as cost:
            await _heartbeats(side, seconds, took.calls)
    took.busy.append(cost.cpu / cost.wall * 100)


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


async def _heartbeats(side: Ours, seconds: float, took: Mapping[str, list[float]]) -> None:
    """Heartbeats in time, evenly spaced, over both faces in turn; adds what they took."""
    over_http = await http1.connect(side.server.ports["http"])
    one_at_a_time = asyncio.Lock()
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


def _post(document: object) -> bytes:
    body = json.dumps(document).encode()
    return http1.request("POST", "/pools", body, Content_Type="application/json")
