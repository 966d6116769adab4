"""Kills a process in the middle of its writes, again and again, and looks what it kept."""

import asyncio
import contextlib
import itertools
import random
import signal
from pathlib import Path

import aiohttp

from support.sqlite_process import LONG_LEASE, Caller, serving

CALLERS = 8
WITHDRAWN = 0.2
"""The share of the pools that are withdrawn again."""


class Answered:
    """What was answered with success, and what was asked and not answered."""

    def __init__(self) -> None:
        self.leases: dict[str, str] = {}
        self.withdrawn: dict[str, str] = {}
        self.unanswered: set[str] = set()

    async def register(self, caller: Caller, name: str) -> None:
        self.unanswered.add(name)
        status, body = await caller.register(name)
        assert status == 200
        self.leases[name] = body["lease_id"]
        self.unanswered.discard(name)

    async def withdraw(self, caller: Caller, name: str) -> None:
        self.unanswered.add(name)
        lease_id = self.leases.pop(name)
        assert await caller.withdraw(name, lease_id) == 204
        self.withdrawn[name] = lease_id
        self.unanswered.discard(name)


async def kill_loop(path: Path, *, kills: int, calls_between: int, seed: int) -> None:
    """After each kill, everything that was answered is there, and nothing else but the unsure."""
    answered, chance = Answered(), random.Random(seed)
    names = (f"pool-{number:06}" for number in itertools.count())

    async def call(caller: Caller, enough: asyncio.Event) -> None:
        """Registers and withdraws until the server is gone."""
        with contextlib.suppress(aiohttp.ClientError):
            for number in itertools.count():
                if number == calls_between // CALLERS:
                    enough.set()
                mine = next(names)
                await answered.register(caller, mine)
                if chance.random() < WITHDRAWN:
                    await answered.withdraw(caller, mine)

    for _ in range(kills):
        async with serving(path, *LONG_LEASE) as (server, caller):
            await look(caller, answered)
            enough = asyncio.Event()
            callers = [asyncio.create_task(call(caller, enough)) for _ in range(CALLERS)]
            await enough.wait()
            server.send(signal.SIGKILL)
            await asyncio.gather(*callers)
            assert await server.ended() == -signal.SIGKILL
    async with serving(path, *LONG_LEASE) as (_server, caller):
        await look(caller, answered)


async def look(caller: Caller, answered: Answered) -> None:
    listed = await caller.listed()
    missing = set(answered.leases) - listed
    assert not missing, f"answered and lost: {sorted(missing)[:5]} and {len(missing)} in all"
    assert listed - set(answered.leases) <= answered.unanswered
    for name, lease_id in itertools.islice(answered.leases.items(), 20):
        assert (await caller.register(name, lease_id))[1]["lease_id"] == lease_id
    for name, lease_id in itertools.islice(answered.withdrawn.items(), 20):
        assert (await caller.register(name, lease_id))[0] == 409
