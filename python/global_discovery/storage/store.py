"""The interface of a registration store.

The leases themselves run in `sources.registrations`, in memory, whatever the
store. A store makes them outlive the process or reach other instances. A
registration counts in this instance's view as soon as it was heard; what the
store adds is told to the caller as success or as UNAVAILABLE. A withdrawal is
stored before it counts.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from global_discovery.domain.pool import Content, PoolKey


class StoredShare(NamedTuple):
    """What a store keeps of one share."""

    key: PoolKey
    identity: tuple[str, str]
    lease_id: str
    granted: float
    """The lease in seconds."""
    number: int
    """Which change of the pool's content this one is."""
    content: Content
    relays: tuple[str, ...]


class RegistrationStore(Protocol):
    """Keeps shares and withdrawn leases. Every method may be slow; none may block the loop."""

    name: str
    """The value of --registration-storage."""

    async def open(self) -> None:
        """Reads what is there. Raises OSError with a sentence for the operator."""
        ...

    async def put(self, share: StoredShare) -> None:
        """Keeps a new share, a new incarnation or a changed content. Raises StoreUnwritable."""
        ...

    async def renew(self, lease_ids: Sequence[str]) -> Sequence[str]:
        """Keeps that these leases were renewed now; gives those that it could not keep."""
        ...

    async def withdraw(self, lease_ids: Sequence[str], *, remember: float) -> None:
        """Keeps that these leases were withdrawn, for `remember` seconds.

        Raises StoreUnwritable, and has then kept none of it.
        """
        ...

    async def close(self) -> None:
        """Lets go of everything. Never raises."""
        ...
