"""Positions, history, and what a reader of any position is told."""

import pytest

from global_discovery.domain.completeness import Mark, Reason
from global_discovery.domain.pool import Pool
from global_discovery.view.filters import EVERYTHING, PoolFilter
from global_discovery.view.position import BadPosition, Position
from global_discovery.view.view import Delta, HistoryLimits, View
from support.hand_source import ESTIMATED, EXACT, HandSource, a_pool
from support.pools import pool_key

A = PoolFilter(models=frozenset({"a"}))
ONE, TWO = pool_key(1), pool_key(2)


@pytest.fixture
def source() -> HandSource:
    return HandSource()


@pytest.fixture
def view(source: HandSource) -> View[Pool]:
    view: View[Pool] = View(source)
    view.refresh()
    return view


def since(view: View[Pool], sequence: int, wanted: PoolFilter = EVERYTHING) -> Delta[Pool]:
    view.refresh()
    delta = view.since(sequence, wanted)
    assert delta is not None
    return delta


def test_each_change_gets_the_next_position(source: HandSource, view: View[Pool]) -> None:
    start = view.sequence
    source.put(a_pool(ONE), a_pool(TWO))
    assert view.refresh()
    assert view.sequence == start + 2


def test_a_refresh_without_news_moves_nothing(view: View[Pool]) -> None:
    start = view.sequence
    assert not view.refresh()
    assert view.sequence == start


def test_a_change_of_the_mark_alone_is_a_position(source: HandSource, view: View[Pool]) -> None:
    start = view.sequence
    source.say(ESTIMATED)
    assert view.refresh()
    assert since(view, start) == Delta(start + 1, ESTIMATED, (), (), (), 0)


def test_a_change_of_the_reasons_alone_is_a_position(source: HandSource, view: View[Pool]) -> None:
    source.say(ESTIMATED)
    view.refresh()
    start = view.sequence
    source.say(Mark(frozenset({Reason.STALLED}), bound=1.0))
    assert view.refresh()
    assert view.sequence == start + 1


def test_the_change_of_a_mark_is_reported_once(source: HandSource) -> None:
    told: list[Mark] = []
    view: View[Pool] = View(source, mark_changed=told.append)
    view.refresh()
    source.put(a_pool(ONE))
    view.refresh()
    source.say(ESTIMATED)
    view.refresh()
    view.refresh()
    assert told == [EXACT, ESTIMATED]


def test_a_snapshot_is_sorted_by_key_whatever_came_first(
    source: HandSource, view: View[Pool]
) -> None:
    keys = [pool_key(number) for number in (5, 1, 9, 3)]
    source.put(*map(a_pool, keys))
    source.remove(pool_key(1))
    view.refresh()
    shown = [entry.value.key for entry in view.snapshot(EVERYTHING).entries]
    assert shown == [pool_key(3), pool_key(5), pool_key(9)]


def test_a_snapshot_in_hand_does_not_change(source: HandSource, view: View[Pool]) -> None:
    source.put(a_pool(ONE))
    view.refresh()
    snapshot = view.snapshot(EVERYTHING)
    source.put(a_pool(ONE, model="other"), a_pool(TWO))
    view.refresh()
    assert [entry.value for entry in snapshot.entries] == [a_pool(ONE)]


def test_readers_of_one_position_and_filter_share_a_snapshot(
    source: HandSource, view: View[Pool]
) -> None:
    source.put(a_pool(ONE))
    view.refresh()
    again = PoolFilter(models=frozenset({"a"}))
    assert view.snapshot(A) is view.snapshot(again)


def test_the_kept_snapshots_of_many_filters_are_bounded(
    source: HandSource, view: View[Pool]
) -> None:
    source.put(a_pool(ONE))
    view.refresh()
    for number in range(600):
        view.snapshot(PoolFilter(models=frozenset({str(number)})))
    assert len(view._snapshots) <= 256


def test_changes_of_one_key_are_merged_and_counted(source: HandSource, view: View[Pool]) -> None:
    start = view.sequence
    for model in ("a", "b", "c"):
        source.put(a_pool(ONE, model=model), a_pool(TWO))
        view.refresh()
    delta = since(view, start)
    assert [entry.value for entry in delta.entries] == [a_pool(ONE, model="c"), a_pool(TWO)]
    assert delta.merged == 4


def test_a_pool_that_came_and_went_is_not_told_while_the_view_is_exact(
    source: HandSource, view: View[Pool]
) -> None:
    start = view.sequence
    source.put(a_pool(ONE))
    view.refresh()
    source.remove(ONE)
    delta = since(view, start)
    assert (delta.entries, delta.removed, delta.unlisted) == ((), (), ())


@pytest.mark.parametrize("seen", [True, False])
def test_a_pool_that_came_and_went_is_told_as_removed_while_the_view_is_estimated(
    source: HandSource, view: View[Pool], *, seen: bool
) -> None:
    source.say(ESTIMATED)
    view.refresh()
    start = view.sequence
    source.put(a_pool(ONE))
    if seen:
        view.refresh()
    source.remove(ONE)
    assert since(view, start).removed == (ONE,)


@pytest.mark.parametrize("seen", [True, False])
def test_a_withdrawal_in_an_exact_moment_that_was_never_seen_is_told(
    source: HandSource, view: View[Pool], *, seen: bool
) -> None:
    """The reader still carries what that moment would have dropped."""
    source.say(ESTIMATED)
    view.refresh()
    start = view.sequence
    source.say(EXACT)
    view.refresh()
    source.put(a_pool(ONE))
    if seen:
        view.refresh()
    source.remove(ONE)
    view.refresh()
    source.say(ESTIMATED)
    assert since(view, start).removed == (ONE,)


def test_a_withdrawal_in_an_estimated_moment_is_told_in_an_exact_one_too(
    source: HandSource, view: View[Pool]
) -> None:
    """Who carries it from another server does not drop it for this one's mark at once."""
    source.say(ESTIMATED)
    view.refresh()
    start = view.sequence
    source.put(a_pool(ONE))
    view.refresh()
    source.remove(ONE)
    view.refresh()
    source.say(EXACT)
    assert since(view, start).removed == (ONE,)


def test_an_unlisted_pool_that_came_and_went_is_not_told(
    source: HandSource, view: View[Pool]
) -> None:
    """Whoever carries it goes on carrying it."""
    source.say(ESTIMATED)
    view.refresh()
    start = view.sequence
    source.put(a_pool(ONE))
    view.refresh()
    source.unlist(ONE)
    delta = since(view, start)
    assert (delta.removed, delta.unlisted) == ((), ())


def test_the_last_departure_of_a_listed_pool_counts(source: HandSource, view: View[Pool]) -> None:
    source.put(a_pool(ONE), a_pool(TWO))
    view.refresh()
    start = view.sequence
    source.remove(ONE)
    source.unlist(TWO)
    view.refresh()
    source.put(a_pool(ONE), a_pool(TWO))
    view.refresh()
    source.unlist(ONE)
    source.remove(TWO)
    delta = since(view, start)
    assert (delta.removed, delta.unlisted) == ((TWO,), (ONE,))


class TestFilters:
    def test_a_pool_that_begins_to_match_enters(self, source: HandSource, view: View[Pool]) -> None:
        source.put(a_pool(ONE, model="b"))
        view.refresh()
        start = view.sequence
        source.put(a_pool(ONE, model="a"))
        assert [entry.value.key for entry in since(view, start, A).entries] == [ONE]

    def test_a_pool_that_no_longer_matches_is_removed(
        self, source: HandSource, view: View[Pool]
    ) -> None:
        source.put(a_pool(ONE, model="a"))
        view.refresh()
        start = view.sequence
        source.put(a_pool(ONE, model="b"))
        assert since(view, start, A).removed == (ONE,)

    def test_other_pools_are_not_named_while_the_view_is_exact(
        self, source: HandSource, view: View[Pool]
    ) -> None:
        start = view.sequence
        source.put(a_pool(ONE, model="b"))
        view.refresh()
        source.remove(ONE)
        delta = since(view, start, A)
        assert (delta.entries, delta.removed, delta.unlisted) == ((), (), ())

    def test_other_pools_that_enter_are_told_as_removed_while_the_view_is_estimated(
        self, source: HandSource, view: View[Pool]
    ) -> None:
        source.say(ESTIMATED)
        view.refresh()
        start = view.sequence
        source.put(a_pool(ONE, model="b"))
        assert since(view, start, A).removed == (ONE,)

    def test_what_was_unlisted_with_another_content_no_longer_matched(
        self, source: HandSource, view: View[Pool]
    ) -> None:
        source.put(a_pool(ONE, model="a"))
        view.refresh()
        start = view.sequence
        source.put(a_pool(ONE, model="b"))
        view.refresh()
        source.unlist(ONE)
        delta = since(view, start, A)
        assert (delta.removed, delta.unlisted) == ((ONE,), ())

    def test_an_unlisted_pool_of_another_filter_is_not_named(
        self, source: HandSource, view: View[Pool]
    ) -> None:
        source.put(a_pool(ONE, model="b"))
        view.refresh()
        start = view.sequence
        source.unlist(ONE)
        delta = since(view, start, A)
        assert (delta.removed, delta.unlisted) == ((), ())


class TestHistory:
    def test_it_keeps_at_least_as_many_changes_as_asked_and_at_most_twice_as_many(
        self, source: HandSource
    ) -> None:
        view: View[Pool] = View(source, limits=HistoryLimits(20))
        kept = []
        for number in range(100):
            source.put(a_pool(ONE, model=str(number)))
            view.refresh()
            kept.append(view.history)
        assert min(kept[10:]) >= 10
        assert max(kept) <= 20
        assert view.sequence == 100

    def test_large_values_are_forgotten_before_there_are_many(self, source: HandSource) -> None:
        limits = HistoryLimits(size=64 * 1024)
        view: View[Pool] = View(source, weigh=lambda _: 1024, limits=limits)
        kept = []
        for number in range(500):
            source.put(a_pool(ONE, model=str(number)))
            view.refresh()
            kept.append(view.history)
        assert 20 <= min(kept[30:]) <= max(kept) <= 64

    def test_what_it_forgot_cannot_be_continued(self, source: HandSource) -> None:
        view: View[Pool] = View(source, limits=HistoryLimits(4))
        view.refresh()
        start = view.sequence
        for number in range(20):
            source.put(a_pool(ONE, model=str(number)))
            view.refresh()
        assert view.since(start, EVERYTHING) is None
        oldest = view.sequence - view.history
        assert view.since(oldest - 1, EVERYTHING) is None
        assert view.since(oldest, EVERYTHING) is not None

    def test_a_future_point_cannot_be_continued(self, view: View[Pool]) -> None:
        assert view.since(view.sequence + 1, EVERYTHING) is None
        assert view.since(view.sequence, EVERYTHING) is not None


class TestResuming:
    def test_a_position_of_this_process_and_filter_is_honoured(self, view: View[Pool]) -> None:
        again = PoolFilter(models=frozenset(["a"]))
        assert view.resume(view.position(7, A), again) == 7

    def test_a_position_of_another_filter_is_not(self, view: View[Pool]) -> None:
        assert view.resume(view.position(7, A), EVERYTHING) is None

    def test_a_position_of_another_process_is_not(self, view: View[Pool]) -> None:
        other: View[Pool] = View(HandSource())
        assert view.resume(other.position(7, A), A) is None

    def test_a_damaged_position_is_the_callers_mistake(self, view: View[Pool]) -> None:
        with pytest.raises(BadPosition):
            view.resume(view.position(7, A)[:-1], A)

    def test_two_views_have_different_processes(self) -> None:
        assert View(HandSource()).process != View(HandSource()).process

    def test_a_position_says_which_point_it_is(self, view: View[Pool]) -> None:
        expected = Position(view.process, A.fingerprint, 12)
        assert view.position(12, A) == expected.encode()
