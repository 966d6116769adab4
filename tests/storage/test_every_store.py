"""What every store does for the registrar, while nothing is wrong with it."""

import pytest

from global_discovery.domain.errors import LeaseWithdrawn, ShareNotFound
from global_discovery.domain.pool import Content, Location
from global_discovery.storage.store import Reading, StoredShare, StoreState
from support.clock import FakeClock
from support.lease_world import KEY, keys
from support.store_life import StoreLife, living
from support.stores import KEEPING, MakeStore


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


# -- the interface -----------------------------------------------------------------


async def test_it_is_well_while_nothing_is_wrong(life: StoreLife) -> None:
    state = life.store.state()
    assert not state.failing
    assert state.reasons == frozenset()
    assert state.failures == 0
    if not life.store.shared:
        assert state == StoreState()


async def test_a_share_is_kept_and_kept_again_with_its_change(life: StoreLife) -> None:
    await life.store.put(a_share())
    await life.store.put(a_share(number=2, model="other"))
    await life.store.put(a_share("next", number=2, model="other"))


async def test_renewals_of_kept_shares_are_kept(life: StoreLife) -> None:
    await life.store.put(a_share())
    assert list(await life.store.renew(["id"])) == []
    assert list(await life.store.renew([])) == []


async def test_a_withdrawal_can_be_repeated(life: StoreLife) -> None:
    await life.store.put(a_share())
    await life.store.withdraw(["id"], remember=150.0)
    await life.store.withdraw(["id"], remember=150.0)


async def test_a_store_of_ones_own_knows_nothing_that_the_loop_does_not(life: StoreLife) -> None:
    if not life.store.shared:
        await life.store.put(a_share())
        assert await life.store.consult(KEY, ["id"]) == Reading()


async def test_a_closed_store_can_be_closed_again(life: StoreLife) -> None:
    await life.store.close()


async def test_a_store_that_was_never_opened_can_be_closed(make_store: MakeStore) -> None:
    await make_store().close()


# -- under the registrar -------------------------------------------------------------


async def test_the_life_of_a_share_over_the_store(life: StoreLife) -> None:
    lease = await life.register()
    assert await life.register(lease_id=lease) == lease
    renewals = await life.renew(lease)
    assert (renewals.unknown, renewals.not_stored) == ([], [])
    assert await life.withdraw(lease_id=lease) == 1
    with pytest.raises(ShareNotFound):
        await life.withdraw(lease_id=lease)
    with pytest.raises(LeaseWithdrawn):
        await life.register(lease_id=lease)
    assert life.listed == {}


async def test_a_call_without_an_id_begins_a_new_incarnation(life: StoreLife) -> None:
    older = await life.register()
    newer = await life.register(model="other")
    assert (await life.renew(older, newer)).unknown == [older]
    assert life.listed == {KEY: "other"}


async def test_a_share_that_lapsed_registers_anew(life: StoreLife) -> None:
    older = await life.register()
    life.run(31)
    assert life.listed == {}
    newer = await life.register(lease_id=older)
    assert newer != older
    assert life.listed == {KEY: "m"}


async def test_several_shares_of_one_pool_are_kept_apart(life: StoreLife) -> None:
    await life.register(relay_id="r1", model="one")
    kept = await life.register(relay_id="r2", model="two")
    assert await life.withdraw(relay_id="r2") == 1
    assert life.listed == {KEY: "one"}
    with pytest.raises(LeaseWithdrawn):
        await life.register(relay_id="r2", lease_id=kept)


# -- over a restart -------------------------------------------------------------------


@pytest.mark.parametrize("make_store", KEEPING, indirect=True)
async def test_a_restart_keeps_pools_contents_and_ids(
    make_store: MakeStore, clock: FakeClock
) -> None:
    first, second, gone = keys(3)
    async with living(make_store(), clock) as life:
        lease = await life.register(first, model="one")
        await life.register(second, model="two")
        await life.register(second, model="three")
        withdrawn = await life.register(gone, relay_id="r9")
        await life.withdraw(gone, lease_id=withdrawn)
    async with living(make_store(), clock, first_id=100) as life:
        assert life.listed == {first: "one", second: "three"}
        assert await life.register(first, model="one", lease_id=lease) == lease
        with pytest.raises(LeaseWithdrawn):
            await life.register(gone, relay_id="r9", lease_id=withdrawn)
        assert await life.withdraw(second, relay_id="r1") == 1
    async with living(make_store(), clock, first_id=200) as life:
        assert life.listed == {first: "one"}
