"""Pages of a list are put together once, and told to nobody too late."""

from collections.abc import Callable
from typing import Any

import pytest

from global_discovery.domain.errors import PositionGone
from global_discovery.domain.pool import Pool
from global_discovery.serving import wire
from global_discovery.serving.grpc import list_pages
from global_discovery.serving.grpc.list_pages import ListPages
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.view.filters import EVERYTHING, PoolFilter
from global_discovery.view.pages import KEPT_SECONDS, Pages
from global_discovery.view.view import View
from support.clock import FakeClock
from support.hand_source import ESTIMATED, HandSource, a_pool
from support.pools import pool_key


class World:
    """Ten pools, and the pages of their list."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.source = HandSource()
        self.source.put(*(a_pool(pool_key(number)) for number in range(10)))
        view: View[Pool] = View(self.source)
        pages: Pages[Pool] = Pages(view, clock=self.clock, size_of=lambda _: 10)
        self.written = 0
        self.lists = ListPages(pages, view, self._written)

    def _written(self, entry: Any) -> bytes:
        self.written += 1
        return wire.pool_field(entry)

    def page(
        self, size: int = 100, token: str = "", wanted: PoolFilter = EVERYTHING
    ) -> pb.ListPoolsResponse:
        request = pb.ListPoolsRequest(page_size=size, page_token=token)
        return pb.ListPoolsResponse.FromString(self.lists.page(wanted, request))


@pytest.fixture
def world() -> World:
    return World()


def test_a_page_is_put_together_once(world: World) -> None:
    first = world.page()
    assert len(first.pools) == world.written == 10
    assert world.page() == first
    assert world.written == 10


CHANGES: dict[str, Callable[[World], object]] = {
    "a pool": lambda world: world.source.put(a_pool(pool_key(3), model="another")),
    "the mark": lambda world: world.source.say(ESTIMATED),
}


@pytest.mark.parametrize("what", CHANGES)
def test_after_a_change_it_is_another_page(world: World, what: str) -> None:
    before = world.page()
    CHANGES[what](world)
    after = world.page()
    assert after.position != before.position
    assert after != before
    assert world.written == 20


def test_sizes_filters_and_tokens_have_pages_of_their_own(world: World) -> None:
    assert [len(world.page(size).pools) for size in (3, 4, 3)] == [3, 4, 3]
    second = world.page(4, world.page(4).next_page_token)
    assert [pool.key.dgd_name[-1] for pool in second.pools] == ["4", "5", "6", "7"]
    assert world.page(4, world.page(4).next_page_token) == second
    assert len(world.page(4, wanted=PoolFilter(models=frozenset({"none"}))).pools) == 0
    assert len(world.page(4).pools) == 4


def test_the_list_of_a_page_that_was_made_before_is_kept_for_who_got_it_last(world: World) -> None:
    world.page(4)
    world.clock.advance(KEPT_SECONDS - 1)
    token = world.page(4).next_page_token
    world.source.put(a_pool(pool_key(3), model="another"))
    world.clock.advance(KEPT_SECONDS - 1)
    assert len(world.page(4, token).pools) == 4
    world.clock.advance(KEPT_SECONDS + 1)
    with pytest.raises(PositionGone):
        world.page(4, token)


def test_what_is_kept_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_pages, "MAX_KEPT_BYTES", 10_000)
    for size in range(1, 200):
        world.page(size)
    kept = sum(len(answer) + list_pages._OVERHEAD_BYTES for answer, _ in world.lists._made.values())
    assert world.lists._size == kept <= 10_000
