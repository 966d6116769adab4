"""The client library's `Timer`, moved by hand."""

import asyncio


class MovedTimer:
    """Time stands still until `advance`; sleepers wake when it has passed them."""

    def __init__(self, now: float = 1000.0) -> None:
        self._now = now
        self._sleepers: dict[asyncio.Future[None], float] = {}
        self._came = asyncio.Event()

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers[sleeper] = self._now + seconds
        self._came.set()
        try:
            await sleeper
        finally:
            del self._sleepers[sleeper]

    @property
    def sleepers(self) -> int:
        return len(self._sleepers)

    def advance(self, seconds: float) -> None:
        self._now += seconds
        for sleeper, until in list(self._sleepers.items()):
            if until <= self._now and not sleeper.done():
                sleeper.set_result(None)

    async def slept_for(self, seconds: float) -> None:
        """Returns once somebody sleeps for so long from now."""
        async with asyncio.timeout(30):
            while True:
                ends = [until - self._now for until in self._sleepers.values()]
                if any(abs(end - seconds) < 1e-6 for end in ends):
                    return
                self._came.clear()
                await self._came.wait()
