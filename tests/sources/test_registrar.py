"""What counts when the store fails, and when calls are taken at all."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable

import pytest

from global_discovery.domain.errors import (
    LeaseWithdrawn,
    ShareNotFound,
    ShuttingDown,
    StoreUnwritable,
    Unavailable,
)
from global_discovery.domain.events import Event
from global_discovery.domain.pool import Content, Location
from support.lease_world import KEY
from support.registrar_world import RegistrarWorld


@pytest.fixture
async def setting() -> RegistrarWorld:
    setting = RegistrarWorld()
    await setting.registrar.open()
    return setting


# -- registrations -----------------------------------------------------------


async def test_an_overtaken_call_changes_nothing_in_the_store(setting: RegistrarWorld) -> None:
    lease = await setting.register(sequence=5)
    assert await setting.register("late", lease_id=lease, sequence=4) == lease
    assert setting.store.renewals == []
    assert setting.store.shares[lease].content.model == "m"


async def test_a_registration_is_stored_with_all_that_it_said(setting: RegistrarWorld) -> None:
    lease = await setting.register("a")
    stored = setting.store.shares[lease]
    assert (stored.key, stored.identity) == (KEY, ("relay_id", "r1"))
    assert (stored.lease_id, stored.granted, stored.number) == (lease, 15.0, 1)
    assert stored.content == Content("a", Location("r1"))
    assert stored.relays == ("ip:10.0.0.1",)


async def test_an_unchanged_heartbeat_is_stored_as_a_renewal(setting: RegistrarWorld) -> None:
    lease = await setting.register("a")
    await setting.register("a", lease_id=lease)
    assert setting.store.renewals == [lease]


async def test_a_changed_heartbeat_is_stored_with_its_new_number(setting: RegistrarWorld) -> None:
    lease = await setting.register("a")
    await setting.register("b", lease_id=lease)
    assert setting.store.shares[lease].number == 2
    assert setting.store.shares[lease].content.model == "b"


async def test_a_registration_that_cannot_be_stored_counts_and_is_unavailable(
    setting: RegistrarWorld,
) -> None:
    setting.store.failing = True
    with pytest.raises(StoreUnwritable) as refused:
        await setting.register("a")
    assert refused.value.retry_after
    assert setting.world.model() == "a"


async def test_a_change_that_cannot_be_stored_counts_and_is_unavailable(
    setting: RegistrarWorld,
) -> None:
    lease = await setting.register("a")
    setting.store.failing = True
    with pytest.raises(StoreUnwritable):
        await setting.register("b", lease_id=lease)
    assert setting.world.model() == "b"


async def test_a_heartbeat_that_cannot_be_stored_renews_and_is_unavailable(
    setting: RegistrarWorld,
) -> None:
    lease = await setting.register("a")
    setting.world.run(14)
    setting.store.failing = True
    with pytest.raises(StoreUnwritable):
        await setting.register("a", lease_id=lease)
    setting.world.run(14)
    assert setting.world.listed()


# -- renewals ----------------------------------------------------------------


async def test_renewals_that_were_stored_are_named_nowhere(setting: RegistrarWorld) -> None:
    lease = await setting.register()
    renewals = await setting.registrar.renew([lease, "unknown"])
    assert (renewals.unknown, renewals.not_stored) == (["unknown"], [])
    assert renewals.retry_after == 0
    assert setting.store.renewals == [lease]


async def test_renewals_that_could_not_be_stored_are_named_and_count(
    setting: RegistrarWorld,
) -> None:
    lease = await setting.register()
    setting.world.run(14)
    setting.store.failing = True
    renewals = await setting.registrar.renew(["unknown", lease])
    assert (renewals.unknown, renewals.not_stored) == (["unknown"], [lease])
    assert renewals.retry_after > 0
    setting.world.run(14)
    assert setting.world.listed()


# -- withdrawals -------------------------------------------------------------


async def test_a_withdrawal_is_stored_for_ten_leases(setting: RegistrarWorld) -> None:
    lease = await setting.register()
    assert await setting.withdraw(lease_id=lease) == 1
    assert setting.store.withdrawn == {lease: 150.0}
    assert setting.world.listed() is None


async def test_a_withdrawal_that_cannot_be_stored_changes_nothing(setting: RegistrarWorld) -> None:
    lease = await setting.register()
    setting.world.drain()
    setting.store.failing = True
    with pytest.raises(StoreUnwritable):
        await setting.withdraw(lease_id=lease)
    assert setting.world.drain() == []
    setting.store.failing = False
    assert await setting.register(lease_id=lease) == lease


async def test_a_withdrawal_of_nothing_is_not_found_and_not_stored(setting: RegistrarWorld) -> None:
    with pytest.raises(ShareNotFound):
        await setting.withdraw(lease_id="unknown")
    assert setting.store.withdrawn == {}


async def test_a_withdrawal_of_all_is_reported_with_its_caller(setting: RegistrarWorld) -> None:
    await setting.register(relay_id="r1")
    await setting.register(relay_id="r2")
    assert await setting.withdraw(all_shares=True) == 2
    assert (
        Event.ALL_SHARES_WITHDRAWN,
        {"pool": str(KEY), "caller": "10.0.0.1", "identity": "", "shares": 2},
    ) in setting.world.events


async def withdraw_while(
    setting: RegistrarWorld, meanwhile: Callable[[], Awaitable[object]]
) -> int:
    """A withdrawal of relay r1, with something happening while the store writes."""
    setting.store.gate.clear()
    setting.store.waiting.clear()
    withdrawing = asyncio.create_task(setting.withdraw())
    await setting.store.waiting.wait()
    await meanwhile()
    setting.store.gate.set()
    return await withdrawing


async def test_a_heartbeat_while_the_withdrawal_is_stored_does_not_save_the_share(
    setting: RegistrarWorld,
) -> None:
    lease = await setting.register()
    assert await withdraw_while(setting, lambda: setting.register(lease_id=lease)) == 1
    assert setting.world.listed() is None


async def test_an_incarnation_begun_while_the_withdrawal_is_stored_lives_on(
    setting: RegistrarWorld,
) -> None:
    older = await setting.register()
    with pytest.raises(ShareNotFound):
        await withdraw_while(setting, setting.register)
    assert setting.world.listed()
    with pytest.raises(LeaseWithdrawn):
        await setting.register(lease_id=older)


# -- when calls are taken ----------------------------------------------------


async def every_call_is_refused(setting: RegistrarWorld, kind: type[Unavailable]) -> None:
    calls: list[Callable[[], Awaitable[object]]] = [
        setting.register,
        lambda: setting.registrar.renew(["id"]),
        setting.withdraw,
    ]
    for call in calls:
        with pytest.raises(Unavailable) as refused:
            await call()
        assert type(refused.value) is kind
        assert refused.value.retry_after
    assert not setting.registrar.taking_calls
    assert len(setting.world.registrations) == 0


async def test_before_the_store_was_read_every_call_is_unavailable() -> None:
    setting = RegistrarWorld()
    await every_call_is_refused(setting, Unavailable)


async def test_after_shut_every_call_is_told_so(setting: RegistrarWorld) -> None:
    assert setting.registrar.taking_calls
    setting.registrar.shut()
    await every_call_is_refused(setting, ShuttingDown)


async def test_nothing_lapses_once_nobody_can_be_heard_any_more(setting: RegistrarWorld) -> None:
    await setting.register()
    setting.registrar.shut()
    setting.world.clock.advance(60)
    assert not setting.registrar.tick()
    assert len(setting.world.registrations) == 1
    assert setting.world.listed()


async def test_shut_while_the_store_is_being_read_stays_shut() -> None:
    setting = RegistrarWorld()
    setting.store.gate.clear()
    opening = asyncio.create_task(setting.registrar.open())
    await setting.store.waiting.wait()
    setting.registrar.shut()
    setting.store.gate.set()
    await opening
    await every_call_is_refused(setting, ShuttingDown)


async def test_a_store_that_cannot_be_read_keeps_the_calls_refused() -> None:
    setting = RegistrarWorld()
    setting.store.failing = True
    with pytest.raises(OSError, match="disk"):
        await setting.registrar.open()
    await every_call_is_refused(setting, Unavailable)
    assert setting.world.mark() == {"STARTING"}


async def test_refused_calls_leave_nothing_behind(setting: RegistrarWorld) -> None:
    """One exception raised again and again would keep the frames of every call alive."""
    setting.registrar.shut()
    for _ in range(100):
        with pytest.raises(ShuttingDown):
            await setting.register()
    with pytest.raises(ShuttingDown) as refused:
        await setting.register()
    assert len(traceback.extract_tb(refused.value.__traceback__)) < 10
