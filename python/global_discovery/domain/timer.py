"""Time as an argument: a clock to read and a way to wait.

Where a rule about time is about waiting too, it takes a `Timer`, so that it is
tested by moving a clock.
"""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from global_discovery.domain.clock import SystemClock

T = TypeVar("T")


class Timer(Protocol):
    """Seconds of a clock that never steps, and waiting on it."""

    def now(self) -> float:
        """Only differences mean anything."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Returns after `seconds`; at once when they are not positive."""
        ...


class SystemTimer:
    """The monotonic clock of this machine and the running event loop."""

    def now(self) -> float:
        """CLOCK_MONOTONIC."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """asyncio.sleep."""
        await asyncio.sleep(seconds)


class SuspendAwareTimer(SystemTimer):
    """Its clock runs on while the machine is suspended; sleeping does not."""

    def now(self) -> float:
        """CLOCK_BOOTTIME."""
        return SystemClock().boottime()


async def within(timer: Timer, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`; raises TimeoutError, with `work` cancelled, after `seconds`."""
    task = asyncio.ensure_future(work)
    alarm = asyncio.ensure_future(timer.sleep(seconds))
    try:
        await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise TimeoutError
        return task.result()
    finally:
        task.cancel()
        alarm.cancel()
        await asyncio.wait({task, alarm})
