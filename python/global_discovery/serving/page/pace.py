"""How much of the loop's time the pages may take, whoever asks for how many.

One page is made at a time. After one that took the loop for a moment nothing is
made for four times as long, so that heartbeats always have four fifths of the
loop. Those who wait are bounded too.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from global_discovery.serving.rest.problem import Problem

REST = 4.0
LONGEST_REST = 1.0
MAX_WAITING = 64


class Pace:
    """Of one instance's pages."""

    def __init__(self) -> None:
        """Free at once."""
        self._lock = asyncio.Lock()
        self._free_at = 0.0
        self._waiting = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """The only one in which something is made. Raises Problem (503) when too many wait.

        What other tasks take of the thread's time meanwhile counts too: the busier
        the loop, the fewer pages.
        """
        if self._waiting >= MAX_WAITING:
            detail = "too many pages are asked for at once"
            raise Problem(503, "PAGES_BUSY", detail, header_fields={"Retry-After": "1"})
        self._waiting += 1
        try:
            await self._lock.acquire()
        finally:
            self._waiting -= 1
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(max(0.0, self._free_at - loop.time()))
            began = time.thread_time()
            yield
            took = time.thread_time() - began
            self._free_at = loop.time() + min(took * REST, LONGEST_REST)
        finally:
            self._lock.release()
