"""When a shared store is asked before a call, and what comes of its answer; first readings."""

import asyncio

import pytest

from global_discovery.domain.errors import LeaseWithdrawn, ShareNotFound, StoreUnwritable
from global_discovery.domain.events import Event
from global_discovery.sources.registered.registrar import SHARES_A_TURN
from global_discovery.storage.store import Reading
from support.lease_world import KEY, a_seen_share, keys
from support.registrar_world import RegistrarWorld


@pytest.fixture
async def replica() -> RegistrarWorld:
    replica = RegistrarWorld(shared=True)
    await replica.registrar.open()
    return replica


# -- registrations -------------------------------------------------------------------


async def test_an_unknown_id_that_another_instance_gave_is_renewed(replica: RegistrarWorld) -> None:
    replica.store.found = Reading((a_seen_share("theirs"),))
    assert await replica.register(lease_id="theirs") == "theirs"
    assert replica.store.consulted == [(KEY, ("theirs",))]
    assert replica.store.renewals == ["theirs"] or "theirs" in replica.store.shares


async def test_an_id_withdrawn_at_another_instance_a_moment_ago_is_refused(
    replica: RegistrarWorld,
) -> None:
    replica.store.found = Reading((), {"theirs": 100.0})
    with pytest.raises(LeaseWithdrawn):
        await replica.register(lease_id="theirs")
    assert replica.world.listed() is None
    with pytest.raises(LeaseWithdrawn):
        await replica.register(lease_id="theirs")
    assert len(replica.store.consulted) == 1  # from then on it is known


async def test_an_id_that_nobody_knows_registers_anew(replica: RegistrarWorld) -> None:
    assert await replica.register(lease_id="never") == "id-1"


async def test_known_ids_and_calls_without_one_ask_nobody(replica: RegistrarWorld) -> None:
    lease = await replica.register()
    await replica.register(lease_id=lease)
    await replica.registrar.renew([lease, "unknown"])
    assert replica.store.consulted == []


async def test_an_unknown_id_does_not_count_while_the_store_cannot_be_asked(
    replica: RegistrarWorld,
) -> None:
    replica.store.failing = True
    with pytest.raises(StoreUnwritable) as refused:
        await replica.register(lease_id="theirs")
    assert refused.value.retry_after
    assert replica.world.listed() is None


async def test_a_store_of_ones_own_is_never_asked() -> None:
    replica = RegistrarWorld(shared=False)
    await replica.registrar.open()
    await replica.register(lease_id="unknown")
    await replica.withdraw()
    assert replica.store.consulted == []


# -- withdrawals ---------------------------------------------------------------------


async def test_a_withdrawal_finds_a_share_that_was_not_seen_here_yet(
    replica: RegistrarWorld,
) -> None:
    replica.store.found = Reading((a_seen_share("theirs"),))
    assert await replica.withdraw(lease_id="theirs") == 1
    assert "theirs" in replica.store.withdrawn
    assert replica.world.listed() is None


async def test_a_withdrawal_of_all_ends_those_that_were_not_seen_here_too(
    replica: RegistrarWorld,
) -> None:
    await replica.register()
    replica.store.found = Reading((a_seen_share("theirs", relay_id="r2"),))
    assert await replica.withdraw(all_shares=True) == 2
    assert set(replica.store.withdrawn) == {"id-1", "theirs"}


async def test_a_withdrawal_of_what_was_withdrawn_elsewhere_is_not_found(
    replica: RegistrarWorld,
) -> None:
    lease = await replica.register()
    replica.store.found = Reading((), {lease: 100.0})
    with pytest.raises(ShareNotFound):
        await replica.withdraw(lease_id=lease)
    assert replica.world.listed() is None


async def test_a_late_withdrawal_does_not_touch_an_incarnation_begun_elsewhere(
    replica: RegistrarWorld,
) -> None:
    older = await replica.register()
    replica.store.found = Reading((a_seen_share("newer", renewed=True),))
    with pytest.raises(ShareNotFound):
        await replica.withdraw(lease_id=older)
    assert replica.world.listed()
    assert replica.store.withdrawn == {}


async def test_a_withdrawal_changes_nothing_while_the_store_cannot_be_asked(
    replica: RegistrarWorld,
) -> None:
    await replica.register()
    replica.store.failing = True
    with pytest.raises(StoreUnwritable):
        await replica.withdraw()
    assert replica.world.listed()


async def test_a_withdrawal_whose_caller_went_away_counts_once_it_is_stored(
    replica: RegistrarWorld,
) -> None:
    await replica.register()
    replica.store.gate.clear()
    replica.store.waiting.clear()
    withdrawing = asyncio.create_task(replica.withdraw())
    await replica.store.waiting.wait()
    withdrawing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await withdrawing
    replica.store.gate.set()
    for _ in range(10):  # turns of the loop
        await asyncio.sleep(0)
    assert replica.world.listed() is None
    assert replica.store.withdrawn


# -- readings ------------------------------------------------------------------------


async def test_later_readings_come_in_by_themselves(replica: RegistrarWorld) -> None:
    replica.store.take(Reading((a_seen_share(renewed=True),)))
    assert replica.world.listed()
    wakes = replica.world.wakes
    replica.store.changed()
    assert replica.world.wakes > wakes


@pytest.mark.parametrize("shared", [True, False])
async def test_a_large_first_reading_leaves_the_loop_to_others(*, shared: bool) -> None:
    replica = RegistrarWorld(shared=shared)
    many = 10 * SHARES_A_TURN
    found = [a_seen_share(f"s-{key.dgd_name}", key=key) for key in keys(many)]
    replica.store.found = Reading(found, {"gone": 10.0})
    opening = asyncio.create_task(replica.registrar.open())
    turns = 0
    while not opening.done():
        assert not replica.registrar.taking_calls
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 10
    assert len(replica.world.registrations) == many
    assert (
        Event.STORE_READ,
        {"shares": many, "pools": many, "withdrawn": 1},
    ) in replica.world.events


async def test_lease_ends_are_told_to_the_store_once_it_was_read() -> None:
    replica = RegistrarWorld(shared=False)
    replica.store.found = Reading((a_seen_share("s1", remaining=1.0),))
    replica.registrar.tick()
    await replica.registrar.open()
    for _ in range(20):
        replica.world.clock.advance(0.125)
        replica.registrar.tick()
    assert [moved.lease_id for moved in replica.store.moved] == ["s1"]
