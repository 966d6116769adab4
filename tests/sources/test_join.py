"""The join: a pool is listed where both sides agree, and leaves as whoever knows it says."""

import pytest

from global_discovery.domain.change import Departure
from global_discovery.domain.completeness import Mark, Reason
from global_discovery.domain.pool import PoolKey
from global_discovery.view.filters import PoolFilter
from support.hand_source import EXACT
from support.join_world import (
    FRONTENDS,
    IN_SYNC,
    KEY,
    OUT_OF_SYNC,
    RELAYS,
    STARTING,
    JoinWorld,
    keys,
)

ALL = PoolFilter()
OTHER_RELAYS = ("ip:10.1.0.9",)


@pytest.fixture
def world() -> JoinWorld:
    return JoinWorld()


# -- what is listed ----------------------------------------------------------


def test_a_pool_is_listed_only_when_both_sides_have_it(world: JoinWorld) -> None:
    only_registered, only_shown, both = keys(3)
    world.register(only_registered, both)
    world.show(only_shown, both)
    assert list(world.listed()) == [both]


@pytest.mark.parametrize("first", ["registration", "slices"])
def test_the_side_that_comes_second_brings_the_pool(world: JoinWorld, first: str) -> None:
    steps = [lambda: world.register(KEY), lambda: world.show(KEY)]
    if first == "slices":
        steps.reverse()
    steps[0]()
    assert not world.changes()
    steps[1]()
    assert list(world.changes()) == [KEY]


def test_the_slices_give_the_addresses_and_the_registration_the_rest(world: JoinWorld) -> None:
    world.register(KEY, model="a/b", region="r7")
    world.show(KEY)
    pool = world.listed()[KEY]
    assert (pool.content.model, pool.content.location.region) == ("a/b", "r7")
    assert (pool.relays, pool.content.frontends) == (RELAYS, FRONTENDS)


def test_frontends_without_a_relay_are_no_pool(world: JoinWorld) -> None:
    world.register(KEY)
    world.show(KEY, relays=())
    assert not world.listed()


def test_a_live_pool_without_frontends_is_listed_without_any(world: JoinWorld) -> None:
    world.register(KEY)
    world.show(KEY, frontends=())
    assert world.listed()[KEY].content.frontends == ()


def test_changes_of_both_sides_are_one_change_with_both(world: JoinWorld) -> None:
    world.agree(KEY)
    before = world.view.sequence
    world.register(KEY, model="new")
    world.show(KEY, relays=OTHER_RELAYS, frontends=("http://10.1.0.9:1",))
    pool = world.changes()[KEY]
    assert world.view.sequence == before + 1
    assert pool.content.model == "new"
    assert (pool.relays, pool.content.frontends) == (OTHER_RELAYS, ("http://10.1.0.9:1",))


def test_what_a_registration_says_of_addresses_changes_nothing(world: JoinWorld) -> None:
    world.agree(KEY)
    world.register(KEY)  # the hand source tells it again, with another changed_time
    world.show(KEY, frontend_slices=7)
    assert not world.changes()


def test_a_pool_keeps_the_time_at_which_it_entered_and_tells_when_it_changed(
    world: JoinWorld,
) -> None:
    world.register(KEY)
    world.run(5)
    entered = world.clock.wall()
    world.show(KEY)
    pool = world.listed()[KEY]
    assert (pool.registered_time, pool.changed_time) == (entered, entered)
    world.run(5)
    world.show(KEY, relays=OTHER_RELAYS)
    pool = world.listed()[KEY]
    assert (pool.registered_time, pool.changed_time) == (entered, entered + 5)


@pytest.mark.parametrize("side", ["registration", "slices"])
def test_a_pool_that_comes_back_has_entered_anew(world: JoinWorld, side: str) -> None:
    world.agree(KEY)
    world.withdraw(KEY) if side == "registration" else world.hide(KEY)
    assert not world.listed()
    world.run(5)
    world.register(KEY)
    world.show(KEY)
    assert world.listed()[KEY].registered_time == world.clock.wall()


def test_a_registration_that_ended_and_began_unseen_has_entered_anew(world: JoinWorld) -> None:
    world.agree(KEY)
    world.run(5)
    world.re_register(KEY)
    assert world.listed()[KEY].registered_time == world.clock.wall()


# -- how a pool leaves -------------------------------------------------------


def test_a_lapse_drops_a_pool_that_the_slices_still_show_and_its_return_lists_it(
    world: JoinWorld,
) -> None:
    world.agree(KEY)
    world.withdraw(KEY)
    assert world.changes() == {KEY: Departure.REMOVED}
    world.register(KEY)
    assert list(world.listed()) == [KEY]


def test_a_pool_that_lapses_in_doubt_is_unlisted(world: JoinWorld) -> None:
    world.agree(KEY)
    world.unlist(KEY)
    assert world.changes() == {KEY: Departure.UNLISTED}


@pytest.mark.parametrize("gone", ["deleted", "without a Ready relay"])
def test_a_pool_that_the_slices_no_longer_show_is_removed(world: JoinWorld, gone: str) -> None:
    world.agree(KEY)
    world.hide(KEY) if gone == "deleted" else world.show(KEY, relays=())
    assert world.changes() == {KEY: Departure.REMOVED}


@pytest.mark.parametrize("together", [True, False])
def test_slices_that_go_are_known_also_of_a_pool_that_lapsed_in_doubt(
    world: JoinWorld, *, together: bool
) -> None:
    world.agree(KEY)
    world.unlist(KEY)
    if not together:
        assert world.changes() == {KEY: Departure.UNLISTED}
    world.hide(KEY)
    assert world.changes() == {KEY: Departure.REMOVED}


def test_a_lapse_in_doubt_does_not_take_back_what_the_slices_made_known(world: JoinWorld) -> None:
    world.agree(KEY)
    place = world.view.sequence
    world.hide(KEY)
    world.view.refresh()
    world.unlist(KEY)
    world.view.refresh()
    delta = world.view.since(place, ALL)
    assert (delta.removed, delta.unlisted) == ((KEY,), ())


def test_losing_frontends_only_is_no_departure_and_a_lapse_in_doubt_beside_it_stays_one(
    world: JoinWorld,
) -> None:
    world.agree(KEY)
    world.show(KEY, frontends=())
    world.unlist(KEY)
    assert world.changes() == {KEY: Departure.UNLISTED}


@pytest.mark.parametrize("estimated", [True, False])
def test_a_withdrawal_of_a_pool_that_left_by_its_slices_is_told_while_in_doubt(
    world: JoinWorld, *, estimated: bool
) -> None:
    """A router may carry it from another server, which knew it before its slices went."""
    world.agree(KEY)
    world.hide(KEY)
    world.view.refresh()
    if estimated:
        world.registrations.say(STARTING)
        world.view.refresh()
    place = world.view.sequence
    world.withdraw(KEY)
    world.view.refresh()
    delta = world.view.since(place, ALL)
    assert delta.removed == ((KEY,) if estimated else ())


def test_a_relist_that_drops_a_joined_pool_removes_it_and_it_is_then_one_sided(
    world: JoinWorld,
) -> None:
    kept, gone = keys(2)
    world.agree(kept, gone)
    world.hide(gone)
    world.show(kept)
    assert world.changes() == {gone: Departure.REMOVED}
    world.run(31)
    assert list(world.join.one_sided.told) == [gone]


# -- marks and sync ----------------------------------------------------------


def test_the_mark_is_that_of_both_sides_with_both_bounds(world: JoinWorld) -> None:
    assert (world.reasons(), world.view.mark.bound, world.view.mark.slices_bound) == (set(), 1, 90)
    world.registrations.say(Mark(frozenset({Reason.STALLED}), bound=3.0))
    world.slices.say(OUT_OF_SYNC)
    assert world.reasons() == {"STALLED", "SOURCE_UNSYNCED"}
    assert (world.view.mark.bound, world.view.mark.slices_bound) == (3, 90)


def test_before_the_first_sync_a_list_has_what_both_sides_showed_and_is_estimated() -> None:
    world = JoinWorld()
    world.slices.say(OUT_OF_SYNC, synced=False)
    world.register(*keys(3))
    world.show(*keys(2))
    assert list(world.listed()) == keys(2)
    assert not world.view.synced
    assert world.reasons() == {"SOURCE_UNSYNCED"}
    world.slices.say(IN_SYNC)
    assert world.reasons() == set()
    assert world.view.synced


@pytest.mark.parametrize("missing", ["registrations", "slices"])
def test_the_join_is_synced_when_both_sides_are(world: JoinWorld, missing: str) -> None:
    side = getattr(world, missing)
    side.say(STARTING if side is world.registrations else OUT_OF_SYNC, synced=False)
    world.view.refresh()
    assert not world.view.synced
    side.say(EXACT if side is world.registrations else IN_SYNC)
    world.view.refresh()
    assert world.view.synced


def test_while_out_of_sync_registrations_come_and_go_against_the_last_state(
    world: JoinWorld,
) -> None:
    lapsing, withdrawn, returning, changed, never_shown = keys(5)
    world.agree(lapsing, withdrawn, changed)
    world.show(returning)
    world.view.refresh()
    world.slices.say(OUT_OF_SYNC)
    world.unlist(lapsing)
    world.withdraw(withdrawn)
    world.register(returning, never_shown)
    world.register(changed, model="new")
    changes = world.changes()
    assert changes[lapsing] is Departure.UNLISTED
    assert changes[withdrawn] is Departure.REMOVED
    assert set(world.listed()) == {returning, changed}
    assert world.listed()[changed].content.model == "new"


def test_both_sides_wake_the_reader(world: JoinWorld) -> None:
    woken = world.woken
    world.register(KEY)
    assert world.woken == woken + 1
    world.show(PoolKey("c9", "ns", "p"))
    assert world.woken == woken + 2
