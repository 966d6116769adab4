"""A store that fails when a test says so; a fake, because no real one fails on demand."""

import asyncio
from collections.abc import Sequence

from global_discovery.domain.errors import StoreUnwritable
from global_discovery.storage.store import StoredShare


class FailingStore:
    """Keeps what it is told while it works, and can be made to fail or to wait."""

    name = "failing"

    def __init__(self) -> None:
        self.failing = False
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

    async def open(self) -> None:
        await self._pass()
        if self.failing:
            raise OSError("the disk is gone")
        self.opened = True

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
