"""A heartbeat that runs in the test's own loop, and whose states can be waited for."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from global_discovery.client import HeartbeatState, PoolHeartbeat
from global_discovery.domain.timer import Timer

PATIENCE = 30


class Watched(PoolHeartbeat):
    """Tells each state to whoever waits for it."""

    def __init__(self, *servers: str, relay_id: str = "", timer: Timer | None = None) -> None:
        super().__init__(servers, relay_id=relay_id, timer=timer, on_state=self._seen)
        self._came = asyncio.Event()

    def _seen(self, _state: HeartbeatState) -> None:
        self._came.set()

    async def until(self, wanted: Callable[[HeartbeatState], bool]) -> HeartbeatState:
        """The next state from now on that is as wanted, or the present one."""
        async with asyncio.timeout(PATIENCE):
            while not wanted(self.state):
                self._came.clear()
                await self._came.wait()
        return self.state


@contextlib.asynccontextmanager
async def beating(heartbeat: Watched) -> AsyncIterator[Watched]:
    """Runs it, and stops it without a withdrawal at the end."""
    running = asyncio.create_task(heartbeat.run())
    try:
        yield heartbeat
    finally:
        async with asyncio.timeout(PATIENCE):
            await heartbeat.stop(withdraw=False)
            await running


def leased(state: HeartbeatState) -> bool:
    return state.lease is not None and not state.failing


def failing(state: HeartbeatState) -> bool:
    return state.failing
