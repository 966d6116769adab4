"""What the instance's own deafness costs the relays: nothing, and not for ever."""

from collections.abc import Callable
from functools import partial

import pytest

from global_discovery.domain.change import Departure
from global_discovery.domain.events import Event
from support.clock import FakeClock
from support.lease_world import KEY, LeaseWorld, keys

OTHER = keys(1)[0]


def stalled(world: LeaseWorld, seconds: float) -> None:
    """The process stands still; then its loop runs again."""
    world.clock.stop(seconds)
    world.tick()


# -- the start ---------------------------------------------------------------


def test_an_instance_that_is_not_ready_is_starting_for_as_long_as_that_takes() -> None:
    world = LeaseWorld(ready=False)
    world.run(100)
    assert world.mark() == {"STARTING"}


def test_starting_ends_one_lease_after_the_first_call() -> None:
    world = LeaseWorld()
    world.run(3)
    world.register()
    world.run(14.875)
    assert world.mark() == {"STARTING"}
    world.run(0.125)
    assert world.mark() == set()


def test_nobody_calling_is_listening_from_one_lease_after_ready() -> None:
    world = LeaseWorld(ready=False)
    world.run(50)
    world.registrations.ready()
    world.run(29.875)
    assert world.mark() == {"STARTING"}
    world.run(0.125)
    assert world.mark() == set()


def test_whoever_drains_is_woken_when_the_mark_changes_by_itself(world: LeaseWorld) -> None:
    world.drain()
    wakes = world.wakes
    world.run(29.875)
    assert world.wakes == wakes
    world.run(0.125)
    assert world.wakes == wakes + 1


def test_a_call_after_that_does_not_start_the_start_anew() -> None:
    world = LeaseWorld()
    world.run(29)
    world.register()
    world.run(1)
    assert world.mark() == set()


def test_a_batch_that_renews_nothing_is_no_sign_that_the_instance_listens() -> None:
    world = LeaseWorld()
    world.renew()
    world.renew("never-known")
    world.run(10)
    world.register()
    world.run(14.875)
    assert world.mark() == {"STARTING"}


def test_a_renewal_is_a_sign_that_the_instance_listens(world: LeaseWorld) -> None:
    lease = world.register()
    stalled(world, 6)
    world.run(2)
    world.renew(lease)
    world.run(14.875)
    assert world.mark() == {"STALLED"}
    world.run(0.125)
    assert world.mark() == set()


def test_a_stall_during_the_start_is_part_of_the_start() -> None:
    world = LeaseWorld(ready=False)
    stalled(world, 60)
    assert world.count(Event.STALLED) == 1
    world.run(40)
    world.registrations.ready()
    world.register()
    assert world.mark() == {"STARTING"}
    world.run(15)
    assert world.mark() == set()


def test_a_stall_just_before_ready_is_part_of_the_start() -> None:
    world = LeaseWorld(ready=False)
    world.clock.stop(60)
    world.registrations.ready()
    world.register()
    world.tick()
    assert world.mark() == {"STARTING"}


def test_a_stall_after_ready_and_before_the_first_call_has_its_own_reason() -> None:
    world = LeaseWorld()
    stalled(world, 20)
    assert world.mark() == {"STARTING", "STALLED"}
    world.run(1)
    world.register()
    world.run(14)
    assert world.mark() == {"STALLED"}, "the start was over one lease after ready at the latest"
    world.run(1)
    assert world.mark() == set()


# -- one stall ---------------------------------------------------------------


@pytest.mark.parametrize("pause_of", [FakeClock.stop, FakeClock.suspend])
def test_a_pause_of_a_heartbeat_interval_is_no_stall_and_a_longer_one_is(
    world: LeaseWorld, pause_of: Callable[[FakeClock, float], None]
) -> None:
    pause = partial(pause_of, world.clock)
    pause(5)
    world.tick()
    assert world.count(Event.STALLED) == 0
    pause(5.125)
    world.tick()
    assert world.count(Event.STALLED) == 1
    assert "STALLED" in world.mark()
    assert world.registrations.counters.stalls == 1


@pytest.mark.parametrize("seconds", [6.0, 14.0, 16.0, 3600.0])
def test_after_a_stop_a_lease_ends_one_lease_after_the_instance_listens(
    world: LeaseWorld, seconds: float
) -> None:
    world.register()
    stalled(world, seconds)
    world.run(2)
    world.register(OTHER)
    world.run(14.875)
    assert world.listed()
    world.run(0.25)
    assert world.listed() is None
    assert world.departures[KEY] == [Departure.REMOVED]
    assert world.registrations.counters.extensions == 1
    assert world.count(Event.LEASES_EXTENDED) == 1


def test_after_a_suspension_a_lease_ends_one_lease_after_the_instance_listens(
    world: LeaseWorld,
) -> None:
    world.register()
    world.run(3)
    world.clock.suspend(3600)
    world.tick()
    assert world.mark() == {"STARTING", "STALLED"}
    world.run(1)
    world.register(OTHER)
    world.run(14.875)
    assert world.listed()
    world.run(0.25)
    assert world.listed() is None


def test_when_nobody_calls_after_a_stall_a_lease_ends_two_leases_after_it(
    world: LeaseWorld,
) -> None:
    world.register()
    stalled(world, 20)
    world.run(29.875)
    assert world.listed()
    assert world.mark() == {"STALLED"}
    world.run(0.25)
    assert world.listed() is None
    assert world.mark() == set()


def test_a_stall_never_shortens_a_lease(world: LeaseWorld) -> None:
    world.run(40)
    world.register()
    stalled(world, 6)
    world.register(OTHER)
    world.run(8.875)
    assert world.listed()
    world.run(6)
    assert world.listed()
    world.run(0.25)
    assert world.listed() is None


def test_a_call_that_notices_the_stall_before_the_tick_is_the_first_that_is_heard(
    world: LeaseWorld,
) -> None:
    lease = world.register()
    world.register(OTHER)
    world.clock.stop(60)
    assert world.renew(lease) == []
    assert world.mark() == {"STALLED"}, "the start was over in the meantime"
    world.run(14.875)
    assert world.listed()
    assert world.listed(OTHER)
    world.run(0.25)
    assert world.listed() is None
    assert world.listed(OTHER) is None


def test_whoever_drains_first_after_a_stall_sees_the_estimated_mark(world: LeaseWorld) -> None:
    world.register()
    world.run(40)
    assert world.mark() == set()
    world.clock.stop(6)
    assert world.mark() == {"STALLED"}


def test_a_withdrawal_is_no_sign_that_the_instance_listens(world: LeaseWorld) -> None:
    world.register()
    world.register(OTHER)
    world.run(10)
    stalled(world, 6)
    world.withdraw(OTHER)
    world.run(10)
    world.register(OTHER)
    world.run(14.875)
    assert world.listed()
    assert world.mark() == {"STALLED"}


def test_a_lease_that_had_ended_before_the_stall_is_not_extended(world: LeaseWorld) -> None:
    world.register()
    world.clock.advance(4)
    world.tick()
    world.clock.advance(4)
    world.tick()
    world.clock.advance(4)
    world.tick()
    world.clock.advance(3)
    world.tick()
    assert world.registrations.shares == 1, "at its end, not yet swept"
    stalled(world, 60)
    assert world.registrations.shares == 0


def test_a_lease_renewed_as_the_machine_falls_asleep_is_extended(world: LeaseWorld) -> None:
    world.register()
    world.clock.suspend(3600)
    world.tick()
    world.run(5)
    world.register(OTHER)
    world.run(14.875)
    assert world.listed()


def test_a_share_begun_after_the_stall_is_not_extended_for_it(world: LeaseWorld) -> None:
    world.clock.suspend(3600)
    world.register()
    world.run(15.25)
    assert world.listed() is None
    assert world.registrations.counters.extensions == 0


def test_a_renewal_after_the_stall_starts_a_lease_of_its_own(world: LeaseWorld) -> None:
    lease = world.register()
    stalled(world, 10)
    world.run(2)
    world.renew(lease)
    world.run(14.875)
    assert world.listed()
    world.run(0.25)
    assert world.listed() is None
    assert world.registrations.counters.extensions == 0


# -- several stalls ----------------------------------------------------------


def test_a_share_is_extended_three_times_and_then_ends(world: LeaseWorld) -> None:
    world.register()
    for _ in range(3):
        stalled(world, 14)
        world.register(OTHER)
    stalled(world, 14)
    world.register(OTHER)
    world.run(0.875)
    assert world.listed()
    assert world.registrations.counters.extensions == 3
    world.run(0.25)
    assert world.listed() is None


@pytest.mark.parametrize("seconds", [6.0, 14.0, 40.0])
def test_stalls_without_end_do_not_keep_a_pool_that_nobody_renews(
    world: LeaseWorld, seconds: float
) -> None:
    world.register()
    for _ in range(40):
        stalled(world, seconds)
        world.clock.advance(0.125)
        world.tick()
    assert world.listed() is None


def test_a_renewal_makes_three_further_extensions_possible(world: LeaseWorld) -> None:
    lease = world.register()
    for _ in range(4):
        for _ in range(3):
            stalled(world, 14)
            world.register(OTHER)
        assert world.renew(lease) == []
    assert world.listed()


def test_a_second_stall_before_the_first_call_protects_what_the_first_one_did(
    world: LeaseWorld,
) -> None:
    world.register()
    stalled(world, 14)
    world.run(2)
    stalled(world, 100)
    world.run(2)
    world.register(OTHER)
    world.run(14.875)
    assert world.listed()
    world.run(0.25)
    assert world.listed() is None


def test_stalls_that_end_in_the_same_call_are_one_extension(world: LeaseWorld) -> None:
    world.register()
    stalled(world, 6)
    stalled(world, 6)
    world.register(OTHER)
    world.run(15.25)
    assert world.listed() is None
    assert world.registrations.counters.extensions == 1


def test_an_old_stall_still_counts_for_a_lease_that_comes_due_after_a_long_one(
    world: LeaseWorld,
) -> None:
    """The first stall moved the lease's end past the begin of the second, which is very long."""
    world.register()
    stalled(world, 7)
    world.register(OTHER)
    for _ in range(8):
        world.clock.advance(1)
        world.tick()
    assert world.registrations.shares == 2
    stalled(world, 1000)
    world.run(1)
    world.register(OTHER)
    world.run(14.875)
    assert world.listed()
    world.run(0.25)
    assert world.listed() is None


def test_stalls_that_no_lease_depends_on_are_forgotten(world: LeaseWorld) -> None:
    for _ in range(200):
        stalled(world, 6)
        world.run(4)
        world.register()
    assert len(world.registrations._listening._phases) <= 20


def test_stalls_that_only_calls_noticed_count_for_a_lease_that_no_tick_looked_at(
    world: LeaseWorld,
) -> None:
    world.register()
    other = world.register(OTHER)
    for seconds in (6.0, 80.0, 80.0, 16.0):
        world.clock.stop(seconds)
        world.renew(other)
    # Extended to 21, 101 and 181 s, and not a fourth time.
    world.tick()
    assert world.listed() is None
