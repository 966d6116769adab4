"""A reader's scope is part of its filter: what is outside is neither listed nor named."""

from global_discovery.domain.access import Grant, Scope
from global_discovery.domain.pool import PoolKey
from global_discovery.view.filters import EVERYTHING, PoolFilter
from global_discovery.view.view import View
from support.hand_source import ESTIMATED, HandSource, a_pool

OWN, OTHER = PoolKey("east", "models", "own"), PoolKey("west", "models", "other")
WITHIN = PoolFilter(scope=Scope(frozenset({Grant(("east",))})))


def a_view(source: HandSource) -> View:
    view = View(source)
    view.refresh()
    return view


def test_a_snapshot_has_only_what_is_within_the_scope() -> None:
    source = HandSource()
    source.put(a_pool(OWN), a_pool(OTHER))
    view = a_view(source)
    assert [entry.value.key for entry in view.snapshot(WITHIN).entries] == [OWN]
    assert [entry.value.key for entry in view.snapshot(EVERYTHING).entries] == [OWN, OTHER]


def test_no_change_outside_the_scope_is_named_also_while_the_view_is_estimated() -> None:
    source = HandSource(mark=ESTIMATED)
    view = a_view(source)
    began = view.sequence
    source.put(a_pool(OTHER))
    view.refresh()
    source.remove(OTHER)
    source.unlist(PoolKey("west", "models", "another"))
    view.refresh()
    told = view.since(began, WITHIN)
    assert told is not None
    assert (told.entries, told.removed, told.unlisted) == ((), (), ())
    everyone = view.since(began, EVERYTHING)
    assert everyone is not None
    assert everyone.removed == (OTHER,)


def test_what_the_filter_has_no_place_for_is_still_told_within_the_scope() -> None:
    source = HandSource(mark=ESTIMATED)
    view = a_view(source)
    began = view.sequence
    source.put(a_pool(OWN, model="unwanted"), a_pool(OTHER, model="unwanted"))
    view.refresh()
    told = view.since(began, PoolFilter(models=frozenset({"m"}), scope=WITHIN.scope))
    assert told is not None
    assert told.removed == (OWN,)


def test_a_position_of_another_scope_is_not_continued() -> None:
    view = a_view(HandSource())
    assert view.resume(view.position(0, EVERYTHING), WITHIN) is None
    assert view.resume(view.position(0, WITHIN), EVERYTHING) is None
    assert view.resume(view.position(0, WITHIN), WITHIN) == 0
