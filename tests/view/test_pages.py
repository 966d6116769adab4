"""Paged lists: one position for all pages, for a minute."""

import pytest

from global_discovery.domain.errors import InvalidInput, PositionGone
from global_discovery.domain.pool import Pool
from global_discovery.view.filters import EVERYTHING, PoolFilter
from global_discovery.view.pages import (
    DEFAULT_PAGE_SIZE,
    MAX_KEPT,
    MAX_PAGE_BYTES,
    MAX_PAGE_SIZE,
    Page,
    Pages,
)
from global_discovery.view.position import Position
from global_discovery.view.view import Entry, View
from support.clock import FakeClock
from support.hand_source import HandSource, a_pool
from support.pools import pool_key


class Lists:
    """A view of some pools, and its pages."""

    def __init__(self, count: int, *, entry_bytes: int = 10) -> None:
        self.clock = FakeClock()
        self.source = HandSource()
        self.source.put(*(a_pool(pool_key(number)) for number in range(count)))
        self.view: View[Pool] = View(self.source)
        self.entry_bytes = entry_bytes
        self.pages: Pages[Pool] = Pages(self.view, clock=self.clock, size_of=self.size_of)

    def size_of(self, _: Entry[Pool]) -> int:
        return self.entry_bytes

    def page(self, size: int = 0, token: str = "", wanted: PoolFilter = EVERYTHING) -> Page[Pool]:
        return self.pages.page(wanted, size, token)

    def move(self) -> None:
        self.source.put(a_pool(pool_key(0), model=str(self.view.sequence)))


def numbers(page: Page[Pool]) -> list[int]:
    return [int(entry.value.key.dgd_name[-5:]) for entry in page.entries]


def test_pages_follow_each_other_without_gap_or_overlap() -> None:
    lists = Lists(10)
    first = lists.page(4)
    second = lists.page(4, first.next_page_token)
    third = lists.page(4, second.next_page_token)
    assert [*numbers(first), *numbers(second), *numbers(third)] == list(range(10))
    assert third.next_page_token == ""


def test_a_list_that_fits_has_no_token_and_is_not_kept() -> None:
    lists = Lists(4)
    assert lists.page(4).next_page_token == ""
    assert not lists.pages._kept


def test_an_empty_list_is_one_empty_page() -> None:
    page = Lists(0).page()
    assert (page.entries, page.next_page_token) == ((), "")


def test_all_pages_are_of_the_first_ones_position() -> None:
    lists = Lists(10)
    first = lists.page(4)
    lists.source.remove(*(pool_key(number) for number in range(10)))
    lists.view.refresh()
    second = lists.page(100, first.next_page_token)
    assert numbers(second) == [4, 5, 6, 7, 8, 9]
    assert second.snapshot is first.snapshot


def test_the_page_size_may_differ_between_pages() -> None:
    lists = Lists(10)
    assert numbers(lists.page(7, lists.page(2).next_page_token)) == [2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    ("asked", "given"), [(0, DEFAULT_PAGE_SIZE), (1, 1), (MAX_PAGE_SIZE + 1, MAX_PAGE_SIZE)]
)
def test_sizes_are_defaulted_and_coerced(asked: int, given: int) -> None:
    assert len(Lists(MAX_PAGE_SIZE + 5).page(asked).entries) == given


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        Lists(3).page(-1)
    assert [violation.field for violation in refused.value.violations] == ["page_size"]


def test_a_page_has_at_most_about_a_mebibyte() -> None:
    lists = Lists(10, entry_bytes=MAX_PAGE_BYTES // 3)
    first = lists.page()
    assert len(first.entries) == 3
    assert numbers(lists.page(0, first.next_page_token)) == [3, 4, 5]


def test_an_entry_larger_than_a_page_is_a_page() -> None:
    assert len(Lists(3, entry_bytes=2 * MAX_PAGE_BYTES).page().entries) == 1


def test_a_token_of_another_filter_is_refused() -> None:
    lists = Lists(10)
    token = lists.page(4).next_page_token
    with pytest.raises(InvalidInput) as refused:
        lists.page(4, token, PoolFilter(models=frozenset({"m"})))
    assert [violation.field for violation in refused.value.violations] == ["page_token"]


def test_a_damaged_token_is_refused() -> None:
    lists = Lists(10)
    with pytest.raises(InvalidInput):
        lists.page(4, lists.page(4).next_page_token[1:])


def test_a_token_of_another_process_is_gone() -> None:
    with pytest.raises(PositionGone):
        Lists(10).page(4, Lists(10).page(4).next_page_token)


def test_a_token_of_a_list_that_nobody_has_is_gone() -> None:
    lists = Lists(10)
    lists.page(4)
    token = Position(lists.view.process, EVERYTHING.fingerprint, 999, 4).encode()
    with pytest.raises(PositionGone):
        lists.page(4, token)


def test_an_offset_behind_the_end_is_an_empty_last_page() -> None:
    lists = Lists(10)
    sequence = lists.page(4).snapshot.sequence
    token = Position(lists.view.process, EVERYTHING.fingerprint, sequence, 4_000_000).encode()
    page = lists.page(4, token)
    assert (page.entries, page.next_page_token) == ((), "")


def test_a_list_is_kept_for_a_minute_after_its_last_page() -> None:
    lists = Lists(10)
    token = lists.page(2).next_page_token
    lists.clock.advance(59)
    token = lists.page(2, token).next_page_token
    lists.clock.advance(59)
    token = lists.page(2, token).next_page_token
    lists.clock.advance(61)
    with pytest.raises(PositionGone):
        lists.page(2, token)


def test_the_oldest_of_too_many_lists_goes_first() -> None:
    lists = Lists(10)
    tokens = []
    for _ in range(MAX_KEPT + 1):
        tokens.append(lists.page(2).next_page_token)
        lists.move()
    with pytest.raises(PositionGone):
        lists.page(2, tokens[0])
    for token in tokens[1:]:
        lists.page(2, token)
    assert len(lists.pages._kept) == MAX_KEPT


def test_callers_of_one_list_share_it() -> None:
    lists = Lists(10)
    first, again = lists.page(2), lists.page(5)
    assert first.snapshot is again.snapshot
    assert len(lists.pages._kept) == 1


def test_a_position_is_no_page_token() -> None:
    lists = Lists(10)
    sequence = lists.page(4).snapshot.sequence
    with pytest.raises(InvalidInput, match="page_token"):
        lists.page(4, lists.view.position(sequence, EVERYTHING))
