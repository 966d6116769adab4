"""`global-discovery relay` as a process of its own, told apart from the test by its log."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp

from support.serve_process import PATIENCE_SECONDS, ServeProcess, clean_environment, started

COMMAND = [str(Path(sys.executable).with_name("global-discovery")), "relay"]


class RelayProcess:
    """One running relay."""

    def __init__(self, process: ServeProcess, port: int) -> None:
        self.process = process
        self.port = port

    async def health(self) -> Any:
        """The document of its `/health`."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.port}/health") as answer,
        ):
            return await answer.json()

    async def until(self, wanted: Callable[[Any], bool]) -> Any:
        """Its health, once that is as wanted."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not wanted(document := await self.health()):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)
        return document

    async def event(self, name: str) -> dict[str, Any]:
        """A line of its log."""
        return await self.process.event(name)

    async def stop(self) -> list[str]:
        """SIGTERM; the names of all that it logged."""
        status = await self.process.stop()
        assert status == 0, self.process.lines
        return [event["event"] for event in self.process.events]


@contextlib.asynccontextmanager
async def a_relay_process(*flags: str, **variables: str) -> AsyncIterator[RelayProcess]:
    """Started with these flags, on a free port, and killed at the end if it still runs."""
    variables.setdefault("DYN_CLUSTER_ID", "c1")
    async with started(
        *flags,
        "--listen",
        "127.0.0.1:0",
        command=COMMAND,
        env=clean_environment(**variables),
    ) as process:
        yield RelayProcess(process, (await process.event("started"))["port"])
