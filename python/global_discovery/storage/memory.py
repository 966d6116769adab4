"""The store that keeps nothing: a restart forgets every registration.

Nothing is missing here. The running leases are in memory anyway, and this store
promises no more than that.
"""

from collections.abc import Sequence

from global_discovery.storage.store import StoredShare


class MemoryStore:
    """`--registration-storage memory`: for one instance, and for trying out."""

    name = "memory"

    async def open(self) -> None:
        """Nothing to read."""

    async def put(self, share: StoredShare) -> None:
        """Always succeeds."""

    async def renew(self, lease_ids: Sequence[str]) -> Sequence[str]:
        """Always succeeds."""
        del lease_ids
        return ()

    async def withdraw(self, lease_ids: Sequence[str], *, remember: float) -> None:
        """Always succeeds."""

    async def close(self) -> None:
        """Nothing to let go of."""
