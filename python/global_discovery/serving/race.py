"""Several things at once, of which the first to end decides."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def race(*contenders: Coroutine[Any, Any, None]) -> None:
    """Runs all until the first has ended; ends the others, and waits until they have.

    Raises what the first one raised. Of several that end in the same moment, one
    that raised counts.
    """
    tasks = [asyncio.create_task(contender) for contender in contenders]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
