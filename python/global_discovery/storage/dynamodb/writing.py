"""Writes shares, renewals and tombstones. Every write of a share is conditional.

The condition is the lease id and the counter that were last known, never a time.
Where it fails, the answer brings what is there instead; whether our write still
has a right to be made is decided from that, and it is repeated or given up. A
share is written by one call at a time; renewals that come meanwhile are
answered by one write. While writing fails, few calls at a time still try, and
all others are refused at once, so that their callers go to another instance.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from global_discovery.domain.clock import Clock
from global_discovery.domain.errors import StoreUnwritable
from global_discovery.storage.dynamodb.api import CallFailed, ConditionFailed
from global_discovery.storage.dynamodb.health import Health
from global_discovery.storage.dynamodb.items import (
    KEPT_SECONDS,
    TOMBSTONE,
    Renewal,
    Texts,
    Unreadable,
    content_item,
    item_key,
    next_counter,
    place_of,
    read_renewal,
    texts_of,
    time_text,
    tombstone_item,
    update_of,
)
from global_discovery.storage.dynamodb.retrying import Retrying
from global_discovery.storage.dynamodb.sightings import Sighting, Sightings, Tombstone
from global_discovery.storage.store import StoredShare

WRITES_AT_ONCE = 64
WRITES_WHILE_FAILING = 4
CONFLICTS = 8
REPLACED_KEPT = 8
CONTENT_TOUCHED_AFTER = 86_400
"""Seconds after which a content item in use is written again, for TTL to leave it alone."""


class Superseded(Exception):
    """What is in the table is not ours to replace."""


class Vanished(Exception):
    """There is nothing in the table to renew."""


class Writer:
    """The writes of one process."""

    def __init__(  # noqa: PLR0913 - by keyword, and each is a part of its own
        self,
        *,
        table: str,
        calls: Retrying,
        sightings: Sightings,
        health: Health,
        clock: Clock,
        name: str,
        patience: float,
    ) -> None:
        """`name` is this process in renewal items; `patience` how long one write may take."""
        self._table = table
        self._calls = calls
        self._sightings = sightings
        self._health = health
        self._clock = clock
        self._name = name
        self._patience = patience
        self._turns = asyncio.Semaphore(WRITES_AT_ONCE)
        self._under_way = 0

    async def put(self, share: StoredShare) -> None:
        """Stores a new share, incarnation or content. Raises StoreUnwritable."""
        sighting = self._sightings.at(place_of(share.key, share.identity))
        self._sightings.write(sighting, share)
        async with sighting.lock:
            try:
                await self._trying(lambda until: self._put(sighting, share, until, said_now=True))
            except (CallFailed, Superseded, Vanished) as problem:
                raise StoreUnwritable from problem

    async def renew(self, lease_ids: Sequence[str]) -> list[str]:
        """Stores that these leases were renewed; those of which it could not."""
        not_kept: list[str] = []
        waiting = iter(lease_ids)

        async def work() -> None:
            for lease_id in waiting:
                kept = await self._renew(lease_id)
                not_kept.extend(() if kept else (lease_id,))

        workers = min(len(lease_ids), WRITES_AT_ONCE)
        if workers == 1:
            await work()
        elif workers:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(work())
        return not_kept

    async def bury(self, lease_ids: Sequence[str], *, remember: float) -> None:
        """Stores that these leases, of one pool, were withdrawn: all or none.

        Raises StoreUnwritable. A call that got no answer may have been done all
        the same; the leases then end when the tombstones are read.
        """
        places = {i: place for i in lease_ids if (place := self._sightings.place_of(i))}
        if len(places) < len(set(lease_ids)):
            raise StoreUnwritable  # nobody can say where its tombstone would belong
        now = self._clock.wall()
        puts: list[dict[str, Any]] = [
            {
                "TableName": self._table,
                "Item": tombstone_item(
                    place, lease_id, remember=remember, now=now, writer=self._name
                ),
            }
            for lease_id, place in places.items()
        ]
        if len(puts) > 1:
            operation, request = "TransactWriteItems", {"TransactItems": [{"Put": p} for p in puts]}
        else:
            operation, request = "PutItem", puts[0]
        try:
            await self._trying(lambda until: self._calls.call(operation, request, until=until))
        except CallFailed as problem:
            raise StoreUnwritable from problem
        for lease_id, place in places.items():
            self._sightings.bury(lease_id, place, remember=remember, written_here=True)

    async def write_again(self, sighting: Sighting) -> None:
        """Stores what another region's write replaced by something older, if that is still so."""
        async with sighting.lock:
            wrote = sighting.wrote
            if wrote is None or not sighting.lost:
                return
            with contextlib.suppress(Superseded, Vanished):
                await self._trying(lambda until: self._put(sighting, wrote, until, said_now=False))

    async def clear(self, lease_id: str, tombstone: Tombstone) -> None:
        """Deletes a withdrawn lease's renewal item, then its tombstone. Raises CallFailed."""
        until = self._until()
        if tombstone.place.sk:
            request = {
                "TableName": self._table,
                "Key": tombstone.place.key,
                "ConditionExpression": "l = :l",
                "ExpressionAttributeValues": {":l": {"S": lease_id}},
            }
            # Where it fails a newer incarnation has the item, or it is gone.
            with contextlib.suppress(ConditionFailed):
                await self._calls.call("DeleteItem", request, until=until)
        key = item_key(tombstone.place.pk, TOMBSTONE + lease_id)
        request = {"TableName": self._table, "Key": key}
        await self._calls.call("DeleteItem", request, until=until)

    # -- one share -----------------------------------------------------------

    async def _renew(self, lease_id: str) -> bool:
        """Whether a write that began after this call kept it."""
        sighting = self._sightings.by_lease.get(lease_id)
        if sighting is None:
            return False
        sighting.wanted = self._clock.monotonic()
        sighting.tickets += 1
        ticket = sighting.tickets
        async with sighting.lock:
            if sighting.covered < ticket:
                covers = sighting.tickets
                try:
                    await self._trying(lambda until: self._renew_now(sighting, lease_id, until))
                    sighting.kept = True
                except (CallFailed, Superseded, Vanished):
                    sighting.kept = False
                sighting.covered = covers
            return sighting.kept

    async def _renew_now(self, sighting: Sighting, lease_id: str, until: float) -> None:
        wrote, renewal = sighting.wrote, sighting.renewal
        missing = renewal is None or sighting.unsaved or sighting.lost
        if wrote is not None and wrote.lease_id == lease_id and missing:
            await self._put(sighting, wrote, until, said_now=sighting.unsaved)
            return
        stored = renewal is not None and renewal.lease_id == lease_id
        share = self._sightings.share_of(sighting) if stored else None
        try:
            if share is None or self._lasts(sighting):
                await self._write(sighting, lambda old: self._renewed(old, lease_id), until)
                return
        except Vanished:
            if share is None:
                raise
            self._sightings.holds_nothing(sighting, looked_at=self._clock.monotonic())
        await self._put(sighting, share, until, said_now=False)

    def _renewed(self, old: Renewal | None, lease_id: str) -> Renewal:
        if old is None:
            raise Vanished
        if old.lease_id != lease_id:
            raise Superseded
        return old._replace(
            counter=next_counter(old.counter),
            writer=self._name,
            renewed_time=self._clock.wall(),
        )

    async def _put(
        self, sighting: Sighting, share: StoredShare, until: float, *, said_now: bool
    ) -> None:
        """Writes the whole of a share; `said_now`: a call just said so.

        A change that meets one which this process did not know of is the later
        one, and is numbered above it. What is only written again gives way.
        """
        try:
            await self._put_after(sighting, sighting.renewal, share, until, said_now=said_now)
        except Vanished:  # and its content item perhaps with it
            self._sightings.holds_nothing(sighting, looked_at=self._clock.monotonic())
            await self._put_after(sighting, None, share, until, said_now=said_now)

    async def _put_after(
        self,
        sighting: Sighting,
        before: Renewal | None,
        share: StoredShare,
        until: float,
        *,
        said_now: bool,
    ) -> None:
        """Raises Vanished where `before` should be and nothing is."""
        begins = said_now if before is None else before.lease_id != share.lease_id
        changes = said_now and (before is None or begins or share.number > before.number)
        content_hash = await self._keep_content(sighting, share, until)

        def following(old: Renewal | None) -> Renewal:
            number = share.number
            if old is None and before is not None:
                raise Vanished
            if old is not None:
                if old.lease_id != share.lease_id and not begins:
                    raise Superseded  # another incarnation took over
                if old.content_hash != content_hash and old.number >= number:
                    if old.number > number and not changes:
                        return self._giving_way(old, share, said_now=said_now)
                    number = old.number + 1 if changes else number
                number = max(number, old.number)
            return Renewal(
                lease_id=share.lease_id,
                granted=share.granted,
                counter=next_counter(old.counter) if old else "1",
                writer=self._name,
                content_hash=content_hash,
                number=number,
                renewed_time=self._clock.wall(),
                registered_time=share.registered_time,
                sequence=share.sequence,
            )

        written = await self._write(sighting, following, until)
        if written.content_hash == content_hash:  # a read may have brought the older one meanwhile
            self._sightings.said_here(sighting, share, content_hash)
        if sighting.wrote is share and written.content_hash == content_hash:
            sighting.wrote = share._replace(number=written.number)
            sighting.unsaved = False

    def _giving_way(self, old: Renewal, share: StoredShare, *, said_now: bool) -> Renewal:
        """The relay changed its content at another instance: a renewal leaves that as it is."""
        if said_now:
            raise Superseded
        return self._renewed(old, share.lease_id)

    async def _write(
        self, sighting: Sighting, following: Callable[[Renewal | None], Renewal], until: float
    ) -> Renewal:
        """Writes what follows what is there; what that is.

        What a conflict brings is told with the next read. Raises what `following`
        does, and CallFailed.
        """
        old = known = sighting.renewal
        conflict = ConditionFailed(None)
        for _ in range(CONFLICTS):
            new = following(old)
            expires_at = int(new.renewed_time) + KEPT_SECONDS
            update = update_of(self._table, sighting.place, new, old=old, expires_at=expires_at)
            try:
                await self._calls.call("UpdateItem", update, until=until)
            except ConditionFailed as failed:
                conflict = failed
                found = _found(failed)
                if found is None or not _same(found, new):
                    old = found
                    continue  # else it was done, and only its answer was lost
            if old is not None and old.lease_id != new.lease_id:
                sighting.replaced = (*sighting.replaced, old.lease_id)[-REPLACED_KEPT:]
            self._sightings.now_holds(sighting, new, looked_at=self._clock.monotonic())
            if old is not known:
                self._sightings.tell(sighting)
            return new
        raise conflict

    # -- contents ------------------------------------------------------------

    async def _keep_content(self, sighting: Sighting, share: StoredShare, until: float) -> str:
        """Has the content item in the table before anything names it; its hash.

        One that says the same is used as it is, also when a later format wrote it.
        """
        said = sighting.said
        if said is not None and said.of(share) and self._lasts(sighting):
            return sighting.said_hash
        texts = texts_of(share)
        content_hash = texts.content_hash
        await self._put_content(sighting, content_hash, texts, until)
        self._sightings.said_here(sighting, share, content_hash)
        return content_hash

    def _lasts(self, sighting: Sighting) -> bool:
        left = sighting.content_expires - self._clock.wall()
        return left > KEPT_SECONDS - CONTENT_TOUCHED_AFTER

    async def _put_content(
        self, sighting: Sighting, content_hash: str, texts: Texts, until: float
    ) -> None:
        expires_at = int(self._clock.wall()) + KEPT_SECONDS
        item = content_item(content_hash, texts, expires_at=expires_at)
        request = {"TableName": self._table, "Item": item}
        await self._calls.call("PutItem", request, until=until)
        sighting.content_expires = expires_at

    # -- calls ---------------------------------------------------------------

    def _until(self) -> float:
        return self._clock.monotonic() + self._patience

    async def _trying(self, work: Callable[[float], Awaitable[object]]) -> None:
        """Does it in its turn, and tells the store's health what that said about writing."""
        self._refuse_many()
        async with self._turns:
            self._refuse_many()
            self._under_way += 1
            try:
                await work(self._until())
            except (ConditionFailed, Superseded, Vanished):
                self._health.works("write")
                raise
            except CallFailed as problem:
                self._health.fails("write", problem)
                raise
            finally:
                self._under_way -= 1
            self._health.works("write")

    def _refuse_many(self) -> None:
        if self._health.writes_fail and self._under_way >= WRITES_WHILE_FAILING:
            raise CallFailed("writing fails, and enough others are trying")


def _found(conflict: ConditionFailed) -> Renewal | None:
    """What is there instead; nothing when that cannot be read either."""
    try:
        return read_renewal(conflict.item) if conflict.item else None
    except Unreadable:
        return None


def _same(found: Renewal, new: Renewal) -> bool:
    """Whether what is there is what this very call wrote.

    Not what an earlier call of this process wrote, whose caller went away before
    the answer came: the time tells them apart, as precisely as it is written.
    """
    written = new._replace(renewed_time=float(time_text(new.renewed_time)))
    return (found.lease_id, found.counter, found.writer, found.renewed_time) == (
        written.lease_id,
        written.counter,
        written.writer,
        written.renewed_time,
    )
