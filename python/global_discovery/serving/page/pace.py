"""How much of the loop's time the pages may take, whoever asks for how many.

One page is made at a time. After one that took the loop for a moment nothing is
made for four times as long, so that heartbeats always have four fifths of the
loop. Those who wait are bounded too, in all and of each caller, and callers take
turns: nobody waits for more than one page of each other one.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from global_discovery.serving.rest.problem import Problem

REST = 4.0
LONGEST_REST = 1.0
MAX_WAITING, MAX_WAITING_OF_ONE = 64, 32


class Pace:
    """Of one instance's pages."""

    def __init__(self) -> None:
        """Free at once."""
        self._free_at = 0.0
        self._taken = False
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """By caller; whose turn is next comes first."""

    @asynccontextmanager
    async def turn(self, account: str) -> AsyncIterator[None]:
        """The only one in which something is made, for a caller.

        Raises Problem (503, or 429 for its own) when too many wait. What other tasks take
        of the thread's time meanwhile counts too: the busier the loop, the fewer pages.
        """
        await self._take(account)
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(max(0.0, self._free_at - loop.time()))
            began = time.thread_time()
            yield
            took = time.thread_time() - began
            self._free_at = loop.time() + min(took * REST, LONGEST_REST)
        finally:
            self._give_on()

    async def _take(self, account: str) -> None:
        if not self._taken:
            self._taken = True
            return
        mine = len(self._waiting.get(account, ()))
        of_one = mine >= MAX_WAITING_OF_ONE
        if of_one or sum(map(len, self._waiting.values())) >= MAX_WAITING:
            detail = "too many pages are asked for at once"
            # Whose own calls they are is charged for the next one: 503 is free.
            status = 429 if of_one else 503
            raise Problem(status, "PAGES_BUSY", detail, header_fields={"Retry-After": "1"})
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(account, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_on()
            raise

    def _give_on(self) -> None:
        """To the next caller; its further calls come behind those of the others."""
        while self._waiting:
            account, waiting = self._waiting.popitem(last=False)
            turn = waiting.popleft()
            if waiting:
                self._waiting[account] = waiting
            if not turn.done():
                turn.set_result(None)
                return
        self._taken = False
