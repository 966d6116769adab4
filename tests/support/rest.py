"""A real REST face on a port of this machine, and two ways to call it.

`call` is an ordinary HTTP client; `send` puts bytes on a socket as they are, for
what no client would send.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from prometheus_client import CollectorRegistry
from yarl import URL

from global_discovery.domain.access import ALL_RIGHTS, Rights
from global_discovery.domain.pool import Router
from global_discovery.serving.access.guard import Guard
from global_discovery.serving.caller import Callers, Network
from global_discovery.serving.core import Core, CoreSettings
from global_discovery.serving.metrics import CallMetrics, CoreCollector, LoopLag
from global_discovery.serving.readiness import Readiness
from global_discovery.serving.rest.connection import Connection, Limits
from global_discovery.serving.rest.server import RestFace
from global_discovery.storage.memory import MemoryStore
from global_discovery.storage.store import RegistrationStore
from support.clock import FakeClock

PATIENCE_SECONDS = 20.0


@dataclass(frozen=True)
class Reply:
    """One answer; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def fields(self) -> list[str]:
        """Where a problem document says that something is wrong."""
        return [error["field"] for error in self.json["errors"]]


def parse_replies(data: bytes, *, to_head: bool = False) -> list[Reply]:
    """All answers that stand one after the other; those to HEAD have no body."""
    replies = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        status_line, *lines = head.decode().split("\r\n")
        assert status_line.startswith(("HTTP/1.1 ", "HTTP/1.0 "))
        pairs = (line.split(": ", 1) for line in lines)
        headers = {name.lower(): value for name, value in pairs}
        length = 0 if to_head else int(headers.get("content-length", "0"))
        replies.append(Reply(int(status_line.split()[1]), headers, data[:length]))
        data = data[length:]
    return replies


@dataclass
class RestUnderTest:
    """The face, what it is made of, and a client."""

    core: Core
    face: RestFace
    clock: FakeClock
    readiness: Readiness
    registry: CollectorRegistry
    session: aiohttp.ClientSession = field(repr=False)

    async def call(self, method: str, path: str, **kwargs: Any) -> Reply:
        """One call with an ordinary client. The path is sent as it stands."""
        url = URL(f"http://127.0.0.1:{self.face.port}{path}", encoded=True)
        async with self.session.request(method, url, **kwargs) as response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Reply(response.status, headers, await response.read())

    async def post(self, body: bytes | str | dict[str, Any], **headers: str) -> Reply:
        """`POST /pools` with JSON; header names with `_` for `-`."""
        data = json.dumps(body) if isinstance(body, dict) else body
        fields = {"content-type": "application/json"}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.call("POST", "/pools", data=data, headers=fields)

    async def listed(self, path: str = "/pools") -> list[Any]:
        """The pools of `GET /pools`."""
        return list((await self.call("GET", path)).json["pools"])

    async def send(self, data: bytes, *, port: int | None = None) -> list[Reply]:
        """Sends bytes on a connection of their own and reads until the server ends it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port or self.face.port)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                writer.write(data)
                return parse_replies(await reader.read(), to_head=data.startswith(b"HEAD"))
        finally:
            writer.close()

    def pass_time(self, seconds: float) -> None:
        """Moves the clock, with the ticks that a running service has in that time."""
        while seconds > 0:
            self.clock.advance(min(seconds, 0.5))
            self.core.tick()
            seconds -= 0.5

    def end_of_starting(self) -> None:
        """Lets the start lease pass: the list becomes complete."""
        self.pass_time(2.0 * self.core.settings.terms.lease_duration)

    @property
    def connections(self) -> list[Connection]:
        """What is open on the main port."""
        server = self.face._main._connections
        return [] if server is None else list(server._all)

    async def until(self, holds: Callable[[], object]) -> None:
        """Lets the loop run until something holds."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds():  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def a_rest_face(
    *,
    routers: Sequence[Router] = (),
    trusted: Sequence[Network] = (),
    store: RegistrationStore | None = None,
    limits: Limits | None = None,
    listen: str = "127.0.0.1:0",
    health_listen: str | None = None,
    opened: bool = True,
    anonymous: Rights = ALL_RIGHTS,
) -> AsyncIterator[RestUnderTest]:
    """Started; takes calls unless `opened` is false."""
    clock = FakeClock()
    core = Core(CoreSettings(routers=routers), store or MemoryStore(), clock=clock)
    registry = CollectorRegistry()
    registry.register(CoreCollector(core, LoopLag()))
    readiness = Readiness(core)
    guard = Guard(Callers(trusted), anonymous=anonymous)
    face = RestFace(
        core,
        guard,
        CallMetrics(registry),
        registry,
        readiness,
        listen=listen,
        health_listen=health_listen,
        limits=limits,
    )
    await face.start()
    if opened:
        await core.registrar.open()
    async with aiohttp.ClientSession(
        auto_decompress=False, skip_auto_headers=["Accept-Encoding", "Content-Type"]
    ) as session:
        try:
            yield RestUnderTest(core, face, clock, readiness, registry, session)
        finally:
            await face.stop(1.0)


def a_body(number: int = 0, **fields: Any) -> dict[str, Any]:
    """The smallest legal registration, and what is changed in it."""
    return {
        "cluster_id": "c1",
        "namespace": "ns",
        "dgd_name": f"pool-{number:05}",
        "model": "m",
        "location": {"region": "r1"},
    } | fields
