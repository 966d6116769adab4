"""The whole list in numbers, and the part of it that a page shows.

Both look at every pool once, in portions between which the loop does other
things. What they find is that of one position of the view.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from global_discovery.domain.explanation import MayRead
from global_discovery.domain.pool import Pool, PoolKey
from global_discovery.serving.page.query import Group, PageQuery
from global_discovery.view.view import Entry

PORTION = 1_000
PAGE_SIZE = 100
NAMED = 100
"""How many keys are kept of each kind of trouble."""


@dataclass(slots=True)
class Survey:
    """Of all pools that the caller may read."""

    pools: int = 0
    gpus: int = 0
    models: Counter[str] = field(default_factory=Counter)
    regions: Counter[str] = field(default_factory=Counter)
    clusters: Counter[str] = field(default_factory=Counter)
    without_frontends: int = 0
    named_without_frontends: list[PoolKey] = field(default_factory=list)
    """The first of them."""

    def add(self, pool: Pool) -> None:
        """Counts one."""
        content = pool.content
        self.pools += 1
        self.gpus += gpus_of(pool)
        self.models[content.model] += 1
        self.regions[content.location.region] += 1
        self.clusters[pool.key.cluster_id] += 1
        if not content.frontends:
            self.without_frontends += 1
            if len(self.named_without_frontends) < NAMED:
                self.named_without_frontends.append(pool.key)


class Section(NamedTuple):
    """A run of rows with one heading."""

    name: str
    size: int
    """Of the whole group, of which other rows may stand on other pages."""
    continued: bool
    """Whether it began on an earlier page."""
    pools: Sequence[Pool]


class Arrangement(NamedTuple):
    """All pools that match a query, in the order of their pages."""

    groups: dict[str, list[Pool]]
    size: int

    @property
    def pages(self) -> int:
        """How many there are; at least one."""
        return max(1, -(-self.size // PAGE_SIZE))

    def sections(self, page: int) -> list[Section]:
        """What stands on one page, from 1."""
        start = (page - 1) * PAGE_SIZE
        end = start + PAGE_SIZE
        found: list[Section] = []
        at = 0
        for name, pools in self.groups.items():
            part = pools[max(start - at, 0) : max(end - at, 0)]
            if part:
                found.append(Section(name, len(pools), at < start, part))
            at += len(pools)
            if at >= end:
                break
        return found


async def survey(entries: Sequence[Entry[Pool]], may_read: MayRead) -> Survey:
    """Of the whole list."""
    found = Survey()
    async for portion in _portions(entries):
        for entry in portion:
            if may_read(entry.value.key):
                found.add(entry.value)
    return found


async def arrange(
    entries: Sequence[Entry[Pool]], query: PageQuery, may_read: MayRead
) -> Arrangement:
    """What a query asks for; groups by name, pools by key."""
    groups: dict[str, list[Pool]] = {}
    size = 0
    needle = query.search.casefold()
    name_of = _NAMES[query.group]
    async for portion in _portions(entries):
        for entry in portion:
            pool = entry.value
            if not query.wanted.matches(pool) or not may_read(pool.key):
                continue
            if needle and needle not in _searched(pool):
                continue
            size += 1
            groups.setdefault(name_of(pool), []).append(pool)
    return Arrangement({name: groups[name] for name in sorted(groups)}, size)


def gpus_of(pool: Pool) -> int:
    """How many it says that it has."""
    return sum(count for _, count in pool.content.capacity)


_NAMES: dict[Group, Callable[[Pool], str]] = {
    Group.MODEL: lambda pool: pool.content.model,
    Group.REGION: lambda pool: pool.content.location.region,
    Group.CLUSTER: lambda pool: pool.key.cluster_id,
    Group.NONE: lambda _: "",
}


def _searched(pool: Pool) -> str:
    content = pool.content
    return f"{pool.key}\n{content.model}\n{content.location.region}".casefold()


async def _portions(entries: Sequence[Entry[Pool]]) -> AsyncIterator[Sequence[Entry[Pool]]]:
    for start in range(0, len(entries), PORTION):
        if start:
            await asyncio.sleep(0)
        yield entries[start : start + PORTION]
