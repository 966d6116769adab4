"""Whether a set is known to follow the server, and when that stops.

A set is in sync from its first complete list on. It is out of sync

* at once, when its watch broke: the stream was cut, fell silent, carried an error
  or something that is no event, or the version to go on from is gone;
* after ten seconds without a watch, whatever the reason, when the watch ended as
  watches do, a list of everything was due, or the new one cannot be opened.

It is in sync again after a complete list, or once a watch goes on from where the
last one was: it has shown an event or a bookmark, or has stayed open for a second
(a version that is too old is refused at once, as an event of that watch).
"""

import asyncio
import contextlib
from collections.abc import Callable

from global_discovery.domain.timer import Timer

GRACE_SECONDS = 10.0


class SyncState:
    """Tells changes only. Close it."""

    def __init__(
        self, timer: Timer, in_sync: Callable[[], None], out_of_sync: Callable[[], None]
    ) -> None:
        """Out of sync to begin with, which is not told."""
        self._timer = timer
        self._in_sync = in_sync
        self._out_of_sync = out_of_sync
        self._alarm: asyncio.Task[None] | None = None
        self.synced = False

    def reached(self) -> None:
        """The set follows the server."""
        self._stop_alarm()
        if not self.synced:
            self.synced = True
            self._in_sync()

    def paused(self) -> None:
        """There is no watch at the moment. The time counts from the first of several calls."""
        if self.synced and self._alarm is None:
            until = self._timer.now() + GRACE_SECONDS
            self._alarm = asyncio.create_task(self._wait(until))

    def broken(self) -> None:
        """The set may be old."""
        self._stop_alarm()
        if self.synced:
            self.synced = False
            self._out_of_sync()

    async def close(self) -> None:
        """Stops waiting."""
        alarm = self._alarm
        self._stop_alarm()
        if alarm is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await alarm

    def _stop_alarm(self) -> None:
        alarm, self._alarm = self._alarm, None
        if alarm is not None and alarm is not asyncio.current_task():
            alarm.cancel()

    async def _wait(self, until: float) -> None:
        await self._timer.sleep(until - self._timer.now())
        self.broken()
