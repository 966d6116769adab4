"""`global-discovery serve` as a process of its own, told apart from the test by its log."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

COMMAND = [str(Path(sys.executable).with_name("global-discovery")), "serve"]
LOOPBACK = ["--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"]
SHORT_LEASE = ["--heartbeat-interval-secs", "1", "--lease-duration-secs", "3"]
PATIENCE_SECONDS = 60


def clean_environment(**variables: str) -> dict[str, str]:
    """This process's environment without what would set a flag, and with `variables`."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("GLOBAL_DISCOVERY_")}
    return inherited | variables


class ServeProcess:
    """One running process. Reads its log all the while."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._grown = asyncio.Condition()
        self._over = False
        self._reader = asyncio.create_task(self._read())

    @property
    def events(self) -> list[dict[str, Any]]:
        """The log so far."""
        return [json.loads(line) for line in self.lines]

    async def event(self, name: str) -> dict[str, Any]:
        """The first line of the log with this event, once it is there."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._grown:
            await self._grown.wait_for(lambda: self._over or self._find(name) is not None)
        found = self._find(name)
        assert found is not None, f"ended without {name}: {self.lines}"
        return found

    async def ready(self) -> dict[str, Any]:
        """Its ports, once it takes calls."""
        return await self.event("ready")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        """The exit status, once process and log have ended; -15 when SIGTERM itself ended it."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._reader
            return await self.process.wait()

    async def stop(self) -> int:
        """SIGTERM, and the exit status."""
        self.send(signal.SIGTERM)
        return await self.ended()

    async def close(self) -> None:
        """Leaves nothing behind, whatever became of it."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self._reader
        await self.process.wait()

    def _find(self, name: str) -> dict[str, Any] | None:
        return next((event for event in self.events if event["event"] == name), None)

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            async with self._grown:
                self.lines.append(line.decode())
                self._grown.notify_all()
        async with self._grown:
            self._over = True
            self._grown.notify_all()


@contextlib.asynccontextmanager
async def started(
    *flags: str,
    command: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    stdin: int = asyncio.subprocess.DEVNULL,
) -> AsyncIterator[ServeProcess]:
    """A process with these flags, killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *(command or COMMAND),
        *flags,
        stdin=stdin,
        stderr=asyncio.subprocess.PIPE,
        env=clean_environment() if env is None else dict(env),
    )
    running = ServeProcess(process)
    try:
        yield running
    finally:
        await running.close()
