"""What every store does for the registrar while nothing is wrong with it."""

import pytest

from global_discovery.domain.errors import LeaseWithdrawn, ShareNotFound
from global_discovery.domain.lease import Heartbeat, Withdrawal
from global_discovery.domain.pool import Content, Location, PoolKey, Registration
from global_discovery.sources.registrar import Registrar
from global_discovery.storage.store import RegistrationStore, StoredShare
from support.lease_world import LeaseWorld

KEY = PoolKey("c1", "ns", "pool")


def a_share(lease_id: str = "id", *, number: int = 1, model: str = "m") -> StoredShare:
    return StoredShare(
        key=KEY,
        identity=("relay_id", "r1"),
        lease_id=lease_id,
        granted=15.0,
        number=number,
        content=Content(model, Location("r")),
        relays=("ip:10.0.0.1",),
    )


def a_heartbeat(lease_id: str = "") -> Heartbeat:
    registration = Registration(KEY, Content("m", Location("r")))
    return Heartbeat(registration, "10.0.0.1", "r1", lease_id)


async def test_a_share_can_be_put_and_put_again(store: RegistrationStore) -> None:
    await store.put(a_share())
    await store.put(a_share(number=2, model="other"))
    await store.put(a_share("a-new-incarnation", number=2, model="other"))


async def test_renewals_of_known_and_unknown_shares_fail_for_none(
    store: RegistrationStore,
) -> None:
    await store.put(a_share())
    assert list(await store.renew(["id"])) == []
    assert list(await store.renew([])) == []


async def test_a_withdrawal_can_be_repeated(store: RegistrationStore) -> None:
    await store.put(a_share())
    await store.withdraw(["id"], remember=150.0)
    await store.withdraw(["id"], remember=150.0)


async def test_a_closed_store_can_be_closed_again(store: RegistrationStore) -> None:
    await store.close()


async def test_the_life_of_a_share_over_the_store(store: RegistrationStore) -> None:
    world = LeaseWorld(ready=False)
    registrar = Registrar(world.registrations, store, lambda *_, **__: None)
    await registrar.open()
    lease = (await registrar.register(a_heartbeat())).lease_id
    assert (await registrar.register(a_heartbeat(lease))).lease_id == lease
    renewals = await registrar.renew([lease])
    assert (renewals.unknown, renewals.not_stored) == ([], [])
    assert await registrar.withdraw(Withdrawal(KEY, "10.0.0.1", (lease,))) == 1
    with pytest.raises(ShareNotFound):
        await registrar.withdraw(Withdrawal(KEY, "10.0.0.1", (lease,)))
    with pytest.raises(LeaseWithdrawn):
        await registrar.register(a_heartbeat(lease))
    assert world.listed(KEY) is None
