"""What is remembered of the last changes, for people."""

from global_discovery.domain.change import Departure
from global_discovery.domain.pool import Pool, PoolKey
from global_discovery.view import recent
from global_discovery.view.recent import Kind, RecentChanges
from global_discovery.view.view import View
from support.clock import EPOCH, FakeClock
from support.hand_source import HandSource, a_pool

KEY = PoolKey("c", "n", "pool")


def a_view(clock: FakeClock) -> tuple[HandSource, View[Pool], RecentChanges]:
    source, changes = HandSource(), RecentChanges(clock.wall)
    return source, View(source, value_changed=changes.note), changes


def test_each_change_is_told_with_its_kind_time_and_what_changed() -> None:
    clock = FakeClock()
    source, view, changes = a_view(clock)
    for step in (
        lambda: source.put(a_pool(KEY, model="one")),
        lambda: source.put(a_pool(KEY, model="two", region="elsewhere")),
        lambda: source.remove(KEY),
        lambda: source.put(a_pool(KEY, model="three")),
        lambda: source.unlist(KEY),
    ):
        step()
        view.refresh()
        clock.advance(1)
    told = [(change.at - EPOCH, change.kind, change.model, change.parts) for change in changes]
    assert told == [
        (4.0, Kind.UNLISTED, "three", ()),
        (3.0, Kind.ADDED, "three", ()),
        (2.0, Kind.REMOVED, "two", ()),
        (1.0, Kind.CHANGED, "two", ("model", "location")),
        (0.0, Kind.ADDED, "one", ()),
    ]


def test_a_departure_of_what_was_never_listed_is_no_change_to_people() -> None:
    source, view, changes = a_view(FakeClock())
    source.remove(KEY)
    view.refresh()
    assert view.sequence == 1
    assert list(changes) == []


def test_only_the_newest_are_kept() -> None:
    changes = RecentChanges(FakeClock().wall)
    for number in range(recent.KEPT + 5):
        key = PoolKey("c", "n", f"{number:06}")
        changes.note(key, None, a_pool(key), None)
    kept = list(changes)
    assert len(kept) == recent.KEPT
    assert kept[0].key.dgd_name == f"{recent.KEPT + 4:06}"


def test_a_pool_that_left_and_came_back_unseen_was_added() -> None:
    changes = RecentChanges(FakeClock().wall)
    before = a_pool(KEY)
    after = Pool(KEY, before.content, before.relays, before.registered_time + 1, 1.6e9)
    changes.note(KEY, before, after, None)
    changes.note(KEY, after, None, Departure.REMOVED)
    assert [change.kind for change in changes] == [Kind.REMOVED, Kind.ADDED]
