"""`--registration-storage dynamodb`: the parts put together, and what runs.

Promised: what another instance stored is handed over within the bound; what the
store cannot do is told and never waited for beyond its patience; a store that
fails ends no lease and blocks nobody. Not promised: that a call without an
answer was not done.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence

from global_discovery.domain.clock import Clock
from global_discovery.domain.errors import StoreUnwritable
from global_discovery.domain.events import Report
from global_discovery.domain.lease import LeaseTerms
from global_discovery.domain.pool import PoolKey
from global_discovery.storage.dynamodb.api import CallFailed, DynamoDB, Refused
from global_discovery.storage.dynamodb.beacons import Beacons
from global_discovery.storage.dynamodb.counting import CallCounts, CountedDynamoDB
from global_discovery.storage.dynamodb.health import Health
from global_discovery.storage.dynamodb.items import BEACONS, beacon_item, item_key
from global_discovery.storage.dynamodb.reading import ContentMissing, Reader, Take
from global_discovery.storage.dynamodb.retrying import Retrying, Sleep
from global_discovery.storage.dynamodb.sightings import Sightings
from global_discovery.storage.dynamodb.table import check_table, raise_for_operator
from global_discovery.storage.dynamodb.writing import Writer
from global_discovery.storage.store import Figure, MovedLease, Reading, StoredShare, StoreState

LONGEST_PATIENCE_SECONDS = 3.0
READ_PATIENCE_SECONDS = 5.0
FIRST_READ_PATIENCE_SECONDS = 60.0
OPENING_PAUSE_SECONDS = 1.0
WATCH_SECONDS = 0.25
SHORTEST_PERIOD = 0.5
"""From the beginning of a read to that of one that is wanted sooner than its period."""
CLOSE_PATIENCE_SECONDS = 2.0
CLEARED_A_ROUND = 100

Connect = Callable[[], Awaitable[DynamoDB]]


class DynamoDBStore:
    """Keeps registrations in a table that other instances use too."""

    name = "dynamodb"
    shared = True

    def __init__(  # noqa: PLR0913 - by keyword, and most have a default
        self,
        *,
        connect: Connect,
        table: str,
        terms: LeaseTerms,
        clock: Clock,
        report: Report,
        refresh_period: float = 1.0,
        instance: str = "",
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """`instance` names this process in the table; `refresh_period` in seconds."""
        self._connect = connect
        self._table = table
        self._terms = terms
        self._clock = clock
        self._report = report
        self._period = refresh_period
        self._instance = instance or secrets.token_urlsafe(9)
        self._sleep = sleep
        self._health = Health(
            clock=clock,
            refresh_period=refresh_period,
            report=report,
        )
        self._api: DynamoDB | None = None
        self._counts = CallCounts()
        self._beat_number = 0
        self._beating: asyncio.Task[None] | None = None
        self._take: Take = _nobody
        self._changed: Callable[[], None] = lambda: None
        self._wanted = asyncio.Event()

    def state(self) -> StoreState:
        """How it is now."""
        return self._health.state()

    def figures(self) -> Sequence[Figure]:
        """Its calls, and how its reads do."""
        return (*self._counts.figures(), *self._health.figures())

    def on_reading(self, take: Callable[[Reading], None], changed: Callable[[], None]) -> None:
        """Has `take` called with each reading while it runs."""
        self._take, self._changed = take, changed

    async def open(self) -> Reading:
        """Checks the table and reads it once, however long DynamoDB cannot be reached.

        Raises OSError with a sentence for the operator when waiting would not help.
        """
        api = self._api = CountedDynamoDB(await self._connect(), self._counts)
        while True:
            self._use(api)
            try:
                return await self._open(api)
            except Refused as refused:
                raise_for_operator(refused, api, self._table)
            except CallFailed as problem:
                self._health.fails("read", problem)
                self._changed()
            await self._sleep(OPENING_PAUSE_SECONDS)

    async def run(self) -> None:
        """Reads each period, tells that this instance lives, and clears what is over."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._refresh_for_ever())
            group.create_task(self._for_ever(self._terms.heartbeat_interval, self._beat_whole))
            group.create_task(self._for_ever(self._period, self.tidy))
            group.create_task(self._watch())

    def read_soon(self) -> None:
        """The next read begins without waiting for its period."""
        self._wanted.set()

    async def refresh(self) -> None:
        """Reads the table once, and hands over what is new."""
        try:
            await self._read(self._take, READ_PATIENCE_SECONDS)
        except CallFailed as problem:
            self._health.fails("read", problem)

    async def tidy(self) -> None:
        """Writes again what a region's later write lost, and clears what is over."""
        try:
            for sk, sighting in list(self._sightings.lost.items()):
                await self._writer.write_again(sighting)
                del self._sightings.lost[sk]
            for lease_id, tombstone in self._sightings.to_clear(CLEARED_A_ROUND):
                await self._writer.clear(lease_id, tombstone)
        except CallFailed:
            return  # the next round begins with what is left

    async def beat(self) -> None:
        """Writes this instance's beacon."""
        try:
            await self._write_beacon(self._patience)
        except CallFailed as problem:
            self._health.fails("write", problem)
        else:
            self._health.works("write")

    async def consult(self, key: PoolKey, lease_ids: Sequence[str]) -> Reading:
        """What is stored right now of a pool and of these ids.

        Refused at once while reading fails: the next refresh that works ends that.
        """
        if self._health.reads_fail:
            raise StoreUnwritable
        until = self._clock.monotonic() + self._patience
        try:
            return await self._reader.read_pool(key, lease_ids, until=until)
        except CallFailed as problem:
            raise StoreUnwritable from problem

    async def put(self, share: StoredShare) -> None:
        """Keeps a new share, a new incarnation or a changed content. Raises StoreUnwritable."""
        await self._writer.put(share)

    async def renew(self, lease_ids: Sequence[str]) -> Sequence[str]:
        """Keeps that these leases were renewed now; gives those that it could not keep."""
        return await self._writer.renew(lease_ids)

    def leases_judged(self, now: float, moved: Sequence[MovedLease]) -> None:
        """Every reader measures leases for itself."""

    async def withdraw(self, lease_ids: Sequence[str], *, remember: float) -> None:
        """Keeps that these leases of one pool were withdrawn. Raises StoreUnwritable."""
        await self._writer.bury(lease_ids, remember=remember)

    async def close(self) -> None:
        """Deletes the beacon, so that the region has left and is not silent."""
        if self._api is None:
            return
        api, self._api = self._api, None
        if self._beating is not None:
            await asyncio.wait([self._beating])
        if self._beat_number:
            key = item_key(BEACONS, f"{api.region}#{self._instance}")
            until = self._clock.monotonic() + CLOSE_PATIENCE_SECONDS
            try:
                await self._calls.call(
                    "DeleteItem", {"TableName": self._table, "Key": key}, until=until
                )
            except CallFailed as problem:
                self._health.fails("write", problem)
        await api.close()

    # -- parts ---------------------------------------------------------------

    @property
    def _patience(self) -> float:
        """A caller waits for a third of its lease."""
        return min(0.8 * self._terms.lease_duration / 3, LONGEST_PATIENCE_SECONDS)

    def _use(self, api: DynamoDB) -> None:
        """Nothing was seen yet."""
        self._sightings = Sightings(clock=self._clock, writer=self._instance)
        self._calls = Retrying(api, self._clock, self._sleep)
        self._region = api.region
        self._beacons = Beacons(
            clock=self._clock,
            region=api.region,
            interval=float(self._terms.heartbeat_interval),
            report=self._report,
        )
        self._reader = Reader(
            table=self._table,
            calls=self._calls,
            sightings=self._sightings,
            beacons=self._beacons,
            clock=self._clock,
            report=self._report,
        )
        self._writer = Writer(
            table=self._table,
            calls=self._calls,
            sightings=self._sightings,
            health=self._health,
            clock=self._clock,
            name=self._instance,
            patience=self._patience,
        )

    async def _open(self, api: DynamoDB) -> Reading:
        await check_table(api, self._calls, self._table, self._report)
        await self._write_beacon(self._patience)
        await self._read(_nobody, FIRST_READ_PATIENCE_SECONDS)
        return await self._reader.everything()

    async def _read(self, take: Take, patience: float) -> None:
        """A share whose content is missing makes the view doubtful, and stops nothing."""
        until = self._clock.monotonic() + patience
        try:
            began = await self._reader.read_all(take, until=until)
        except ContentMissing as missing:
            self._health.works("read")
            self._health.fails("content", missing)
        else:
            self._health.read_completed(began=began)
        self._health.silent = self._beacons.silent
        self._health.across_regions = self._beacons.across_regions

    async def _write_beacon(self, patience: float) -> None:
        self._beat_number += 1
        item = beacon_item(
            self._region,
            self._instance,
            counter=self._beat_number,
            interval=float(self._terms.heartbeat_interval),
            now=self._clock.wall(),
        )
        request = {"TableName": self._table, "Item": item}
        await self._calls.call("PutItem", request, until=self._clock.monotonic() + patience)

    async def _beat_whole(self) -> None:
        """A beacon on its way is not cut off: it could arrive after it was deleted."""
        self._beating = asyncio.create_task(self.beat())
        await asyncio.shield(self._beating)

    async def _for_ever(self, period: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            began = self._clock.monotonic()
            await work()
            await self._sleep(max(began + period - self._clock.monotonic(), 0.0))

    async def _refresh_for_ever(self) -> None:
        """Each period, and sooner when it is wanted, with a pause between two all the same."""
        while True:
            began = self._clock.monotonic()
            self._wanted.clear()
            await self.refresh()
            pause = min(self._period, SHORTEST_PERIOD)
            await self._sleep(max(began + pause - self._clock.monotonic(), 0.0))
            left = began + self._period - self._clock.monotonic()
            if left > 0:
                await self._wanted_within(left)

    async def _wanted_within(self, seconds: float) -> None:
        """Until a read is wanted, and no longer than that."""
        waits = {
            asyncio.ensure_future(self._sleep(seconds)),
            asyncio.ensure_future(self._wanted.wait()),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.wait(waits)

    async def _watch(self) -> None:
        """Time alone can make it unreadable."""
        told = self.state()
        while True:
            state = self.state()
            if state != told:
                told = state
                self._changed()
            await self._sleep(WATCH_SECONDS)


def _nobody(reading: Reading) -> None:
    del reading
