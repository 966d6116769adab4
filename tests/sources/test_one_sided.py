"""A pool that one side alone lists is told once, after a while in which that means something."""

import pytest

from global_discovery.domain.completeness import Mark, Reason
from global_discovery.domain.events import Event
from global_discovery.sources.joined.one_sided import OneSided, Side, patience
from support.hand_source import EXACT
from support.join_world import IN_SYNC, KEY, OUT_OF_SYNC, JoinWorld, keys


@pytest.fixture
def world() -> JoinWorld:
    return JoinWorld()


def told(world: JoinWorld) -> list[dict[str, object]]:
    world.view.refresh()
    return world.told(Event.POOL_ONE_SIDED)


@pytest.mark.parametrize(("lease", "seconds"), [(3, 30), (15, 30), (60, 120), (86_400, 600)])
def test_it_waits_two_leases_within_limits(lease: int, seconds: int) -> None:
    assert patience(lease) == seconds
    world = JoinWorld(lease_duration=lease)
    world.register(KEY)
    world.view.refresh()
    world.run(seconds - 0.25)
    assert not told(world)
    world.run(0.5)
    assert len(told(world)) == 1


def test_a_pool_that_is_registered_only_is_told_with_its_likely_causes(world: JoinWorld) -> None:
    world.register(KEY)
    world.view.refresh()
    world.run(31)
    (fields,) = told(world)
    assert (fields["pool"], fields["listed_by"]) == ("c1/ns/pool", "registration")
    assert "cluster_id may not be" in fields["message"]
    assert "not exported" in fields["message"]


def test_a_pool_that_slices_show_only_is_told_with_its_likely_causes(world: JoinWorld) -> None:
    world.show(KEY)
    world.view.refresh()
    world.run(31)
    (fields,) = told(world)
    assert (fields["pool"], fields["listed_by"]) == ("c1/ns/pool", "slices")
    assert "lapsed" in fields["message"]
    assert "do not register here with this key" in fields["message"]


def test_slices_without_a_relay_are_not_a_side(world: JoinWorld) -> None:
    world.show(KEY, relays=())
    world.view.refresh()
    world.run(100)
    assert not told(world)


def test_a_pool_is_told_once_whatever_is_read_relisted_or_renewed(world: JoinWorld) -> None:
    world.register(KEY)
    for number in range(100):
        world.register(KEY, model=f"m{number}")
        world.show(KEY, relays=(), frontend_slices=number)
        world.listed()
        world.run(1)
    assert len(told(world)) == 1


def test_the_clock_runs_on_across_a_cut_and_a_relist_but_not_while_out_of_sync(
    world: JoinWorld,
) -> None:
    world.register(KEY)
    world.view.refresh()
    world.run(20)
    world.slices.say(OUT_OF_SYNC)
    world.view.refresh()
    world.run(300)
    assert not told(world)
    world.slices.say(IN_SYNC)
    world.show(keys(1)[0])
    world.view.refresh()
    world.run(9.75)
    assert not told(world)
    world.run(0.5)
    assert [fields["pool"] for fields in told(world)] == ["c1/ns/pool"]


@pytest.mark.parametrize(
    "reason", [Reason.STARTING, Reason.STORE_UNREADABLE, Reason.REGION_SILENT], ids=str
)
def test_time_in_which_registrations_may_be_missed_does_not_count(
    world: JoinWorld, reason: Reason
) -> None:
    world.registrations.say(Mark(frozenset({reason}), bound=1.0))
    world.show(KEY)
    world.view.refresh()
    world.run(100)
    assert not told(world)
    world.registrations.say(EXACT)
    world.view.refresh()
    world.run(31)
    assert len(told(world)) == 1


def test_the_time_up_to_a_change_of_the_mark_counts_as_the_mark_was() -> None:
    told: list[object] = []
    one_sided = OneSided(
        lease_duration=15, now=0.0, report=lambda _, **fields: told.append(fields["pool"])
    )
    one_sided.put(KEY, Side.REGISTRATION)
    for second in range(61):
        one_sided.follow(IN_SYNC, synced=True, now=second)
        one_sided.follow(OUT_OF_SYNC, synced=True, now=second + 0.5)
        one_sided.tick(second + 0.5)
        assert bool(told) is (second >= 59)


def test_nothing_counts_before_the_first_sync(world: JoinWorld) -> None:
    world.slices.say(IN_SYNC, synced=False)
    world.register(KEY)
    world.view.refresh()
    world.run(100)
    assert not told(world)


def test_time_in_which_the_process_stood_still_does_not_count(world: JoinWorld) -> None:
    world.register(KEY)
    world.view.refresh()
    world.clock.stop(500)
    world.run(20)
    assert not told(world)


@pytest.mark.parametrize("between", ["joined", "gone"])
def test_the_next_time_is_a_new_one_with_a_clock_of_its_own(world: JoinWorld, between: str) -> None:
    world.register(KEY)
    world.view.refresh()
    world.run(31)
    if between == "joined":
        world.show(KEY)
        world.view.refresh()
        world.hide(KEY)
    else:
        world.withdraw(KEY)
        world.view.refresh()
        world.register(KEY)
    world.view.refresh()
    world.run(29)
    assert len(told(world)) == 1
    world.run(2)
    assert len(told(world)) == 2


def test_a_pool_that_changes_sides_begins_anew(world: JoinWorld) -> None:
    world.register(KEY)
    world.view.refresh()
    world.run(20)
    world.withdraw(KEY)
    world.show(KEY)
    world.view.refresh()
    world.run(20)
    assert not told(world)
    world.run(11)
    assert [fields["listed_by"] for fields in told(world)] == ["slices"]


def test_a_held_pool_is_on_both_sides(world: JoinWorld) -> None:
    world.agree(*keys(5))
    world.hide(*keys(5))
    world.view.refresh()
    world.run(31)
    assert {fields["pool"] for fields in told(world)} == {str(key) for key in keys(4)}
    world.run(10)
    assert len(told(world)) == 5


def test_many_at_once_are_told_in_portions_each_once(world: JoinWorld) -> None:
    world.register(*keys(70))
    world.view.refresh()
    world.run(30)
    assert 0 < len(told(world)) <= 20
    world.run(1)
    assert sorted(fields["pool"] for fields in told(world)) == [str(key) for key in keys(70)]


def test_those_that_were_told_are_counted_by_side_while_it_lasts(world: JoinWorld) -> None:
    registered, shown = keys(2), keys(3, "c2")
    world.register(*registered)
    world.show(*shown)
    world.view.refresh()
    assert world.join.one_sided.counts() == {Side.REGISTRATION: 0, Side.SLICES: 0}
    world.run(31)
    assert world.join.one_sided.counts() == {Side.REGISTRATION: 2, Side.SLICES: 3}
    world.hide(*shown)
    world.view.refresh()
    assert world.join.one_sided.counts() == {Side.REGISTRATION: 2, Side.SLICES: 0}


def test_a_stall_of_the_registrations_does_not_stop_the_clock(world: JoinWorld) -> None:
    world.registrations.say(Mark(frozenset({Reason.STALLED}), bound=1.0))
    world.register(KEY)
    world.view.refresh()
    world.run(31)
    assert len(told(world)) == 1
