"""`--registration-storage sqlite`: the loop's side.

The loop knows every live share and what of it is not on the disk yet; a thread
of its own writes that, one transaction after the other, each with everything
that came together while the one before was written. Registrations and
withdrawals are written at once and answered when they are on the disk; renewals
and the clock once a second. So a power cut loses the renewals of the last
second, which costs nothing after a restoration, and nothing that was answered.

While the file cannot be written, everything goes on from memory: renewals, new
incarnations and changes of a share that is on the disk succeed, a new share and
a withdrawal do not. A new share is written later all the same, with everything
else that is missing, once the file can be written again; the store tries each
second. A file that was damaged, deleted or cut off meanwhile is begun anew.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from global_discovery.domain.clock import Clock
from global_discovery.domain.errors import StoreUnwritable
from global_discovery.domain.events import Event, Report, ignore
from global_discovery.domain.pool import PoolKey
from global_discovery.storage.sqlite.file import Batch, FileFailed, Row, StoreFile, lease_from
from global_discovery.storage.store import (
    Figure,
    FigureKind,
    MovedLease,
    Reading,
    SeenShare,
    StoredShare,
    StoreState,
)

FLUSH_SECONDS = 1.0
SLOW_SECONDS = 2.0
"""A write that takes longer counts as failing until it is done."""
SWEEP_SECONDS = 60.0


class _Kept:
    """One live share, as the loop knows it."""

    __slots__ = ("deadline", "extensions", "id", "on_disk", "share")

    def __init__(self, row: int, share: StoredShare) -> None:
        self.id = row
        self.share = share
        self.deadline = 0.0
        self.extensions = 0
        self.on_disk = False


@dataclass(slots=True)
class _Write:
    """A batch, and whom its end concerns."""

    batch: Batch
    anew: bool
    """Whether the file is begun anew with it."""
    shares: dict[int, _Kept]
    leases: dict[int, _Kept]
    gone: set[int]
    waiting: list[asyncio.Future[bool]]
    withdrawn: list[_Kept]


class SqliteStore:
    """Belongs to one event loop. `put` and `withdraw` are answered while `run` runs."""

    name = "sqlite"
    shared = False

    def __init__(self, path: Path, clock: Clock, report: Report = ignore) -> None:
        """Opens nothing. `clock` is the one that leases are measured on."""
        self._file = StoreFile(path, clock)
        self._clock = clock
        self._report = report
        self._thread = ThreadPoolExecutor(1, "sqlite")
        self._changed: Callable[[], None] = lambda: None
        self._kept: dict[tuple[PoolKey, tuple[str, str]], _Kept] = {}
        self._by_lease: dict[str, _Kept] = {}
        self._withdrawn: dict[str, float] = {}
        self._next_row = 1
        self._judged = self._swept = clock.monotonic()
        # What is not on the disk yet:
        self._shares: dict[int, _Kept] = {}
        self._leases: dict[int, _Kept] = {}
        self._gone: set[int] = set()
        self._withdrawals: dict[str, float] = {}
        self._waiting: list[asyncio.Future[bool]] = []
        self._urgent = asyncio.Event()
        self._writing: asyncio.Future[None] | None = None
        self._began = float("inf")
        self._failing = False
        self._lost = False
        self._failures = 0
        self._closed = False
        self._commits = 0
        self._commit_seconds = 0.0

    # -- how it is ----------------------------------------------------------------

    def state(self) -> StoreState:
        """It never casts doubt on the mark: the leases run in memory."""
        return StoreState(failing=self._failing or self._slow(), failures=self._failures)

    def figures(self) -> Sequence[Figure]:
        """What it has written, and what waits for that."""
        waiting = sum(map(len, (self._shares, self._leases, self._gone, self._withdrawals)))
        gauge, counter = FigureKind.GAUGE, FigureKind.COUNTER
        return (
            Figure("sqlite_shares", "Shares that are kept.", gauge, {(): len(self._kept)}),
            Figure("sqlite_waiting", "Rows that are to be written.", gauge, {(): waiting}),
            Figure("sqlite_commits", "Transactions on the disk.", counter, {(): self._commits}),
            Figure(
                "sqlite_commit_seconds",
                "Spent on transactions, failed ones too.",
                counter,
                {(): self._commit_seconds},
            ),
        )

    def _slow(self) -> bool:
        return self._clock.monotonic() > self._began + SLOW_SECONDS

    def read_soon(self) -> None:
        """Nobody else writes it."""

    def on_reading(self, take: Callable[[Reading], None], changed: Callable[[], None]) -> None:
        """Nothing is read later on."""
        del take
        self._changed = changed

    async def open(self) -> Reading:
        """Raises OSError with a sentence for the operator."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._open)

    def _open(self) -> Reading:
        """In the thread, as it may take seconds; the loop touches nothing before it is done."""
        contents = self._file.open()
        now = self._clock.monotonic()
        self._judged = now
        self._withdrawn = dict(contents.withdrawn)
        seen = [self._found(row, now) for row in contents.rows]
        remembered = {lease_id: until - now for lease_id, until in contents.withdrawn.items()}
        return Reading(seen, remembered)

    def _found(self, row: Row, now: float) -> SeenShare:
        kept = _Kept(row.id, row.share)
        _, kept.deadline, kept.extensions = lease_from(row, now)
        kept.on_disk = True
        self._kept[row.share.key, row.share.identity] = kept
        self._by_lease[row.share.lease_id] = kept
        self._next_row = max(self._next_row, row.id + 1)
        return SeenShare(row.share, row.remaining, renewed=False, extensions=row.extensions)

    async def consult(self, key: PoolKey, lease_ids: Sequence[str]) -> Reading:
        """Nobody else writes it."""
        del key, lease_ids
        return Reading()

    # -- calls ----------------------------------------------------------------------

    async def put(self, share: StoredShare) -> None:
        """Keeps a share; one that is not on the disk yet raises StoreUnwritable until it is."""
        if share.lease_id in self._withdrawn:
            return  # withdrawn while the call was under way
        kept = self._keep(share)
        if not self.state().failing and await self._written(SLOW_SECONDS):
            return
        if not kept.on_disk:
            raise StoreUnwritable

    def _keep(self, share: StoredShare) -> _Kept:
        name = (share.key, share.identity)
        kept = self._kept.get(name)
        if kept is not None and kept.deadline <= self._judged:
            self._drop(kept)  # it lapsed: this is a new share
            kept = None
        if kept is None:
            kept = self._kept[name] = _Kept(self._next_row, share)
            self._next_row += 1
        else:
            self._by_lease.pop(kept.share.lease_id, None)
        kept.share = share
        self._by_lease[share.lease_id] = kept
        self._shares[kept.id] = kept
        self._renewed(kept)
        return kept

    async def renew(self, lease_ids: Sequence[str]) -> Sequence[str]:
        """Always succeeds: it costs durability only when the file cannot be written."""
        for lease_id in lease_ids:
            kept = self._by_lease.get(lease_id)
            if kept is not None:
                self._renewed(kept)
        return ()

    def _renewed(self, kept: _Kept) -> None:
        kept.deadline = self._clock.monotonic() + kept.share.granted
        kept.extensions = 0
        self._leases[kept.id] = kept

    def leases_judged(self, now: float, moved: Sequence[MovedLease]) -> None:
        """What the next process will judge by which shares were alive."""
        self._judged = now
        if self._slow():
            self._say_failing(f"{self._file.path}: a write takes longer than {SLOW_SECONDS:g} s")
        for lease in moved:
            kept = self._by_lease.get(lease.lease_id)
            if kept is not None:
                kept.deadline = lease.deadline
                kept.extensions = max(kept.extensions, lease.extensions)
                self._leases[kept.id] = kept

    async def withdraw(self, lease_ids: Sequence[str], *, remember: float) -> None:
        """All of them, or none and StoreUnwritable."""
        if self.state().failing:
            raise StoreUnwritable
        until = self._clock.monotonic() + remember
        self._withdrawals.update(dict.fromkeys(lease_ids, until))
        if not await self._written(None):
            raise StoreUnwritable

    async def _written(self, patience: float | None) -> bool:
        """Whether the next batch came to the disk, as far as is known after `patience` seconds."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._urgent.set()
        try:
            return await asyncio.wait_for(future, patience)
        except TimeoutError:
            return False

    # -- writing --------------------------------------------------------------------

    async def run(self) -> None:
        """Writes what there is to write, until it is cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self._urgent.wait()
            await self.flush()
            if self._failing:
                await asyncio.sleep(FLUSH_SECONDS)

    async def flush(self) -> None:
        """Writes everything that is not on the disk, after what is being written."""
        while self._writing is not None:
            await asyncio.wait([self._writing])
        self._urgent.clear()
        if self._kept or self._gone or self._waiting or self._failing:
            self._sweep()
            self._writing = self._begin(self._collect())
            await asyncio.wait([self._writing])

    def _begin(self, write: _Write) -> "asyncio.Future[None]":
        """Its end is taken note of whoever still waits for it."""
        if write.anew:
            self._everything(write)
        self._began = self._clock.monotonic()
        loop = asyncio.get_running_loop()
        writing = loop.run_in_executor(self._thread, self._write, write.batch, write.anew)
        writing.add_done_callback(lambda done: self._ended(write, done))
        return writing

    def _write(self, batch: Batch, anew: bool) -> None:  # noqa: FBT001 - for the thread
        if anew:
            self._file.begin_anew()
        self._file.write(batch)

    def _collect(self) -> _Write:
        shares, self._shares = self._shares, {}
        leases, self._leases = self._leases, {}
        gone, self._gone = self._gone, set()
        withdrawals, self._withdrawals = self._withdrawals, {}
        waiting, self._waiting = self._waiting, []
        ended = [self._by_lease[name] for name in withdrawals if name in self._by_lease]
        batch = Batch(
            judged=self._judged,
            wall=self._clock.wall(),
            shares=[(row, kept.share) for row, kept in shares.items()],
            leases=_leases_of(leases.values()),
            gone=[*gone, *(kept.id for kept in ended)],
            withdrawn=list(withdrawals.items()),
        )
        anew, self._lost = self._lost, False
        return _Write(batch, anew, shares, leases, gone, waiting, ended)

    def _everything(self, write: _Write) -> None:
        """The file is empty, or will be: all that is live must be written."""
        everything = {kept.id: kept for kept in self._kept.values()}
        write.shares, write.leases = everything, dict(everything)
        write.batch.shares = [(row, kept.share) for row, kept in everything.items()]
        write.batch.leases = _leases_of(everything.values())
        write.batch.withdrawn = [*self._withdrawn.items(), *write.batch.withdrawn]

    def _ended(self, write: _Write, done: "asyncio.Future[None]") -> None:
        self._commit_seconds += max(self._clock.monotonic() - self._began, 0.0)
        self._writing, self._began = None, float("inf")
        error = None if done.cancelled() else done.exception()
        if error is None:
            self._succeeded(write)
        else:
            self._failed(write, error)
        for future in write.waiting:
            if not future.done():
                future.set_result(error is None)

    def _succeeded(self, write: _Write) -> None:
        self._commits += 1
        for kept in write.shares.values():
            kept.on_disk = True
        for kept in write.withdrawn:
            kept.on_disk = False
        for lease_id, until in write.batch.withdrawn:
            self._withdrawn[lease_id] = until
            kept_still = self._by_lease.get(lease_id)
            if kept_still is not None:
                self._forget(kept_still)
        if self._failing:
            self._failing = False
            self._report(Event.STORE_WORKS_AGAIN)
            self._changed()

    def _failed(self, write: _Write, error: BaseException) -> None:
        """What was to be written still is; withdrawals are not."""
        self._shares = {**write.shares, **self._shares}
        self._leases = {**write.leases, **self._leases}
        self._gone |= write.gone
        self._lost = write.anew or (isinstance(error, FileFailed) and error.lost)
        self._say_failing(str(error))

    def _say_failing(self, message: str) -> None:
        if not self._failing:
            self._failing = True
            self._failures += 1
            self._report(Event.STORE_FAILING, store=self.name, message=message)
            self._changed()

    def _sweep(self) -> None:
        """Lets go of shares that lapsed and of ids that were remembered long enough."""
        now = self._clock.monotonic()
        if now < self._swept + SWEEP_SECONDS:
            return
        self._swept = now
        for kept in [kept for kept in self._kept.values() if kept.deadline <= self._judged]:
            self._drop(kept)
        self._withdrawn = {name: until for name, until in self._withdrawn.items() if until > now}

    def _drop(self, kept: _Kept) -> None:
        """It is not live any more; its row goes with the next batch."""
        self._forget(kept)
        self._gone.add(kept.id)

    def _forget(self, kept: _Kept) -> None:
        self._by_lease.pop(kept.share.lease_id, None)
        self._kept.pop((kept.share.key, kept.share.identity), None)
        self._shares.pop(kept.id, None)
        self._leases.pop(kept.id, None)

    async def close(self) -> None:
        """Writes what is left, as far as that is possible."""
        if self._closed:
            return
        self._closed = True
        await self.flush()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._file.close)
        self._thread.shutdown(wait=False)


def _leases_of(shares: Iterable[_Kept]) -> list[tuple[int, float, int]]:
    return [(kept.id, kept.deadline, kept.extensions) for kept in shares]
