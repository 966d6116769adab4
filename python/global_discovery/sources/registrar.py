"""Takes the calls about registrations: the shares in memory, then the store.

The order is the contract: what was heard counts at once, and the caller is told
UNAVAILABLE when it could not be stored; a withdrawal is stored first, and one
that could not be stored changes nothing.
"""

from collections.abc import Callable, Sequence

from global_discovery.domain.errors import (
    ShareNotFound,
    ShuttingDown,
    StoreUnwritable,
    Unavailable,
)
from global_discovery.domain.events import Event, Report
from global_discovery.domain.lease import Heartbeat, Lease, Renewals, Withdrawal
from global_discovery.sources.registrations import Effect, Registrations
from global_discovery.sources.shares import Share
from global_discovery.storage.store import RegistrationStore, StoredShare

STORE_RETRY_SECONDS = 1.0


class Registrar:
    """Takes no call before `open` has returned, and none after `shut`."""

    def __init__(
        self, registrations: Registrations, store: RegistrationStore, report: Report
    ) -> None:
        """Opens the store; closing it is for its owner, after `shut`."""
        self._registrations = registrations
        self._store = store
        self._report = report
        self._refusal: Callable[[], Unavailable] | None = Unavailable

    @property
    def taking_calls(self) -> bool:
        """Whether registrations can be taken."""
        return self._refusal is None

    async def open(self) -> None:
        """Reads the store once; calls are taken from then on, unless it was shut meanwhile."""
        await self._store.open()
        if self._refusal is not ShuttingDown:
            self._registrations.ready()
            self._refusal = None

    def shut(self) -> None:
        """Takes no more calls."""
        self._refusal = ShuttingDown

    async def register(self, heartbeat: Heartbeat) -> Lease:
        """RegisterPool. Raises LeaseWithdrawn, TooManyShares, Unavailable and its kinds."""
        if self._refusal:
            raise self._refusal()
        share, effect = self._registrations.register(heartbeat)
        lease = Lease(share.lease_id, self._registrations.terms)
        if effect is Effect.CHANGED:
            await self._store.put(_stored(share))
        elif effect is Effect.RENEWED and await self._store.renew((share.lease_id,)):
            raise StoreUnwritable(retry_after=STORE_RETRY_SECONDS)
        return lease

    async def renew(self, lease_ids: Sequence[str]) -> Renewals:
        """RenewPools. Raises Unavailable."""
        if self._refusal:
            raise self._refusal()
        renewed, unknown = self._registrations.renew(lease_ids)
        not_stored = await self._store.renew([share.lease_id for share in renewed])
        return Renewals(unknown, list(not_stored), STORE_RETRY_SECONDS if not_stored else 0.0)

    async def withdraw(self, withdrawal: Withdrawal) -> int:
        """DeregisterPool; how many shares ended.

        Raises ShareNotFound, Unavailable and its kinds.
        """
        if self._refusal:
            raise self._refusal()
        shares = self._registrations.find(withdrawal)
        if not shares:
            raise ShareNotFound
        lease_ids = [share.lease_id for share in shares]
        memory = self._registrations.terms.withdrawn_memory
        await self._store.withdraw(lease_ids, remember=memory)
        ended = self._registrations.withdraw(lease_ids, caller=withdrawal.caller)
        if not ended:  # they lapsed, or began anew, while the store was written
            raise ShareNotFound
        if withdrawal.all_shares:
            self._report(
                Event.ALL_SHARES_WITHDRAWN,
                pool=str(withdrawal.key),
                caller=withdrawal.caller,
                shares=ended,
            )
        return ended


def _stored(share: Share) -> StoredShare:
    return StoredShare(
        key=share.key,
        identity=share.identity,
        lease_id=share.lease_id,
        granted=share.granted,
        number=share.number,
        content=share.content,
        relays=share.relays,
    )
