"""Relays that are processes of their own: `global-discovery relay`, killed and begun anew.

Nobody writes down their calls. What is known of them is what they say of themselves
(`/health`): when a call was last answered, and until when the lease runs that it got. That
makes a pool certainly registered; whatever else a process called while it lived is
possible.
"""

import asyncio
import contextlib
import json
import signal
from collections.abc import Mapping
from typing import Any

import aiohttp

from chaos.history import Call, History, now
from chaos.links import Link
from chaos.slots import KNOWN_EVENTS
from global_discovery.client import TlsSettings
from support.openai_server import OpenAiServer
from support.relay_process import COMMAND
from support.serve_process import ServeProcess, clean_environment, started

LOOK_SECONDS = 0.2
SAID = "told by its relay"
"""Stands for a lease id, which no relay tells."""


class RelayLife:
    """One pool with one such relay, which lives from the beginning to the end."""

    def __init__(
        self,
        *,
        cluster: str,
        pool: str,
        ways: Mapping[str, tuple[str, Link]],
        tls: TlsSettings | None,
        model_server: OpenAiServer,
        history: History,
    ) -> None:
        self.pool = pool
        self._flags = [
            *(f"--cluster-id={cluster}", f"--pool=llm/{pool}", "--region=eu"),
            *("--model=model-0", "--capability=v0", f"--frontend=http://{pool}.example:8000"),
            *(f"--openai-url={model_server.url}", f"--relay-id={pool}-0", "--listen=127.0.0.1:0"),
            *(f"--server={address}" for address, _ in ways.values()),
            *(() if tls is None else _tls_flags(tls)),
        ]
        self._slots = {address: slot for slot, (address, _) in ways.items()}
        self._history = history
        self._process: ServeProcess | None = None
        self._began = 0.0
        self._life = contextlib.AsyncExitStack()
        self._looks: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """A process, looked at as long as it lives."""
        self._began = now()
        running = started(*self._flags, command=COMMAND, env=clean_environment())
        self._process = await self._life.enter_async_context(running)
        port = (await self._process.event("started"))["port"]
        self._looks = asyncio.create_task(self._look(port))

    async def stop(self, number: signal.Signals) -> None:
        """SIGKILL, or SIGTERM: then it keeps its lease, as its model server is well."""
        process, looks = self._process, self._looks
        assert process is not None
        assert looks is not None
        process.send(number)
        status = await process.ended()
        looks.cancel()
        await asyncio.gather(looks, return_exceptions=True)
        for slot in self._slots.values():
            call = Call(self.pool, f"{self.pool}-0", slot, 0, "", self._began, now(), "")
            self._history.calls.append(call)
        await self._life.aclose()
        self._read_log(process, status, 0 if number is signal.SIGTERM else -number)
        if not looks.cancelled():
            looks.result()

    def _read_log(self, process: ServeProcess, status: int, expected: int) -> None:
        for line in process.lines:
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("event") not in KNOWN_EVENTS or event.get("level") == "error":
                self._history.broken.append(f"the log of {self.pool}'s relay has {line.strip()}")
        if status != expected:
            self._history.broken.append(f"{self.pool}'s relay ended with status {status}")

    async def _look(self, port: int) -> None:
        last = float("-inf")
        timeout = aiohttp.ClientTimeout(10)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                asked = now()
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with session.get(f"http://127.0.0.1:{port}/health") as answer:
                        lease = (await answer.json())["lease"]
                    call = self.call_of(lease, asked, now())
                    if call is not None and call.ended - (now() - asked) > last:
                        last = call.ended
                        self._history.calls.append(call)
                await asyncio.sleep(LOOK_SECONDS)

    def call_of(self, lease: Mapping[str, Any], asked: float, answered: float) -> Call | None:
        """The call that got it the lease it tells of: sent and answered within these times."""
        left, ago = lease["expires_in_secs"], lease["last_success_secs_ago"]
        if not left or ago is None:
            return None
        sent = asked + left - lease["duration_secs"]
        slot = self._slots[lease["server"]]
        return Call(self.pool, f"{self.pool}-0", slot, 0, SAID, sent, answered - ago, SAID)


def _tls_flags(tls: TlsSettings) -> list[str]:
    given = {
        "--ca-path": tls.ca_path,
        "--client-cert-path": tls.cert_path,
        "--client-key-path": tls.key_path,
        "--token-path": tls.token_path,
    }
    return ["--tls", *(f"{flag}={path}" for flag, path in given.items() if path is not None)]
