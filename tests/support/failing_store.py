"""A store that fails when a test says so; a fake, because no real one fails on demand."""

import asyncio
from collections.abc import Callable, Sequence

from global_discovery.domain.errors import StoreUnwritable
from global_discovery.domain.pool import PoolKey
from global_discovery.storage.store import MovedLease, Reading, StoredShare, StoreState


class FailingStore:
    """Keeps what it is told while it works, and can be made to fail or to wait."""

    name = "failing"
    shared = False

    def __init__(self) -> None:
        self.failing = False
        self.found = Reading()
        """What `open` finds, and `consult`."""
        self.consulted: list[tuple[PoolKey, tuple[str, ...]]] = []
        self.state_now = StoreState()
        self.moved: list[MovedLease] = []
        self.take: Callable[[Reading], None] = lambda _reading: None
        self.changed: Callable[[], None] = lambda: None
        self.shares: dict[str, StoredShare] = {}
        self.renewals: list[str] = []
        self.withdrawn: dict[str, float] = {}
        self.opened = False
        self.gate = asyncio.Event()
        """Cleared by a test that wants `open` and `withdraw` to take their time."""
        self.gate.set()
        self.waiting = asyncio.Event()

    async def _pass(self) -> None:
        self.waiting.set()
        await self.gate.wait()

    def state(self) -> StoreState:
        return self.state_now

    def read_soon(self) -> None:
        """Nobody else writes it."""

    def on_reading(self, take: Callable[[Reading], None], changed: Callable[[], None]) -> None:
        self.take, self.changed = take, changed

    async def open(self) -> Reading:
        await self._pass()
        if self.failing:
            raise OSError("the disk is gone")
        self.opened = True
        return self.found

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def consult(self, key: PoolKey, lease_ids: Sequence[str]) -> Reading:
        self.consulted.append((key, tuple(lease_ids)))
        if self.failing:
            raise StoreUnwritable
        return self.found

    def leases_judged(self, now: float, moved: Sequence[MovedLease]) -> None:
        del now
        self.moved += moved

    async def put(self, share: StoredShare) -> None:
        if self.failing:
            raise StoreUnwritable
        self.shares[share.lease_id] = share

    async def renew(self, lease_ids: Sequence[str]) -> Sequence[str]:
        if self.failing:
            return lease_ids
        self.renewals += lease_ids
        return ()

    async def withdraw(self, lease_ids: Sequence[str], *, remember: float) -> None:
        await self._pass()
        if self.failing:
            raise StoreUnwritable
        self.withdrawn.update(dict.fromkeys(lease_ids, remember))

    async def close(self) -> None:
        self.opened = False
