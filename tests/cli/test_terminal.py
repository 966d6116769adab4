"""The tables on a terminal, which is a pseudo terminal here."""

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import termios
from collections.abc import AsyncIterator

import grpc

from global_discovery.serving.service import Service
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.client_process import COMMAND, PATIENCE_SECONDS
from support.pools import a_registration
from support.running import a_service, target
from support.serve_process import clean_environment

_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9][0-9;]*m")
HIDE_CURSOR, SHOW_CURSOR, UP = "\x1b[?25l", "\x1b[?25h", "\x1b[1A"


class Terminal:
    """What a command wrote to its terminal so far."""

    def __init__(self, process: asyncio.subprocess.Process, fd: int) -> None:
        self.process = process
        self.written = ""
        self._fd = fd
        self._came = asyncio.Event()
        asyncio.get_running_loop().add_reader(fd, self._read)

    async def shows(self, *texts: str) -> str:
        """Waits until the texts were written, in this order; takes away what was written."""
        wanted = re.compile(".*".join(map(re.escape, texts)), re.DOTALL)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not wanted.search(_CONTROLS.sub("", self.written)):
                self._came.clear()
                await self._came.wait()
        written, self.written = self.written, ""
        return written

    async def wrote(self, control: str) -> None:
        """Waits until this was written, controls and all."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while control not in self.written:
                self._came.clear()
                await self._came.wait()

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.process.wait()

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 65_536)
        except OSError:  # every writer has closed it
            data = b""
        if not data:
            self.close()
        self.written += data.decode(errors="replace")
        self._came.set()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)


@contextlib.asynccontextmanager
async def terminal(*arguments: str, **variables: str) -> AsyncIterator[Terminal]:
    """A command on a terminal of 120 columns and 20 lines."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 120, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        stdin=its,
        stdout=its,
        stderr=its,
        env=clean_environment(**{"TERM": "xterm-256color", "NO_COLOR": "", **variables}),
    )
    os.close(its)
    shown = Terminal(process, ours)
    try:
        yield shown
    finally:
        shown.close()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        os.close(ours)


async def register(service: Service, number: int) -> None:
    async with grpc.aio.insecure_channel(target(service)) as channel:
        request = pb.RegisterPoolRequest(registration=a_registration(number))
        await PoolDiscoveryServiceStub(channel).RegisterPool(request)


async def test_a_watch_redraws_its_table_in_place_and_gives_the_terminal_back() -> None:
    async with (
        a_service() as service,
        terminal("pools", "--watch", "--server", target(service)) as shown,
    ):
        first = await shown.shows("0 pools, ESTIMATED: STARTING")
        assert HIDE_CURSOR in first
        await register(service, 1)
        assert UP in await shown.shows("1 pool, ", "c1/ns/pool-00001")
        shown.process.send_signal(signal.SIGINT)
        assert await shown.ended() == 130
        assert "Traceback" not in shown.written


async def test_the_cursor_is_shown_again_after_sigterm() -> None:
    async with (
        a_service() as service,
        terminal("pools", "--watch", "--server", target(service)) as shown,
    ):
        await shown.shows("0 pools")
        shown.process.send_signal(signal.SIGTERM)
        await shown.wrote(SHOW_CURSOR)
        assert await shown.ended() == 143


async def test_a_lost_connection_is_shown_and_what_was_known_stays() -> None:
    async with a_service() as service:
        await register(service, 1)
        watching = terminal("pools", "--watch", "--server", target(service))
        shown = await watching.__aenter__()
        await shown.shows("c1/ns/pool-00001")
    try:
        await shown.shows("not connected: ", "c1/ns/pool-00001")
    finally:
        await watching.__aexit__(None, None, None)


async def test_colour_is_used_on_a_terminal_and_not_with_no_color() -> None:
    async with a_service() as service:
        server = ("--server", target(service))
        async with terminal("pools", *server) as shown:
            assert _COLOUR.search(await shown.shows("some may be missing"))
        async with terminal("pools", *server, NO_COLOR="1") as shown:
            assert not _COLOUR.search(await shown.shows("some may be missing"))


async def test_a_terminal_that_cannot_redraw_gets_lines() -> None:
    async with (
        a_service() as service,
        terminal("pools", "--watch", "--server", target(service), TERM="dumb") as shown,
    ):
        assert "\x1b" not in await shown.shows("snapshot  0 pools")


async def test_a_refused_watch_ends_with_a_sentence_and_the_cursor_shown() -> None:
    models = [word for number in range(257) for word in ("--model", f"m{number}")]
    async with (
        a_service() as service,
        terminal("pools", "--watch", *models, "--server", target(service)) as shown,
    ):
        assert await shown.ended() == 1
        await shown.wrote(SHOW_CURSOR)
        assert "Traceback" not in await shown.shows("refused the call: ")
