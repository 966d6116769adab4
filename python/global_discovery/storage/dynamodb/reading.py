"""Reads the table: every partition page by page, then the contents that are new.

One reader serves all watchers. Reads are strongly consistent within the region
(docs/decisions/0041). The loop is given back after each page and after each few
contents, so that no read holds it for long, however large the table.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from global_discovery.domain.clock import Clock
from global_discovery.domain.events import Event, Report
from global_discovery.domain.pool import PoolKey
from global_discovery.storage.dynamodb.api import CallFailed, Item
from global_discovery.storage.dynamodb.beacons import Beacons
from global_discovery.storage.dynamodb.items import (
    BEACONS,
    PARTITIONS,
    REFRESH_ATTRIBUTES,
    TOMBSTONE,
    Unreadable,
    content_key,
    item_key,
    number_of,
    partition_of,
    pool_prefix,
    read_content,
    text_of,
)
from global_discovery.storage.dynamodb.retrying import Retrying
from global_discovery.storage.dynamodb.sightings import Sighting, Sightings, Tombstone
from global_discovery.storage.store import Reading, SeenShare

PARTITIONS_AT_ONCE = 4
CONTENTS_A_CALL = 50
CONTENTS_A_STEP = 10
SHARES_A_READING = 500
UNREADABLE_TOLD = 1000

Take = Callable[[Reading], None]


class ContentMissing(Exception):
    """A share lives whose content item cannot be read; the text is for the log only."""


class Reader:
    """The reads of one process."""

    def __init__(  # noqa: PLR0913 - by keyword, and each is a part of its own
        self,
        *,
        table: str,
        calls: Retrying,
        sightings: Sightings,
        beacons: Beacons,
        clock: Clock,
        report: Report,
    ) -> None:
        """Reads nothing yet."""
        self._table = table
        self._calls = calls
        self._sightings = sightings
        self._beacons = beacons
        self._clock = clock
        self._report = report
        self._told: set[str] = set()

    async def read_all(self, take: Take, *, until: float) -> float:
        """Reads the whole table and hands over what is new; when that began.

        Raises CallFailed when it could not be read by that monotonic moment, and
        ContentMissing when all was read but for contents of shares that live; what
        was read was handed over.
        """
        began = self._clock.monotonic()
        number = self._sightings.begin_read()
        waiting = list(self._sightings.untold.values())
        turns = asyncio.Semaphore(PARTITIONS_AT_ONCE)

        async def read(partition: str) -> None:
            async with turns:
                await self._read_partition(partition, take, until)

        try:
            async with asyncio.TaskGroup() as group:
                for partition in PARTITIONS:
                    group.create_task(read(partition))
        except* CallFailed as failures:
            raise _first(failures) from failures
        await self._hand_over(waiting, take, until)
        await self._read_beacons(until)
        self._sightings.end_read(number, began=began)
        if self._sightings.forget_untold():
            raise ContentMissing("a live share's content item is missing or damaged")
        return began

    async def read_pool(self, key: PoolKey, lease_ids: Sequence[str], *, until: float) -> Reading:
        """What is stored of one pool, and which of these ids are withdrawn. Raises CallFailed."""
        pk = partition_of(key)
        await self._read_tombstones(pk, lease_ids, until)
        found: list[Sighting] = []
        news: set[str] = set()
        query = self._query(pk, begins=pool_prefix(key))
        async for page, asked in self._pages(query, until):
            for item in page:
                if seen := self._see(pk, item, asked):
                    news.add(seen.place.sk)
                sighting = self._sightings.shares.get(text_of(item, "sk"))
                if sighting is not None and self._sightings.remaining(sighting) > 0:
                    found.append(sighting)
        held = [sighting.renewal.lease_id for sighting in found if sighting.renewal]
        await self._read_tombstones(pk, held, until)
        await self._read_contents([s for s in found if not s.said_known], until)
        old = [sighting for sighting in found if sighting.place.sk not in news]
        new = [sighting for sighting in found if sighting.place.sk in news]
        shares = [s._replace(renewed=False) for s in self._sightings.hand_over(old)]
        now = self._clock.monotonic()
        return Reading(
            shares=(*shares, *self._sightings.hand_over(new)),
            withdrawn={
                lease_id: tombstone.remaining(now)
                for lease_id in (*lease_ids, *held)
                if (tombstone := self._sightings.tombstones.get(lease_id)) is not None
            },
        )

    async def everything(self) -> Reading:
        """All that the last read found and that lives, as of now.

        A clock that is ahead takes what lives for dead, until it sees it renewed;
        hence the longest lease of all.
        """
        shares: list[SeenShare] = []
        known = iter(list(self._sightings.shares.values()))
        while some := list(islice(known, SHARES_A_READING)):
            shares += [s for s in self._sightings.hand_over(some) if s.remaining > 0]
            await asyncio.sleep(0)
        renewals = (s.renewal for s in self._sightings.shares.values())
        return Reading(
            shares=tuple(shares),
            withdrawn=_remaining(self._sightings.tombstones, self._clock.monotonic()),
            longest_lease=max((r.granted for r in renewals if r is not None), default=0.0),
        )

    # -- parts ---------------------------------------------------------------

    async def _read_partition(self, pk: str, take: Take, until: float) -> None:
        query = self._query(pk)
        query["ProjectionExpression"] = REFRESH_ATTRIBUTES
        async for page, asked in self._pages(query, until):
            news = [sighting for item in page if (sighting := self._see(pk, item, asked))]
            await self._hand_over(news, take, until)
            await asyncio.sleep(0)

    def _see(self, pk: str, item: Item, asked: float) -> Sighting | None:
        try:
            return self._sightings.see(pk, item, asked=asked)
        except (Unreadable, AttributeError, KeyError, TypeError, ValueError) as problem:
            self._tell_unreadable(text_of(item, "sk"), problem)
            return None

    async def _hand_over(self, news: Sequence[Sighting], take: Take, until: float) -> None:
        """Reads the contents that are new, then tells; tombstones first."""
        buried, self._sightings.buried = self._sightings.buried, {}
        if buried:
            take(Reading(withdrawn=_remaining(buried, self._clock.monotonic())))
        unread = [s for s in news if not s.said_known and self._sightings.remaining(s) > 0]
        await self._read_contents(unread, until)
        shares = self._sightings.hand_over(news)
        while some := tuple(islice(shares, SHARES_A_READING)):
            take(Reading(shares=some))
            await asyncio.sleep(0)

    async def _read_contents(self, sightings: Sequence[Sighting], until: float) -> None:
        wanted = {s.renewal.content_hash: s for s in sightings if s.renewal}
        hashes = iter(wanted)
        while some := list(islice(hashes, CONTENTS_A_CALL)):
            for name in some:
                wanted[name].missing = name
            items = await self._get([content_key(name) for name in some], until)
            for number, item in enumerate(items):
                content_hash = text_of(item, "pk")[2:]
                self._take_content(wanted[content_hash], content_hash, item)
                if number % CONTENTS_A_STEP == 0:
                    await asyncio.sleep(0)

    def _take_content(self, sighting: Sighting, content_hash: str, item: Item) -> None:
        try:
            said = read_content(item)
        except Unreadable as problem:
            self._tell_unreadable(content_hash, problem)
            return
        expires = number_of(item, "expires_at")
        if not self._sightings.take_content(sighting, content_hash, said, expires=expires):
            self._tell_unreadable(content_hash, Unreadable("content item of another share"))

    async def _read_tombstones(self, pk: str, lease_ids: Iterable[str], until: float) -> None:
        unknown = {i for i in lease_ids if i and i not in self._sightings.tombstones}
        names = iter(sorted(unknown))
        while some := list(islice(names, 2 * CONTENTS_A_CALL)):
            keys = [item_key(pk, TOMBSTONE + lease_id) for lease_id in some]
            for item in await self._get(keys, until):
                self._see(pk, item, self._clock.monotonic())

    async def _read_beacons(self, until: float) -> None:
        items = [i async for page, _ in self._pages(self._query(BEACONS), until) for i in page]
        self._beacons.see(items)

    # -- calls ---------------------------------------------------------------

    def _query(self, pk: str, *, begins: str = "") -> dict[str, Any]:
        condition = "pk = :pk"
        values = {":pk": {"S": pk}}
        if begins:
            condition += " AND begins_with(sk, :begins)"
            values[":begins"] = {"S": begins}
        return {
            "TableName": self._table,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": values,
            "ConsistentRead": True,
        }

    async def _pages(
        self, query: dict[str, Any], until: float
    ) -> AsyncIterator[tuple[list[Item], float]]:
        """Each page, and when it was asked for."""
        while True:
            asked = self._clock.monotonic()
            answer = await self._calls.call("Query", query, until=until)
            yield answer.get("Items", []), asked
            last = answer.get("LastEvaluatedKey")
            if not last:
                return
            query = {**query, "ExclusiveStartKey": last}

    async def _get(self, keys: list[Item], until: float) -> list[Item]:
        """The items with these keys, as far as they are there."""
        found: list[Item] = []
        while keys:
            request = {"RequestItems": {self._table: {"Keys": keys, "ConsistentRead": True}}}
            answer = await self._calls.call("BatchGetItem", request, until=until)
            found += answer.get("Responses", {}).get(self._table, [])
            left = answer.get("UnprocessedKeys", {}).get(self._table, {}).get("Keys", [])
            if left:
                await self._calls.pause(until=until)
            keys = left
        return found

    def _tell_unreadable(self, name: str, problem: Exception) -> None:
        if name not in self._told and len(self._told) < UNREADABLE_TOLD:
            self._told.add(name)
            self._report(Event.STORED_ITEM_UNREADABLE, problem=f"{problem}")


def _remaining(buried: Mapping[str, Tombstone], now: float) -> dict[str, float]:
    return {lease_id: tombstone.remaining(now) for lease_id, tombstone in buried.items()}


def _first(failures: BaseExceptionGroup[CallFailed]) -> CallFailed:
    first: BaseException = failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    assert isinstance(first, CallFailed), "the group was filtered"  # noqa: S101
    return first
