"""One process's life over a store, on a clock that tests move."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from global_discovery.domain.lease import Heartbeat, Renewals, Withdrawal
from global_discovery.domain.pool import Content, Location, PoolKey, Registration
from global_discovery.sources.registered.registrar import Registrar
from global_discovery.storage.store import RegistrationStore
from support.clock import FakeClock
from support.lease_world import KEY, TICK, LeaseWorld


class StoreLife:
    """Open, and with its store running."""

    def __init__(self, store: RegistrationStore, clock: FakeClock, *, first_id: int = 1) -> None:
        self.store = store
        self.clock = clock
        self.world = LeaseWorld(
            ready=False, clock=clock, shared=store.shared, first_id=first_id, state=store.state
        )
        self.registrar = Registrar(
            self.world.registrations,
            store,
            lambda event, **fields: self.world.events.append((event, fields)),
        )

    async def register(
        self, key: PoolKey = KEY, *, model: str = "m", relay_id: str = "r1", lease_id: str = ""
    ) -> str:
        registration = Registration(key, Content(model, Location("r1")))
        heartbeat = Heartbeat(registration, "10.0.0.1", relay_id, lease_id)
        return (await self.registrar.register(heartbeat)).lease_id

    async def renew(self, *lease_ids: str) -> Renewals:
        return await self.registrar.renew(lease_ids)

    async def withdraw(self, key: PoolKey = KEY, *, lease_id: str = "", relay_id: str = "") -> int:
        lease_ids = (lease_id,) if lease_id else ()
        return await self.registrar.withdraw(Withdrawal(key, "10.0.0.1", lease_ids, relay_id))

    def tick(self) -> None:
        while self.registrar.tick():
            pass

    def run(self, seconds: float) -> None:
        """The loop runs: time passes and every tick comes."""
        self.clock.run(seconds, self.tick, every=TICK)

    @property
    def listed(self) -> dict[PoolKey, str]:
        """The models of the pools that are listed."""
        self.world.drain()
        return {key: pool.content.model for key, pool in self.world.fold.items()}


@contextlib.asynccontextmanager
async def living(
    store: RegistrationStore, clock: FakeClock, *, first_id: int = 1
) -> AsyncIterator[StoreLife]:
    """Ended in order."""
    life = StoreLife(store, clock, first_id=first_id)
    running: asyncio.Task[None] | None = None
    try:
        await life.registrar.open()
        running = asyncio.create_task(store.run())
        yield life
    finally:
        if running is not None:
            running.cancel()
            await asyncio.wait([running])
        await store.close()
