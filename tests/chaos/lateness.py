"""How late everything runs on a busy machine: this program, and each server by its own word.

A server sleeps ten times a second and adds up in `loop_lag_seconds` how much later it
woke: what that grew by between two looks is more than it was late at any moment between
them. What it was suspended by us is no lateness: the judge knows of it otherwise.
"""

import asyncio
import contextlib
import re
from bisect import insort

import aiohttp

from chaos.history import History, now
from chaos.slots import Slot
from chaos.trust import rest_trust
from global_discovery.client import TlsSettings

STEP_SECONDS = 0.05
LOOK_SECONDS = 0.5
_LAG = re.compile(r"^global_discovery_loop_lag_seconds_sum (\S+)$", re.MULTILINE)


async def measure_own(history: History) -> None:
    """Until it is cancelled."""
    while True:
        due = now() + STEP_SECONDS
        await asyncio.sleep(STEP_SECONDS)
        late = now() - due
        if late > STEP_SECONDS:
            history.lags.append((now(), late))


async def measure_server(slot: Slot, history: History, tls: TlsSettings | None) -> None:
    """Until it is cancelled."""
    scheme, trust = rest_trust(tls)
    before: tuple[int, float, float] | None = None
    while True:
        asked, process = now(), slot.processes
        url = f"{scheme}://127.0.0.1:{slot.rest_port}/metrics"
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(10)) as session,
                session.get(url, ssl=trust) as answer,
            ):
                found = _LAG.search(await answer.text())
            if found is not None:
                total = float(found[1])
                if before is not None and before[0] == process == slot.processes:
                    grew(history, slot.name, total - before[2], before[1], now())
                before = process, asked, total
        await asyncio.sleep(LOOK_SECONDS)


def grew(history: History, slot: str, lag: float, since: float, until: float) -> None:
    """By so much, between the beginning of one look and the end of the next."""
    late = lag - history.suspended(slot, since, until)
    if late > STEP_SECONDS:
        for at in (since, until):
            insort(history.server_lags.setdefault(slot, []), (at, late))
