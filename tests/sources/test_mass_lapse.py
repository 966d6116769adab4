"""Most pools missing their heartbeats together, and that this protects nothing for ever."""

import pytest

from global_discovery.domain.change import Departure
from global_discovery.domain.events import Event
from global_discovery.domain.pool import PoolKey
from support.lease_world import LeaseWorld, keys


def settled(world: LeaseWorld, count: int) -> dict[PoolKey, str]:
    """Pools that were renewed just now, some time after the start."""
    leases = {key: world.register(key) for key in keys(count)}
    world.run(10)
    world.renew(*leases.values())
    world.run(10)
    world.renew(*leases.values())
    assert world.mark() == set()
    return leases


def silence(world: LeaseWorld, leases: dict[PoolKey, str], dead: int, seconds: float) -> None:
    """The first `dead` pools stop renewing, the others renew every five seconds."""
    alive = list(leases.values())[dead:]
    for _ in range(int(seconds / 5)):
        world.run(5)
        world.renew(*alive)
    world.run(seconds % 5)


def test_when_more_than_half_are_overdue_lapsing_pools_are_unlisted(world: LeaseWorld) -> None:
    leases = settled(world, 20)
    silence(world, leases, 11, 15.25)
    assert world.mark() == {"MASS_LAPSE"}
    assert len(world.fold) == 9
    assert {kind for kinds in world.departures.values() for kind in kinds} == {Departure.UNLISTED}


def test_exactly_half_are_no_mass_lapse(world: LeaseWorld) -> None:
    leases = settled(world, 20)
    silence(world, leases, 10, 15.25)
    assert world.mark() == set()
    assert {kind for kinds in world.departures.values() for kind in kinds} == {Departure.REMOVED}
    assert len(world.departures) == 10


@pytest.mark.parametrize(("pools", "begun"), [(9, 0), (10, 1)])
def test_fewer_than_ten_are_no_mass_lapse(world: LeaseWorld, pools: int, begun: int) -> None:
    leases = settled(world, pools)
    silence(world, leases, pools, 15.25)
    assert world.count(Event.MASS_LAPSE_BEGAN) == begun
    assert world.registrations.counters.mass_lapses == begun
    assert world.mark() == ({"MASS_LAPSE"} if begun else set())


def test_a_pool_is_overdue_only_past_the_middle_between_heartbeat_and_lease_end(
    world: LeaseWorld,
) -> None:
    leases = list(settled(world, 20).values())
    world.run(5.125)
    world.renew(*leases[1:])
    world.run(10)
    assert world.registrations.shares == 19, "one lease ended, the others are not overdue"
    assert world.count(Event.MASS_LAPSE_BEGAN) == 0


def test_a_pool_is_overdue_once_its_renewal_is_older_than_that(world: LeaseWorld) -> None:
    leases = list(settled(world, 20).values())
    world.run(4.875)
    world.renew(*leases[1:])
    world.run(10.25)
    assert world.registrations.shares == 19
    assert world.count(Event.MASS_LAPSE_BEGAN) == 1
    assert world.mark() == {"MASS_LAPSE"}


def test_pools_that_renew_in_any_order_are_counted_right(world: LeaseWorld) -> None:
    leases = list(settled(world, 20).values())
    world.run(4.5)
    world.renew(*reversed(leases[10:]))
    world.run(0.25)
    world.renew(*leases[1:10])
    world.run(10.5)
    assert world.registrations.shares == 19
    assert world.count(Event.MASS_LAPSE_BEGAN) == 1, "all that are left are overdue"


def test_a_renewed_pool_before_overdue_ones_hides_none_of_them(world: LeaseWorld) -> None:
    leases = list(settled(world, 20).values())
    world.run(10)
    world.renew(leases[0])
    world.run(5.25)
    assert world.count(Event.MASS_LAPSE_BEGAN) == 1


def test_one_live_share_keeps_a_pool_from_being_overdue(world: LeaseWorld) -> None:
    leases = settled(world, 20)
    for key in leases:
        world.register(key, relay_id="second")
    for _ in range(3):
        world.run(5)
        for key in leases:
            world.register(key, relay_id="second")
    world.run(0.25)
    assert world.registrations.shares == 20
    assert world.count(Event.MASS_LAPSE_BEGAN) == 0


def test_the_end_of_one_share_of_a_pool_that_lives_on_can_begin_one(world: LeaseWorld) -> None:
    leases = settled(world, 20)
    first = keys(1)[0]
    world.register(first, relay_id="second")
    world.run(4)
    world.renew(*leases.values())
    world.run(11.25)
    assert world.registrations.shares == 20
    assert world.count(Event.MASS_LAPSE_BEGAN) == 1
    assert world.listed(first)


def test_it_lasts_exactly_two_leases_however_many_are_overdue_by_then(world: LeaseWorld) -> None:
    leases = settled(world, 30)
    dead = dict(list(leases.items())[:16])
    alive = list(leases.values())[16:]
    world.run(10)
    world.renew(*alive)
    while not world.count(Event.MASS_LAPSE_BEGAN):
        world.clock.advance(0.125)
        world.tick()
    began = world.clock.monotonic()
    world.drain()
    assert set(world.departures) == set(dead)
    while "MASS_LAPSE" in world.mark():
        assert world.clock.monotonic() < began + 30
        world.renew(*alive)
        world.tick()
        world.clock.advance(0.125)
    assert world.clock.monotonic() == began + 30
    world.tick()
    assert world.count(Event.MASS_LAPSE_BEGAN) == world.count(Event.MASS_LAPSE_ENDED) == 1


def test_a_lease_that_ended_within_it_is_unlisted_also_when_the_tick_comes_after_it(
    world: LeaseWorld,
) -> None:
    leases = settled(world, 30)
    late, *others = list(leases)[16:]
    alive = [leases[key] for key in others]
    world.run(10)
    world.renew(*alive, leases[late])
    while not world.count(Event.MASS_LAPSE_BEGAN):
        world.clock.advance(0.125)
        world.tick()
    began = world.clock.monotonic()
    while world.clock.monotonic() < began + 14.75:
        world.run(0.25)
        world.renew(*alive, leases[late])
    while world.clock.monotonic() < began + 29.5:
        world.run(0.25)
        world.renew(*alive)
    world.clock.advance(0.75)
    world.tick()
    assert world.mark() == set()
    assert world.departures[late] == [Departure.UNLISTED]


def test_a_pool_that_lapses_alone_within_it_is_unlisted_and_after_it_removed(
    world: LeaseWorld,
) -> None:
    leases = settled(world, 30)
    within, after, *others = list(leases)[16:]
    alive = [leases[key] for key in others]
    silence(world, leases, 16, 15.25)
    assert world.mark() == {"MASS_LAPSE"}
    for second in range(40):
        world.renew(*alive, *([leases[within]] if second < 5 else []))
        world.renew(*([leases[after]] if second < 20 else []))
        world.run(1)
    assert world.mark() == set()
    assert world.departures[within] == [Departure.UNLISTED]
    assert world.departures[after] == [Departure.REMOVED]
    assert len(world.fold) == len(others)


def test_a_withdrawal_during_it_is_removed(world: LeaseWorld) -> None:
    leases = settled(world, 20)
    silence(world, leases, 11, 15.25)
    key = list(leases)[-1]
    world.withdraw(key)
    world.drain()
    assert world.departures[key] == [Departure.REMOVED]
    assert world.mark() == {"MASS_LAPSE"}


def test_an_unlisted_pool_that_registers_again_is_listed_again(world: LeaseWorld) -> None:
    leases = settled(world, 20)
    silence(world, leases, 11, 15.25)
    key = next(iter(leases))
    assert world.listed(key) is None
    world.register(key, lease_id=leases[key])
    assert world.listed(key)


def test_it_can_begin_again_after_it_ended(world: LeaseWorld) -> None:
    for number in (1, 2):
        leases = settled(world, 20)
        silence(world, leases, 20, 15.25)
        assert world.count(Event.MASS_LAPSE_BEGAN) == number
        world.run(30)
        assert world.count(Event.MASS_LAPSE_ENDED) == number


def test_the_flag_turns_it_off() -> None:
    world = LeaseWorld(mass_lapse_protection=False)
    leases = settled(world, 20)
    silence(world, leases, 20, 15.25)
    assert world.mark() == set()
    assert {kind for kinds in world.departures.values() for kind in kinds} == {Departure.REMOVED}
    assert world.count(Event.MASS_LAPSE_BEGAN) == 0


def test_twenty_pools_of_which_half_die_are_named_once_and_gone(world: LeaseWorld) -> None:
    leases = settled(world, 20)
    silence(world, leases, 12, 60)
    assert world.count(Event.MASS_LAPSE_BEGAN) == 1
    assert len(world.registrations) == 8
    assert world.mark() == set()
