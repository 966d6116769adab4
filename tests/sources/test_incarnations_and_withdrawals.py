"""What a lease id names, and how a share is ended on purpose."""

import pytest

from global_discovery.domain.change import Departure
from global_discovery.domain.errors import LeaseWithdrawn
from global_discovery.domain.events import Event
from global_discovery.sources.registered.registrations import new_lease_id
from support.lease_world import KEY, LeaseWorld, keys


def test_a_call_with_the_current_id_renews_that_incarnation(world: LeaseWorld) -> None:
    lease = world.register()
    assert world.register(lease_id=lease) == lease


def test_the_current_id_decides_alone_whatever_else_the_call_says(world: LeaseWorld) -> None:
    lease = world.register(relay_id="r1")
    assert world.register(relay_id="r2", caller="10.0.0.9", lease_id=lease) == lease
    assert world.registrations.shares == 1


def test_a_call_without_an_id_starts_a_new_incarnation(world: LeaseWorld) -> None:
    older = world.register()
    newer = world.register()
    assert newer != older
    assert world.renew(older, newer) == [older]
    assert world.registrations.shares == 1


def test_the_same_owner_with_a_new_address_is_taken_at_once(world: LeaseWorld) -> None:
    world.register(relay_id="r1", caller="10.0.0.1", relays=("ip:10.0.0.1",))
    world.register(relay_id="r1", caller="10.0.0.2", relays=("ip:10.0.0.2",))
    assert world.registrations.shares == 1
    assert world.relays() == ("ip:10.0.0.2",)


def test_an_id_that_lapsed_registers_anew(world: LeaseWorld) -> None:
    lapsed = world.register()
    world.run(16)
    assert world.listed() is None
    assert world.renew(lapsed) == [lapsed]
    assert world.register(lease_id=lapsed) != lapsed
    assert world.listed()


def test_an_id_that_was_never_known_registers_anew(world: LeaseWorld) -> None:
    assert world.register(lease_id="from-another-life") != "from-another-life"
    assert world.listed()


def test_an_id_of_another_pool_registers_anew_and_leaves_that_pool_alone(
    world: LeaseWorld,
) -> None:
    first, second = keys(2)
    lease = world.register(first, model="a")
    world.register(second, model="b", lease_id=lease)
    assert (world.model(first), world.model(second)) == ("a", "b")
    assert world.renew(lease) == []


def test_lease_ids_are_never_given_twice() -> None:
    ids = {new_lease_id() for _ in range(10_000)}
    assert len(ids) == 10_000
    assert all(len(lease_id) <= 64 and lease_id.isascii() for lease_id in ids)


def test_no_report_shows_a_lease_id(world: LeaseWorld) -> None:
    for model in ("a", "b", "a"):
        world.register(model=model)
    world.register(relay_id="r1", model="b")
    world.withdraw(relay_id="r1")
    world.withdraw(all_shares=True)
    assert world.events
    assert "id-" not in str(world.events)


# -- withdrawal --------------------------------------------------------------


def test_a_withdrawal_removes_the_pool_at_once(world: LeaseWorld) -> None:
    lease = world.register()
    world.drain()
    assert world.withdraw(lease_id=lease) == 1
    assert world.drain() == [KEY]
    assert world.departures == {KEY: [Departure.REMOVED]}


def test_a_repeated_withdrawal_finds_no_share(world: LeaseWorld) -> None:
    lease = world.register()
    world.withdraw(lease_id=lease)
    assert world.withdraw(lease_id=lease) == 0
    assert world.withdraw() == 0


def test_a_withdrawal_of_one_share_leaves_the_others(world: LeaseWorld) -> None:
    lease = world.register(relay_id="r1")
    world.register(relay_id="r2")
    world.withdraw(lease_id=lease)
    assert world.listed()
    assert world.registrations.shares == 1


@pytest.mark.parametrize(
    ("relay_id", "relays", "caller"),
    [("r1", (), "10.0.0.1"), ("", ("ip:10.1.0.1",), "10.0.0.1"), ("", (), "10.0.0.7")],
)
def test_without_an_id_the_share_is_named_as_its_registration_named_it(
    world: LeaseWorld, relay_id: str, relays: tuple[str, ...], caller: str
) -> None:
    world.register(relay_id="other")
    world.register(relay_id=relay_id, relays=relays, caller=caller)
    assert world.withdraw(relay_id=relay_id, relays=relays, caller=caller) == 1
    assert world.registrations.shares == 1
    assert world.withdraw(relay_id="other") == 1


def test_a_lease_id_goes_before_all_other_names(world: LeaseWorld) -> None:
    lease = world.register(relay_id="r1")
    world.register(relay_id="r2")
    assert world.withdraw(lease_id=lease, relay_id="r2") == 1
    assert world.withdraw(relay_id="r1") == 0


def test_a_relay_id_goes_before_relays_and_relays_before_the_address(world: LeaseWorld) -> None:
    world.register(relays=("ip:10.1.0.1",))
    world.register(caller="10.0.0.1")
    assert world.withdraw(relay_id="r1", relays=("ip:10.1.0.1",), caller="10.0.0.1") == 0
    assert world.withdraw(relays=("ip:10.1.0.9",), caller="10.0.0.1") == 0
    assert world.registrations.shares == 2


def test_a_late_withdrawal_does_not_touch_a_newer_incarnation(world: LeaseWorld) -> None:
    older = world.register()
    newer = world.register()
    assert world.withdraw(lease_id=older) == 0
    assert world.renew(newer) == []
    assert world.listed()


def test_a_lease_id_under_the_wrong_key_ends_nothing(world: LeaseWorld) -> None:
    first, second = keys(2)
    lease = world.register(first)
    world.register(second)
    assert world.withdraw(second, lease_id=lease) == 0
    assert world.listed(first)
    assert world.listed(second)


def test_all_shares_ends_every_share(world: LeaseWorld) -> None:
    for number in range(3):
        world.register(relay_id=f"r{number}")
    assert world.withdraw(all_shares=True, relay_id="r0") == 3
    assert world.listed() is None


def test_a_withdrawn_id_brings_nothing_back_for_ten_leases(world: LeaseWorld) -> None:
    lease = world.register()
    world.withdraw(lease_id=lease)
    for _ in range(10):
        with pytest.raises(LeaseWithdrawn):
            world.register(lease_id=lease)
        assert world.renew(lease) == [lease]
        assert world.listed() is None
        world.run(14.875)
    with pytest.raises(LeaseWithdrawn):
        world.register(lease_id=lease)
    world.run(2)
    world.register(lease_id=lease)
    assert world.listed()


def test_a_withdrawn_id_is_refused_under_every_key(world: LeaseWorld) -> None:
    first, second = keys(2)
    lease = world.register(first)
    world.withdraw(first, lease_id=lease)
    with pytest.raises(LeaseWithdrawn):
        world.register(second, lease_id=lease)


def test_every_id_of_a_withdrawal_of_all_is_remembered(world: LeaseWorld) -> None:
    ids = [world.register(relay_id=f"r{number}") for number in range(3)]
    world.withdraw(all_shares=True)
    for lease in ids:
        with pytest.raises(LeaseWithdrawn):
            world.register(lease_id=lease)


def test_an_id_withdrawn_twice_does_not_delay_the_forgetting_of_others(world: LeaseWorld) -> None:
    first, second = world.register(relay_id="r1"), world.register(relay_id="r2")
    world.registrations.withdraw([first], caller="10.0.0.1")
    world.registrations.withdraw([second], caller="10.0.0.1")
    world.run(100)
    world.registrations.withdraw([first], caller="10.0.0.1")
    world.run(51)
    world.register(lease_id=second)
    with pytest.raises(LeaseWithdrawn):
        world.register(lease_id=first)


def test_a_new_registration_after_a_withdrawal_is_listed(world: LeaseWorld) -> None:
    world.withdraw(lease_id=world.register())
    world.register()
    assert world.listed()


def test_a_pool_that_leaves_and_returns_between_two_drains_is_one_change(
    world: LeaseWorld,
) -> None:
    world.register(model="a")
    world.drain()
    world.clock.advance(1)
    world.withdraw()
    world.register(model="a")
    assert world.drain() == [KEY]
    assert world.departures == {}
    assert world.fold[KEY].registered_time == world.clock.wall()


def test_a_pool_that_came_and_went_between_two_drains_is_told_as_gone(world: LeaseWorld) -> None:
    world.register()
    world.withdraw()
    assert world.drain() == [KEY]
    assert world.departures == {KEY: [Departure.REMOVED]}
    assert world.drain() == []


def test_of_several_departures_between_two_drains_the_last_counts(world: LeaseWorld) -> None:
    world.register()
    world.run(16)
    world.register()
    world.withdraw()
    assert world.drain() == [KEY]
    assert world.departures == {KEY: [Departure.REMOVED]}
    assert world.count(Event.POOL_LAPSED) == world.count(Event.POOL_WITHDRAWN) == 1
