"""Deadlines of callers, fair also when it was this process that stood still.

A loop that was stopped, suspended or blocked runs its overdue timers before it
reads what came in meanwhile. Each deadline here lets that be read first, and
refuses only a caller of whom nothing came.
"""

import asyncio
from collections.abc import Callable

TURNS = 2
"""Of the loop, in which everything that has come in is read."""


async def let_in() -> None:
    """Returns once what had come in is read."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


class Deadline:
    """Calls `act` after so many seconds, and after what had come in by then is read."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seconds: float, act: Callable[[], None]
    ) -> None:
        """Runs from now on."""
        self._loop = loop
        self._act = act
        self._handle: asyncio.Handle = loop.call_later(seconds, self._due, TURNS)

    def cancel(self) -> None:
        """No effect once `act` was called."""
        self._handle.cancel()

    def _due(self, turns: int) -> None:
        if turns:
            self._handle = self._loop.call_soon(self._due, turns - 1)
        else:
            self._act()
