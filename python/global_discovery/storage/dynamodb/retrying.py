"""Repeats calls that may succeed later, with backoff and jitter, until a moment that is given."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from global_discovery.domain.clock import Clock
from global_discovery.storage.dynamodb.api import DynamoDB, Throttled, Unreachable

FIRST_DELAY_SECONDS = 0.05
LONGEST_DELAY_SECONDS = 1.0

Sleep = Callable[[float], Awaitable[None]]


class Retrying:
    """Calls of one DynamoDB. The clock is only looked at between attempts."""

    def __init__(self, api: DynamoDB, clock: Clock, sleep: Sleep = asyncio.sleep) -> None:
        """`sleep` waits for seconds."""
        self._api = api
        self._clock = clock
        self._sleep = sleep
        self._random = random.Random()  # noqa: S311 - spreads retries, hides nothing

    async def call(
        self, operation: str, request: Mapping[str, Any], *, until: float
    ) -> dict[str, Any]:
        """Does it, once more and once more until that monotonic moment. Raises CallFailed.

        One attempt may still be under way at that moment; it has a bound of its own.
        """
        delay = FIRST_DELAY_SECONDS
        while True:
            try:
                return await self._api.call(operation, request)
            except (Throttled, Unreachable):
                pause = delay * self._random.uniform(0.5, 1.0)
                if self._clock.monotonic() + pause >= until:
                    raise
            await self._sleep(pause)
            delay = min(2 * delay, LONGEST_DELAY_SECONDS)

    async def pause(self, *, until: float) -> None:
        """Waits a little before asking for the rest of what was half done. Raises Throttled."""
        if self._clock.monotonic() + LONGEST_DELAY_SECONDS >= until:
            raise Throttled("UnprocessedKeys", "only part of it was done")
        await self._sleep(FIRST_DELAY_SECONDS * self._random.uniform(1.0, 2.0))
