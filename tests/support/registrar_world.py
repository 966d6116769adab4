"""A registrar over a store that fails when a test says so, and one pool's calls to it."""

from global_discovery.domain.lease import Heartbeat, Withdrawal
from global_discovery.domain.pool import Content, Location, Registration
from global_discovery.sources.registered.admission import RegistrationLimits
from global_discovery.sources.registered.registrar import Registrar
from support.failing_store import FailingStore
from support.lease_world import KEY, LeaseWorld


class RegistrarWorld:
    """Not open yet. `shared`: other instances could write the store too."""

    def __init__(self, *, shared: bool = False, limits: RegistrationLimits | None = None) -> None:
        self.world = LeaseWorld(ready=False, shared=shared, limits=limits)
        self.store = FailingStore()
        self.store.shared = shared
        self.registrar = Registrar(
            self.world.registrations,
            self.store,
            lambda event, **fields: self.world.events.append((event, fields)),
        )

    async def register(
        self, model: str = "m", *, lease_id: str = "", relay_id: str = "r1", sequence: int = 0
    ) -> str:
        registration = Registration(KEY, Content(model, Location("r1")))
        heartbeat = Heartbeat(registration, "10.0.0.1", relay_id, lease_id, sequence)
        return (await self.registrar.register(heartbeat)).lease_id

    async def withdraw(self, *, lease_id: str = "", all_shares: bool = False) -> int:
        lease_ids = (lease_id,) if lease_id else ()
        withdrawal = Withdrawal(KEY, "10.0.0.1", lease_ids, "r1", all_shares=all_shares)
        return await self.registrar.withdraw(withdrawal)
