"""One open watch: its lines, and the times that decide what it is worth.

Kubernetes sends a bookmark about once a minute, so a watch on which nothing
happens is not silent. `SILENCE_SECONDS` lies between that and the bound that is
promised for slices, 90 s.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp

from global_discovery.domain.timer import Timer
from global_discovery.kubernetes.failures import CallFailed, Failure
from global_discovery.kubernetes.lines import Lines, TooLong

SILENCE_SECONDS = 85.0
SETTLED_SECONDS = 1.0
WELL_SECONDS = 30.0
_LONGEST_NAP = 5.0
"""A machine that was suspended is noticed after this."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What an open watch calls, from the loop."""

    line: Callable[[bytes], None]
    """A line that is not blank; may raise CallFailed."""
    settled: Callable[[], None]
    """Once: it goes on from the version that it was asked for."""
    well: Callable[[], None]
    """Once: it has lasted 30 s after its first event or bookmark."""


class Watching:
    """Follows one watch to its end."""

    def __init__(
        self, timer: Timer, hooks: Hooks, *, silent_since: float, relist_at: float
    ) -> None:
        """Times of `timer`: the last sign of life before it, and when it ends for a list."""
        self._timer = timer
        self._hooks = hooks
        self._relist_at = relist_at
        self._began = timer.now()
        self._first: float | None = None
        self._alarm: asyncio.Task[None] | None = None
        self.heard = silent_since
        self.settled = False
        self.well = False

    async def follow(self, content: aiohttp.StreamReader) -> bool:
        """True when the server ended it properly, False when a list is due. Raises CallFailed."""
        lines = Lines()
        try:
            while (chunk := await self._chunk(content)) is not None:
                for line in lines.feed(chunk):
                    self._hooks.line(line)
                    self._heard()
        except TooLong as error:
            raise CallFailed(Failure.TOO_LONG, str(error)) from error
        finally:
            await self._stop_alarm()
        if self._timer.now() >= self._relist_at:
            return False
        if lines.unfinished:
            raise CallFailed(Failure.UNDECODABLE, "the watch ended within a line")
        return True

    async def _chunk(self, content: aiohttp.StreamReader) -> bytes | None:
        """None at the end, and when a list is due."""
        reading = asyncio.ensure_future(content.readany())
        try:
            while self._goes_on() and not reading.done():
                if self._alarm is None:
                    self._alarm = asyncio.ensure_future(self._timer.sleep(self._nap()))
                await asyncio.wait({reading, self._alarm}, return_when=asyncio.FIRST_COMPLETED)
                if self._alarm.done():
                    self._alarm = None
            return (reading.result() or None) if reading.done() else None
        finally:
            if not reading.done():
                reading.cancel()
                await asyncio.wait({reading})

    def _heard(self) -> None:
        self.heard = self._timer.now()
        if self._first is None:
            self._first = self.heard

    def _goes_on(self) -> bool:
        """Looks at the clock; raises CallFailed when it has been silent for too long."""
        now = self._timer.now()
        if not self.settled and (self._first is not None or now - self._began >= SETTLED_SECONDS):
            self.settled = True
            self._hooks.settled()
        if not self.well and self._first is not None and now - self._first >= WELL_SECONDS:
            self.well = True
            self._hooks.well()
        if now - self.heard >= SILENCE_SECONDS:
            raise CallFailed(Failure.SILENT, f"no event or bookmark for {SILENCE_SECONDS:g} s")
        return now < self._relist_at

    def _nap(self) -> float:
        now = self._timer.now()
        dues = [self.heard + SILENCE_SECONDS, self._relist_at, now + _LONGEST_NAP]
        if not self.settled:
            dues.append(self._began + SETTLED_SECONDS)
        if not self.well and self._first is not None:
            dues.append(self._first + WELL_SECONDS)
        return min(dues) - now

    async def _stop_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            await asyncio.wait({self._alarm})
