"""When a lease ends, and what that costs."""

import pytest

from global_discovery.domain.change import Departure
from global_discovery.domain.events import Event
from global_discovery.sources.registered import registrations as registrations_module
from global_discovery.sources.registered.admission import RegistrationLimits
from global_discovery.sources.registered.registrations import LAPSES_TOLD_ONE_BY_ONE, LEASES_A_TICK
from global_discovery.sources.registered.shares import Share
from support.lease_world import KEY, LeaseWorld, keys


def test_a_pool_leaves_at_the_end_of_its_lease_and_not_after_twice_the_lease(
    world: LeaseWorld,
) -> None:
    world.register()
    world.run(14.875)
    assert world.listed()
    world.run(0.25)
    assert world.listed() is None
    assert world.departures == {KEY: [Departure.REMOVED]}


@pytest.mark.parametrize("offset", [0.0, 0.03125, 0.0625, 0.09375])
def test_a_lease_never_ends_early_and_at_most_one_slot_late(
    world: LeaseWorld, offset: float
) -> None:
    world.clock.advance(offset)
    world.register()
    end = world.clock.monotonic() + 15
    while world.listed():
        assert world.clock.monotonic() < end + 0.1
        world.clock.advance(1 / 64)
        world.tick()
    assert world.clock.monotonic() >= end


def test_no_other_event_is_needed_for_a_lease_to_end(world: LeaseWorld) -> None:
    world.run(40)
    world.register()
    world.drain()
    wakes = world.wakes
    world.run(14.875)
    assert world.wakes == wakes
    world.run(0.25)
    assert world.wakes == wakes + 1
    assert world.drain() == [KEY]


def test_a_renewal_counts_from_its_own_moment(world: LeaseWorld) -> None:
    lease = world.register()
    world.run(14)
    world.renew(lease)
    world.run(14)
    assert world.listed()
    world.run(1.25)
    assert world.listed() is None


@pytest.mark.parametrize("step", [-86_400.0, -20.0, 20.0, 86_400.0])
def test_a_step_of_the_wall_clock_neither_ends_nor_lengthens_a_lease(
    world: LeaseWorld, step: float
) -> None:
    world.register()
    world.drain()
    world.run(14)
    world.clock.step_wall(step)
    world.tick()
    assert world.drain() == []
    world.run(1.25)
    assert world.listed() is None
    assert world.count(Event.STALLED) == 0


def test_content_that_changes_at_the_moment_its_lease_ends_keeps_the_pool(
    world: LeaseWorld,
) -> None:
    lease = world.register(model="a")
    world.drain()
    for _ in range(15):
        world.clock.advance(1)
        if world.clock.monotonic() < 1015:
            world.tick()
    assert world.register(model="b", lease_id=lease) == lease
    world.tick()
    world.run(14.875)
    assert world.model() == "b"
    assert world.departures == {}


def test_content_that_changes_just_after_its_lease_ended_begins_anew(world: LeaseWorld) -> None:
    lease = world.register(model="a")
    world.run(15.25)
    assert world.register(model="b", lease_id=lease) != lease
    assert world.model() == "b"
    assert world.departures == {}, "it left and returned before anybody looked"


def test_the_share_that_was_listed_gives_way_when_its_lease_ends(world: LeaseWorld) -> None:
    world.register(relay_id="r2", model="b")
    world.register(relay_id="r1", model="a")
    world.run(10)
    world.register(relay_id="r2", model="b")
    assert world.model() == "a"
    world.run(5.25)
    assert world.model() == "b"
    assert world.relays() == ("ip:10.0.0.1",)
    assert world.departures == {}


def test_the_times_for_people_say_when_it_entered_and_when_it_changed(world: LeaseWorld) -> None:
    lease = world.register(model="a")
    world.drain()
    entered = world.clock.wall()
    world.run(3)
    world.register(model="b", lease_id=lease)
    pool = world.listed()
    assert pool is not None
    assert (pool.registered_time, pool.changed_time) == (entered, world.clock.wall())


def test_leases_that_end_together_are_worked_off_in_bounded_portions() -> None:
    count = 100_000
    world = LeaseWorld(limits=RegistrationLimits(new_shares_per_second=count))
    for key in keys(count):
        world.register(key)
    for _ in range(3):
        world.clock.advance(5)
        world.tick()
    world.clock.advance(0.25)
    portions = []
    more = True
    while more:
        before = len(world.registrations)
        more = world.registrations.tick()
        portions.append(before - len(world.registrations))
    assert sum(portions) == count
    assert max(portions) <= LEASES_A_TICK
    assert len(portions) <= count // LEASES_A_TICK + 2
    assert world.registrations.counters.lapses == count
    told = len(world.events) - count
    assert told <= (LAPSES_TOLD_ONE_BY_ONE + 1) * len(portions) + 1
    departures = {change.departure for change in world.registrations.drain().changes}
    assert departures == {Departure.UNLISTED}


def test_renewals_cost_the_tick_nothing_until_the_first_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = LeaseWorld()
    listening = world.registrations._listening
    extend = listening.extend
    looked_at: list[Share] = []

    def counting(share: Share, now: float) -> int:
        looked_at.append(share)
        return extend(share, now)

    monkeypatch.setattr(listening, "extend", counting)
    ids = [world.register(key) for key in keys(100)]
    for _ in range(12):
        world.run(5)
        assert world.renew(*ids) == []
    leases_passed = 12 * 5 // 15
    assert len(looked_at) <= 100 * (leases_passed + 1)


def test_the_portion_is_what_one_tick_may_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrations_module, "LEASES_A_TICK", 7)
    world = LeaseWorld()
    for key in keys(20):
        world.register(key)
    for _ in range(3):
        world.clock.advance(5)
        world.tick()
    world.clock.advance(0.25)
    gone = []
    more = True
    while more:
        more = world.registrations.tick()
        gone.append(20 - len(world.registrations))
    assert gone[-1] == 20
    assert all(after - before <= 7 for before, after in zip([0, *gone], gone, strict=False))
