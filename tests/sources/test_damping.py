"""Pools that lose their addresses together keep them for at most ten seconds."""

import pytest

from global_discovery.domain.change import Departure
from global_discovery.sources.joined import join as join_module
from support.join_world import FRONTENDS, RELAYS, JoinWorld, keys

OTHER = "http://10.1.0.99:8000"


@pytest.fixture
def world() -> JoinWorld:
    """Ten pools, all listed."""
    world = JoinWorld()
    world.agree(*keys(10))
    return world


def test_the_first_four_show_their_loss_at_once_and_the_rest_are_held(world: JoinWorld) -> None:
    world.hide(*keys(10))
    assert world.changes() == dict.fromkeys(keys(4), Departure.REMOVED)
    assert list(world.listed()) == keys(10)[4:]
    assert world.reasons() == {"DAMPED"}
    assert world.join.held == 6


def test_losses_one_by_one_count_like_those_of_a_relist(world: JoinWorld) -> None:
    for key in keys(10):
        world.hide(key)
        world.run(0.5)
        world.view.refresh()
    assert list(world.listed()) == keys(10)[4:]


@pytest.mark.parametrize(
    ("relays", "frontends"), [((), FRONTENDS), (RELAYS, ()), ((), ())], ids=["relays", "fr", "both"]
)
def test_held_pools_keep_relays_and_frontends_whichever_they_lost(
    world: JoinWorld, relays: tuple[str, ...], frontends: tuple[str, ...]
) -> None:
    before = world.listed()
    world.show(*keys(10), relays=relays, frontends=frontends)
    after = world.listed()
    assert all(after[key] == before[key] for key in keys(10)[4:])
    for key in keys(4):
        assert (key in after) is bool(relays)
        assert not relays or after[key].content.frontends == ()


def test_a_hold_ends_ten_seconds_after_the_loss_and_the_mark_with_it(world: JoinWorld) -> None:
    world.hide(*keys(10))
    world.view.refresh()
    world.run(9.875)
    assert list(world.listed()) == keys(10)[4:]
    world.run(0.125)
    assert not world.listed()
    assert world.reasons() == set()
    assert world.join.held == 0


def test_a_hold_of_lost_frontends_ends_in_a_pool_without_any(world: JoinWorld) -> None:
    world.show(*keys(10), frontends=())
    world.view.refresh()
    world.run(10)
    assert {pool.content.frontends for pool in world.listed().values()} == {()}
    assert len(world.listed()) == 10


def test_a_pool_that_returns_in_time_causes_no_event(world: JoinWorld) -> None:
    world.hide(*keys(10))
    world.view.refresh()
    world.run(5)
    world.show(*keys(10)[4:])
    assert world.changes() == {}
    assert world.reasons() == set()
    world.run(20)
    assert list(world.listed()) == keys(10)[4:]


def test_a_pool_that_returns_changed_shows_the_change_at_once(world: JoinWorld) -> None:
    world.hide(*keys(10))
    world.view.refresh()
    world.show(keys(10)[9], frontends=(OTHER,))
    assert world.listed()[keys(10)[9]].content.frontends == (OTHER,)
    assert world.join.held == 5


def test_a_pool_that_returns_in_part_stays_held_and_the_time_of_its_loss_counts(
    world: JoinWorld,
) -> None:
    last = keys(10)[9]
    world.hide(*keys(10))
    world.view.refresh()
    world.run(6)
    world.show(last, frontends=())
    assert world.changes() == {}
    world.hide(last)
    assert world.changes() == {}
    world.run(4)
    assert not world.listed()


@pytest.mark.parametrize("kind", [Departure.REMOVED, Departure.UNLISTED])
def test_a_lapse_or_withdrawal_ends_a_hold_at_once_and_as_the_registration_left(
    world: JoinWorld, kind: Departure
) -> None:
    held = keys(10)[7]
    world.hide(*keys(10))
    world.view.refresh()
    world.registrations.remove(held, departure=kind)
    assert world.changes() == {held: kind}
    assert world.join.held == 5
    world.register(held)
    assert held not in world.listed()


def test_a_hold_does_not_outlive_a_lapse_that_a_new_registration_overtook(
    world: JoinWorld,
) -> None:
    held = keys(10)[7]
    world.hide(*keys(10))
    world.view.refresh()
    world.run(1)
    world.re_register(held)
    assert world.changes() == {held: Departure.REMOVED}


def test_a_held_pool_shows_changes_of_its_registration(world: JoinWorld) -> None:
    held = keys(10)[7]
    world.hide(*keys(10))
    world.view.refresh()
    world.register(held, model="new")
    assert world.listed()[held].content.model == "new"
    assert world.listed()[held].relays == RELAYS


def test_losses_ten_seconds_apart_are_all_shown_at_once(world: JoinWorld) -> None:
    for key in keys(4):
        world.hide(key)
        world.view.refresh()
    world.run(10)
    world.hide(*keys(8))
    assert world.changes() == dict.fromkeys(keys(8)[4:], Departure.REMOVED)
    world.hide(keys(10)[8])
    assert world.changes() == {}


def test_each_cluster_has_its_own_four(world: JoinWorld) -> None:
    others = keys(6, "c2")
    world.agree(*others)
    world.hide(*keys(10), *others)
    assert set(world.changes()) == {*keys(4), *others[:4]}


def test_a_pool_that_flaps_alone_is_never_held(world: JoinWorld) -> None:
    flapping = keys(1)[0]
    for _ in range(10):
        world.hide(flapping)
        assert world.changes() == {flapping: Departure.REMOVED}
        world.show(flapping)
        assert list(world.changes()) == [flapping]


def test_what_a_pool_lost_itself_does_not_count_against_it(world: JoinWorld) -> None:
    first = keys(1)[0]
    world.hide(*keys(4))
    world.view.refresh()
    world.show(first)
    world.view.refresh()
    world.hide(first)
    assert world.changes() == {first: Departure.REMOVED}


def test_pools_that_are_not_registered_are_neither_held_nor_counted(world: JoinWorld) -> None:
    strangers = keys(20)[10:]
    world.show(*strangers)
    world.view.refresh()
    world.hide(*strangers)
    world.view.refresh()
    world.withdraw(*keys(10)[5:])
    world.hide(*keys(10)[5:])
    world.view.refresh()
    world.hide(*keys(5))
    assert set(world.changes()) == set(keys(4))


def test_many_holds_that_end_together_end_in_portions_and_the_mark_with_the_last(
    world: JoinWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_module, "HOLDS_A_DRAIN", 2)
    world.hide(*keys(10))
    world.view.refresh()
    world.clock.advance(10)
    seen = []
    while world.join.held:
        world.view.refresh()
        seen.append((len(world.view), "DAMPED" in {r.value for r in world.view.mark.reasons}))
    assert seen == [(4, True), (2, True), (0, False)]


def test_a_mark_is_never_exact_while_a_pool_is_held(world: JoinWorld) -> None:
    marks = []
    world.hide(*keys(10))
    for _ in range(30):
        marks.append((bool(world.reasons()), world.join.held > 0))
        world.run(0.5)
    assert {estimated == held for estimated, held in marks} == {True}
    assert {held for _, held in marks} == {True, False}
