"""The client commands as processes, read line by line."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any

from support.serve_process import clean_environment

COMMAND = [sys.executable, "-m", "global_discovery.cli.main"]
PATIENCE_SECONDS = 60


class Ran:
    """What a command that ended said."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status = status
        self.out = out
        self.err = err


async def ran(*arguments: str | bytes, **variables: str) -> Ran:
    """Runs a command to its end, with its output on pipes."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=clean_environment(**variables),
    )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.communicate()
        raise
    assert process.returncode is not None
    return Ran(process.returncode, out.decode(), err.decode())


class Running:
    """A command that runs on. Its lines are read one after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> str:
        """The next line of its output."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            line = await self.process.stdout.readline()
        assert line, f"it has ended: {await self._errors()}"
        return line.decode().rstrip("\n")

    async def line_with(self, text: str) -> str:
        """The next line that has this in it; those before it are skipped."""
        while text not in (line := await self.line()):
            pass
        return line

    async def ended(self) -> tuple[int, str]:
        """The exit status and what is left of the output."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            rest = await self.process.stdout.read()
            return await self.process.wait(), rest.decode()

    async def _errors(self) -> Any:
        assert self.process.stderr is not None
        return await self.process.stderr.read()


@contextlib.asynccontextmanager
async def running(*arguments: str, **variables: str) -> AsyncIterator[Running]:
    """Starts a command, and kills it at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=clean_environment(**variables),
    )
    try:
        yield Running(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()
