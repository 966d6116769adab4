"""The signals that stop a process: the first in order, the second at once.

They are caught by the process itself, so that they work for process 1 of a
container too, where the system's own reaction to them is none.
"""

import asyncio
import os
import signal
from types import FrameType

_STOPPING = (signal.SIGTERM, signal.SIGINT)
_AWAKE_SECONDS = 0.2


class StopSignals:
    """SIGTERM and SIGINT of this process."""

    def __init__(self) -> None:
        """Catches them from now on."""
        self._first: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._seen = asyncio.Event()
        for number in _STOPPING:
            signal.signal(number, self._on_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)  # see `entry`

    async def wait(self) -> None:
        """Returns once the first one has come, be it long ago."""
        self._loop = asyncio.get_running_loop()
        self._stay_awake()
        if self._first is None:
            await self._seen.wait()

    def _stay_awake(self) -> None:
        """A signal that comes just before the loop goes to sleep is seen when it wakes."""
        if self._loop is not None:
            self._loop.call_later(_AWAKE_SECONDS, self._stay_awake)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._first is not None:
            os._exit(128 + number)
        self._first = number
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._seen.set)
