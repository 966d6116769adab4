"""What a server takes: memory, tasks, descriptors, threads and series."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import aiohttp
import psutil

from support.serve_process import PATIENCE_SECONDS, ServeProcess

COMMAND = [sys.executable, str(Path(__file__).with_name("counted_serve.py"))]
MIB = 1024 * 1024


BY_CODE = ("global_discovery_calls_total", "global_discovery_call_seconds")


class Footprint(NamedTuple):
    """At one moment."""

    resident: int
    """In bytes."""
    descriptors: int
    threads: int
    tasks: int
    series: int
    """But those of calls by method and code: each begins with its first call, and there are only
    so many methods and codes."""


async def footprint(server: ServeProcess, rest_port: int) -> Footprint:
    """Of a server that was started with COMMAND; its garbage is collected first."""
    before = len(server.lines)
    server.send(signal.SIGUSR1)
    told: list[str] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not told:
            await asyncio.sleep(0.02)
            told = [line for line in server.lines[before:] if "tasks_counted" in line]
    process = psutil.Process(server.process.pid)
    series = await _series(rest_port)
    return Footprint(
        resident=int(process.memory_info().rss),
        descriptors=process.num_fds(),
        threads=process.num_threads(),
        tasks=int(json.loads(told[0])["tasks"]),
        series=series,
    )


async def _series(rest_port: int) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{rest_port}/metrics") as answer,
    ):
        lines = (await answer.text()).splitlines()
    return sum(1 for line in lines if line and not line.startswith(("#", *BY_CODE)))
