"""Takes the calls about registrations: the shares in memory, then the store.

The order is the contract: what was heard counts at once, and the caller is told
UNAVAILABLE when it could not be stored; a withdrawal is stored first, and one
that could not be stored changes nothing.

A shared store is asked before a call about a share that this instance may not
have seen yet: one that names an unknown id, and every withdrawal. While it
cannot be asked, such a call is UNAVAILABLE and changes nothing: the id may have
been withdrawn at another instance a moment ago.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from global_discovery.domain.access import EVERY_KEY, Scope
from global_discovery.domain.errors import (
    ShareNotFound,
    ShuttingDown,
    StoreUnwritable,
    Unavailable,
)
from global_discovery.domain.events import Event, Report
from global_discovery.domain.lease import Heartbeat, Lease, Renewals, Withdrawal
from global_discovery.domain.limits import LimitReached
from global_discovery.sources.registered.outcomes import Effect
from global_discovery.sources.registered.registrations import Registrations
from global_discovery.sources.registered.shares import Share
from global_discovery.storage.store import RegistrationStore

T = TypeVar("T")

STORE_RETRY_SECONDS = 1.0
SHARES_A_TURN = 500
"""How many shares of the first reading are taken before the loop runs on: some milliseconds."""


class Registrar:
    """Takes no call before `open` has returned, and none after `shut`."""

    def __init__(
        self, registrations: Registrations, store: RegistrationStore, report: Report
    ) -> None:
        """Opens the store; running and closing it is for its owner, closing after `shut`."""
        self._registrations = registrations
        self._store = store
        self._report = report
        self._refusal: Callable[[], Unavailable] | None = Unavailable
        self._was_read = False
        self._withdrawing: set[asyncio.Task[Any]] = set()

    @property
    def taking_calls(self) -> bool:
        """Whether registrations can be taken."""
        return self._refusal is None

    async def open(self) -> None:
        """Reads the store once; calls are taken from then on, unless it was shut meanwhile."""
        registrations = self._registrations
        self._store.on_reading(registrations.take, registrations.store_changed)
        reading = await self._store.open()
        since = registrations.begin_restoring(reading)
        for first in range(0, len(reading.shares), SHARES_A_TURN):
            registrations.restore(reading.shares[first : first + SHARES_A_TURN], since)
            await asyncio.sleep(0)
        self._was_read = True
        if reading.shares or reading.withdrawn:
            self._report(
                Event.STORE_READ,
                shares=registrations.shares,
                pools=len(registrations),
                withdrawn=len(reading.withdrawn),
            )
        if self._refusal is not ShuttingDown:
            registrations.ready()
            self._refusal = None

    def shut(self) -> None:
        """Takes no more calls."""
        self._refusal = ShuttingDown

    def tick(self) -> bool:
        """See Registrations.tick; the store is told what it must know of it.

        Once shut nothing lapses: nobody could be heard, and the store has it for the next.
        """
        if self._refusal is ShuttingDown:
            return False
        more = self._registrations.tick()
        if self._registrations.waits_for_a_reading:
            self._store.read_soon()
        if self._was_read:
            self._store.leases_judged(*self._registrations.take_judged())
        return more

    async def register(self, heartbeat: Heartbeat) -> Lease:
        """RegisterPool.

        Raises LeaseWithdrawn, TooManyShares, LimitReached, Unavailable and its kinds.
        """
        self._refuse()
        lease_id = heartbeat.lease_id
        if self._store.shared and lease_id and not self._registrations.knows(lease_id):
            await self._consult(heartbeat)
        try:
            share, effect = self._registrations.register(heartbeat)
        except LimitReached:
            if not self._store.shared:
                raise
            # Another instance may have taken it a moment ago: then it is not a new one.
            await self._consult(heartbeat)
            share, effect = self._registrations.register(heartbeat)
        since_last = 0.0 if effect is Effect.NONE else share.since_last
        lease = Lease(share.lease_id, self._registrations.terms, since_last)
        if effect is Effect.CHANGED:
            await self._store.put(self._registrations.stored(share))
        elif effect is Effect.RENEWED and await self._store.renew((share.lease_id,)):
            raise StoreUnwritable(retry_after=STORE_RETRY_SECONDS)
        return lease

    async def _consult(self, heartbeat: Heartbeat) -> None:
        """Takes what the store has of the call's pool and id."""
        lease_ids = (heartbeat.lease_id,) if heartbeat.lease_id else ()
        found = await self._store.consult(heartbeat.registration.key, lease_ids)
        self._registrations.take(found)
        self._refuse()

    async def renew(self, lease_ids: Sequence[str], scope: Scope = EVERY_KEY) -> Renewals:
        """RenewPools. Ids of pools outside `scope` are unknown. Raises Unavailable."""
        self._refuse()
        renewed = self._registrations.renew(lease_ids, scope)
        not_stored = list(await self._store.renew(renewed.lease_ids))
        if renewed.regranted:
            not_stored += await self._store_regranted(renewed.regranted)
            not_stored = list(dict.fromkeys(not_stored))
        retry_after = STORE_RETRY_SECONDS if not_stored else 0.0
        return Renewals(renewed.unknown, not_stored, retry_after)

    async def _store_regranted(self, shares: Sequence[Share]) -> list[str]:
        """Stores the new length of these leases; the ids of which that failed."""
        stored = [self._registrations.stored(share) for share in shares]
        results = await asyncio.gather(*map(self._store.put, stored), return_exceptions=True)
        not_stored = []
        for share, result in zip(stored, results, strict=True):
            if isinstance(result, StoreUnwritable):
                not_stored.append(share.lease_id)
            elif result is not None:
                raise result
        return not_stored

    async def withdraw(self, withdrawal: Withdrawal) -> int:
        """DeregisterPool; how many shares ended. Goes on when its caller goes away.

        Raises ShareNotFound, Unavailable and its kinds.
        """
        self._refuse()
        return await self._finish(self._withdraw(withdrawal))

    async def _withdraw(self, withdrawal: Withdrawal) -> int:
        if self._store.shared:
            found = await self._store.consult(withdrawal.key, withdrawal.lease_ids)
            self._registrations.take(found)
        shares = self._registrations.find(withdrawal)
        if not shares:
            raise ShareNotFound
        lease_ids = [share.lease_id for share in shares]
        memory = self._registrations.terms.withdrawn_memory
        await self._store.withdraw(lease_ids, remember=memory)
        ended = self._registrations.withdraw(
            lease_ids, caller=withdrawal.caller, identity=withdrawal.identity
        )
        if not ended:  # they lapsed, or began anew, while the store was written
            raise ShareNotFound
        if withdrawal.all_shares:
            self._report(
                Event.ALL_SHARES_WITHDRAWN,
                pool=str(withdrawal.key),
                caller=withdrawal.caller,
                identity=withdrawal.identity,
                shares=ended,
            )
        return ended

    async def _finish(self, work: Coroutine[Any, Any, T]) -> T:
        """What was stored must count here too, whether or not somebody still waits for it."""
        task = asyncio.ensure_future(work)
        self._withdrawing.add(task)
        task.add_done_callback(self._finished)
        return await asyncio.shield(task)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._withdrawing.discard(task)
        if not task.cancelled():
            task.exception()  # its caller is told it, if there is one

    def _refuse(self) -> None:
        if self._refusal:
            raise self._refusal()
