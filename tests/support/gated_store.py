"""A store whose writes wait until a test lets them through."""

import asyncio

from global_discovery.storage.memory import MemoryStore
from global_discovery.storage.store import StoredShare


class GatedStore(MemoryStore):
    """`reached` says that a write waits; `open_gate` lets all of them through."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open_gate = asyncio.Event()

    async def put(self, share: StoredShare) -> None:
        del share
        self.reached.set()
        await self.open_gate.wait()
