"""A slot: the place of one server, in which `serve` processes come and go.

Everything that reaches a slot over a link goes on reaching it when the next process
listens on other ports. Each line of each log is read: one that no document knows, an
error or a traceback is a breach, and so is a process that ends by itself.
"""

import asyncio
import contextlib
import json
import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from chaos.history import Deaf, History, now
from chaos.links import Link
from global_discovery.domain.events import Event
from support.serve_process import LOOPBACK, ServeProcess, clean_environment, started

DOCUMENTS = Path(__file__).parents[2] / "docs"
KNOWN_EVENTS = {
    name
    for document in DOCUMENTS.glob("*.md")
    for name in re.findall(r"^\| `([a-z_]+)` \|", document.read_text(), re.MULTILINE)
}
"""Whatever opens a row of a table there: an operator can look it up."""
PATIENCE_SECONDS = 60
STOP_SECONDS = 20.0
"""Longer than the service takes for an orderly stop, whatever hangs."""
CERTAIN_SECONDS = 0.4
"""How much longer than a heartbeat interval a stop must be to be a stall beyond doubt."""
LOG_POLL_SECONDS = 0.03
LOG_SECONDS = 0.5
"""How late a line of its log is read at most, besides what this program runs late."""
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
"""None where it is not installed: then no wall clock is stepped."""


class Slot:
    """One server and its successors."""

    def __init__(
        self, name: str, history: History, folder: Path, flags: Callable[[], Sequence[str]]
    ) -> None:
        self.name = name
        self.grpc_port = 0
        self.rest_port = 0
        self.processes = 0
        self.command: Sequence[str] = ()
        """What is run in the place of `global-discovery serve`."""
        self.variables: dict[str, str] = {}
        self.running: ServeProcess | None = None
        self.log: list[str] = []
        self._history = history
        self._flags = flags
        self._links: list[tuple[Link, str]] = []
        self._life = contextlib.AsyncExitStack()
        self._deaf: Deaf | None = None
        self._takes_calls = False
        """Whether the running process says that it does."""
        self._clock = folder / f"{name}.clock"
        self.step_clock(0)

    # -- ways to it ------------------------------------------------------------

    def join(self, link: Link, face: str) -> None:
        """The link leads to this face, of whatever process there is."""
        self._links.append((link, face))
        link.lead_to(self.port(face))

    def port(self, face: str) -> int:
        return self.grpc_port if face == "grpc" else self.rest_port

    # -- life ------------------------------------------------------------------

    async def start(self) -> None:
        """A new process; returns once it takes calls."""
        spawned, self._takes_calls = now(), False
        while (process := await self._begin()) is None:
            spawned = now()
        follower = asyncio.create_task(self._follow(process))
        self._life.push_async_callback(_ended, follower)
        ports = await process.ready()
        if self._deaf is None:
            self._deaf = Deaf(self.name, float("-inf"), spawned, restart=True)
            self._history.deaf.append(self._deaf)
        self._deaf.back_from, self._deaf.back_by = spawned, now() + LOG_POLL_SECONDS
        self._deaf = None
        self.grpc_port, self.rest_port = ports["grpc_port"], ports["rest_port"]
        self.processes += 1
        self.running = process
        for link, face in self._links:
            link.lead_to(self.port(face))

    async def _begin(self) -> ServeProcess | None:
        """A process that has written its first line; None when it was right to refuse to start.

        That is while the files of TLS do not match, or the policy is none: it says so in a
        sentence, and exits.
        """
        self._life = contextlib.AsyncExitStack()
        environment = clean_environment(**self._faked(), **self.variables)
        process = await self._life.enter_async_context(
            started(*LOOPBACK, *self._flags(), command=self.command, env=environment)
        )
        spawned = now()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not process.lines and process.process.returncode is None:  # noqa: ASYNC110 - its log
                await asyncio.sleep(LOG_POLL_SECONDS)
        for target, flag in (("tls", "--tls-"), ("policy", "--policy-path")):
            refused = any(flag in line and line[0] != "{" for line in process.lines[:1])
            if refused and any(self._history.done_to(target, spawned, now())):
                await self._life.aclose()
                return None
        return process

    async def stop(self, number: signal.Signals) -> None:
        """Ends the process with SIGTERM or SIGKILL, and looks how it ended."""
        process, self.running = self.running, None
        assert process is not None
        self._deaf = Deaf(self.name, now(), float("inf"), restart=True)
        self._history.deaf.append(self._deaf)
        process.send(number)
        expected = 0 if number is signal.SIGTERM else -number
        sent = now()
        status = await process.ended()
        self._deaf.gone_by = now()
        took = now() - sent
        if status != expected:
            self._broken(f"{number.name} ended it with status {status}")
        if took > STOP_SECONDS + self._history.lag(sent, now()):
            self._broken(f"it took {took:.1f} s to end at {number.name}")
        await self._life.aclose()

    def suspend(self) -> None:
        """SIGSTOP."""
        assert self.running is not None
        self._deaf = Deaf(self.name, now() - LOG_POLL_SECONDS, now(), certain=False)
        self._history.deaf.append(self._deaf)
        self.running.send(signal.SIGSTOP)
        self._deaf.gone_by = now() + LOG_POLL_SECONDS

    def resume(self) -> None:
        """SIGCONT."""
        assert self.running is not None
        assert self._deaf is not None
        self._deaf.back_from = now()
        self.running.send(signal.SIGCONT)
        self._deaf.back_by = now() + LOG_POLL_SECONDS
        long_enough = self._history.terms.interval + CERTAIN_SECONDS
        self._deaf.certain = self._deaf.back_from - self._deaf.gone_by > long_enough
        self._deaf = None

    async def close(self) -> None:
        """Ends what runs, in order."""
        if self.running is not None:
            await self.stop(signal.SIGTERM)
        await self._life.aclose()

    # -- its wall clock ----------------------------------------------------------

    def step_clock(self, seconds: int) -> None:
        """How far its wall clock is off from now on; nothing where libfaketime is missing."""
        fresh = self._clock.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}")
        fresh.replace(self._clock)

    def _faked(self) -> dict[str, str]:
        if FAKETIME is None:
            return {}
        return {
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    # -- its log -----------------------------------------------------------------

    async def _follow(self, process: ServeProcess) -> None:
        read = 0
        while True:
            for line in process.lines[read:]:
                self.hear(line)
                self.log.append(line)
                read += 1
            if process.process.returncode is not None and self.running is process:
                self._broken(f"it ended by itself: {process.lines[-3:]}")
                return
            await asyncio.sleep(LOG_POLL_SECONDS)

    def hear(self, line: str) -> None:
        """One line of its log."""
        try:
            event = json.loads(line)
        except ValueError:
            self._broken(f"a line of its log is none: {line!r}")
            return
        name = event.get("event")
        if name not in KNOWN_EVENTS or event.get("level") in {"error", "critical"}:
            self._broken(f"its log has {line.strip()}")
        if name == Event.READY.value:
            self._takes_calls = True
        if name == Event.STALLED.value and self._takes_calls:
            self._stood_still(float(event["seconds"]))

    def _stood_still(self, seconds: float) -> None:
        """It says that it did not run; before it took calls that is part of its start.

        That may be a time in which we had suspended it: the end that it says counts then
        too, for it may have gone on standing still.
        """
        ended = now()
        began = ended - seconds - LOG_SECONDS - self._history.lag(ended - 1, ended)
        self._history.deaf.append(
            Deaf(self.name, began, ended, ended, ended, certain=False, told=True)
        )

    def _broken(self, sentence: str) -> None:
        self._history.broken.append(f"{self.name}: {sentence}")


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task})
