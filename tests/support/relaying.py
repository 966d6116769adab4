"""A relay in the test's own loop, on a clock that the test moves."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from global_discovery.domain.pool import Location, PoolKey
from global_discovery.relay.relay import Relay
from global_discovery.relay.settings import RelaySettings
from support.openai_server import OpenAiServer
from support.timer import MovedTimer

PATIENCE_SECONDS = 30


def relay_settings(model_server: OpenAiServer, *servers: str, **fields: Any) -> RelaySettings:
    """For the pool c1/ns/qwen in region eu, which is that model server."""
    told: dict[str, Any] = {
        "pool": PoolKey("c1", "ns", "qwen"),
        "location": Location("eu"),
        "servers": servers,
        "relay_id": "relay-1",
        "openai_url": model_server.url,
        "health_url": f"{model_server.url}/health",
        "frontends": (model_server.url,),
        "listen_host": "127.0.0.1",
    }
    return RelaySettings(**(told | fields))


class Relaying:
    """A relay that runs."""

    def __init__(self, settings: RelaySettings) -> None:
        self.timer = MovedTimer()
        self.relay = Relay(settings, timer=self.timer)
        self._stop = asyncio.Event()
        self.running = asyncio.create_task(self.relay.run(self._stopped))

    async def _stopped(self) -> None:
        await self._stop.wait()

    async def until(self, holds: Callable[[], object]) -> None:
        """Lets the loop run, and no time pass, until something holds."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds():
                assert not self.running.done(), self.running
                await asyncio.sleep(0.001)

    async def polled(self) -> None:
        """Lets the next poll come and end."""
        counters = self.relay.counters
        before = counters.good_polls + counters.failed_polls
        self.timer.advance(1)
        await self.until(lambda: counters.good_polls + counters.failed_polls > before)

    def ask_to_stop(self) -> None:
        self._stop.set()

    async def stopped(self) -> None:
        """Stops it, and waits for that."""
        self.ask_to_stop()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.running


@contextlib.asynccontextmanager
async def relaying(settings: RelaySettings) -> AsyncIterator[Relaying]:
    """Runs a relay, and cancels it at the end if it still runs."""
    found = Relaying(settings)
    try:
        yield found
    finally:
        found.running.cancel()
        await asyncio.wait({found.running})
