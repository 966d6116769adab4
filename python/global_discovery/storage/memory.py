"""The store that keeps nothing: a restart forgets every registration.

Nothing is missing here. The running leases are in memory anyway, and this store
promises no more than that.
"""

import asyncio
from collections.abc import Callable, Sequence

from global_discovery.domain.pool import PoolKey
from global_discovery.storage.store import MovedLease, Reading, StoredShare, StoreState


class MemoryStore:
    """`--registration-storage memory`: for one instance, and for trying out."""

    name = "memory"
    shared = False

    def state(self) -> StoreState:
        """Always well."""
        return StoreState()

    def read_soon(self) -> None:
        """Nobody else writes it."""

    def on_reading(self, take: Callable[[Reading], None], changed: Callable[[], None]) -> None:
        """Neither is ever called."""

    async def open(self) -> Reading:
        """Nothing to read."""
        return Reading()

    async def run(self) -> None:
        """Nothing to do."""
        await asyncio.Event().wait()

    async def consult(self, key: PoolKey, lease_ids: Sequence[str]) -> Reading:
        """Knows nothing."""
        del key, lease_ids
        return Reading()

    async def put(self, share: StoredShare) -> None:
        """Always succeeds."""

    async def renew(self, lease_ids: Sequence[str]) -> Sequence[str]:
        """Always succeeds."""
        del lease_ids
        return ()

    def leases_judged(self, now: float, moved: Sequence[MovedLease]) -> None:
        """Keeps none of it."""

    async def withdraw(self, lease_ids: Sequence[str], *, remember: float) -> None:
        """Always succeeds."""

    async def close(self) -> None:
        """Nothing to let go of."""
