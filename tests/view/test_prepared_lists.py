"""What a whole list takes is done in portions, before it is asked for in one piece."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from global_discovery.domain.pool import Pool
from global_discovery.serving import wire
from global_discovery.serving.rest import list_body
from global_discovery.view.filters import EVERYTHING, PoolFilter
from global_discovery.view.view import ENTRIES_A_PORTION, WRITTEN_A_PORTION, Entry, Form, View
from support.hand_source import HandSource, a_pool
from support.pools import pool_key

POOLS = 3 * ENTRIES_A_PORTION + 10
ALL = PoolFilter(cluster_ids=frozenset({pool_key(0).cluster_id}))


@dataclass
class Room:
    """A view, and what was looked at and written since the last pause."""

    source: HandSource = field(default_factory=HandSource)
    looked_at: int = 0
    written: list[int] = field(default_factory=lambda: [0])

    def __post_init__(self) -> None:
        for number in range(POOLS):
            self.source.put(a_pool(pool_key(number)))
        self.view: View[Pool] = View(self.source)
        self.view.refresh()
        self.form = Form(self._missing, self._write)

    def _missing(self, entry: Entry[Any]) -> bool:
        self.looked_at += 1
        return entry.wire is None

    def _write(self, entry: Entry[Any]) -> bytes:
        self.written[-1] += 1
        return wire.pool_field(entry)

    async def pause(self) -> None:
        self.written.append(0)

    async def prepare(
        self, wanted: PoolFilter, pause: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        pause = pause or self.pause
        await self.view.prepare(wanted, self.form, writing=pause, choosing=pause)


@pytest.mark.parametrize("wanted", [EVERYTHING, ALL])
async def test_entries_are_written_in_portions(wanted: PoolFilter) -> None:
    room = Room()
    await room.prepare(wanted)
    assert max(room.written) == WRITTEN_A_PORTION
    assert sum(room.written) == POOLS
    assert not any(entry.wire is None for entry in room.view.snapshot(wanted).entries)


@pytest.mark.parametrize("wanted", [EVERYTHING, ALL])
async def test_a_list_that_was_written_costs_no_further_look(wanted: PoolFilter) -> None:
    room = Room()
    await room.prepare(wanted)
    room.looked_at, room.written = 0, [0]
    await room.prepare(wanted)
    assert (room.looked_at, room.written) == (0, [0])
    room.source.put(a_pool(pool_key(POOLS)))
    room.view.refresh()
    await room.prepare(wanted)
    assert sum(room.written) == 1


async def test_a_view_that_moves_meanwhile_is_not_taken_for_written() -> None:
    room = Room()
    numbers = iter(range(POOLS, POOLS + 5))

    async def moves() -> None:
        if (number := next(numbers, None)) is not None:
            room.source.put(a_pool(pool_key(number)))
            room.view.refresh()

    await room.prepare(EVERYTHING, moves)
    await room.prepare(EVERYTHING)
    assert not any(entry.wire is None for entry in room.view.snapshot(EVERYTHING).entries)


@pytest.mark.parametrize("form", [wire.POOL_FORM, list_body.POOL_FORM])
def test_each_face_sees_what_it_has_not_written(form: Form) -> None:
    entry = Entry(a_pool(pool_key(1)))
    assert form.missing(entry)
    form.write(entry)
    assert not form.missing(entry)
