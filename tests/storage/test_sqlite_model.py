"""Any interleaving of calls, time, kills, restarts and write failures, beside a plain reference."""

import asyncio
import contextlib
import itertools
import tempfile
from collections.abc import Coroutine
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from global_discovery.domain.errors import LeaseWithdrawn, ShareNotFound, StoreUnwritable
from global_discovery.domain.pool import PoolKey
from global_discovery.storage.sqlite.store import SqliteStore
from support.clock import FakeClock
from support.lease_world import keys
from support.sqlite_lives import SqliteLife

LEASE, SLACK, REMEMBERED = 15.0, 0.6, 150.0
KEYS = keys(5)
some_keys = st.sampled_from(KEYS)
EVER = float("inf")


@dataclass
class Ref:
    """A share: until when it must be listed, and from when on it must not be."""

    model: str
    lease_id: str
    must: float
    may: float
    restorations: int = 0
    stored: bool = False


@dataclass
class Disk:
    shares: dict[PoolKey, Ref] = field(default_factory=dict)
    withdrawn: dict[str, float] = field(default_factory=dict)
    judged: float = 0.0


class Restarts(RuleBasedStateMachine):
    """Times of the reference are on one clock that goes on over all lives."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.place = tempfile.TemporaryDirectory()
        self.ids = itertools.count(1, 1_000_000)
        self.shares: dict[PoolKey, Ref] = {}
        self.withdrawn: dict[str, float] = {}
        self.disk = Disk()
        self.broken = False
        self.told_broken = False
        self.stepped = 0.0

    # -- lives -----------------------------------------------------------------

    @initialize()
    def first(self) -> None:
        self.begin(FakeClock())

    def begin(self, clock: FakeClock) -> None:
        self.clock = clock
        self.base = self.disk.judged - clock.monotonic()
        path = Path(self.place.name) / "registrations.db"
        self.life = SqliteLife(SqliteStore(path, clock), clock, first_id=next(self.ids))
        self.does(self.life.registrar.open())
        self.opened = self.now
        self.listens: float | None = None
        self.broken = self.told_broken = False

    @property
    def now(self) -> float:
        return self.base + self.clock.monotonic()

    def does(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    async def answered(self, call: Coroutine[Any, Any, Any]) -> Any:
        """With the store's loop running as often as the call needs it."""
        task = asyncio.ensure_future(call)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await self.life.store.flush()
        with contextlib.suppress(Exception):
            await task
        return task

    def call(self, call: Coroutine[Any, Any, Any]) -> Any:
        """What it gives; raises what it raises. Everything is on the disk then, or is not."""
        task = self.does(self.answered(call))
        self.flushed()
        return task.result()

    def flushed(self) -> None:
        if self.broken:
            return
        self.told_broken = False
        for share in self.shares.values():
            share.stored = True
        self.disk = Disk(deepcopy(self.shares), dict(self.withdrawn), self.judged)

    @property
    def judged(self) -> float:
        return max(self.opened, self.life.store._judged + self.base)

    @rule(
        monotonic=st.sampled_from([3.0, 1000.0, 50_000.0]), step=st.sampled_from([-9e5, 0.0, 7e4])
    )
    def kill(self, monotonic: float, step: float) -> None:
        self.does(self.life.let_go())
        self.restart(monotonic, step)

    @rule(monotonic=st.sampled_from([3.0, 1000.0]))
    def stop_in_order(self, monotonic: float) -> None:
        self.does(self.life.store.close())
        self.flushed()
        self.restart(monotonic, 0.0)

    def restart(self, monotonic: float, step: float) -> None:
        clock = FakeClock(monotonic=monotonic, boottime=monotonic + 0.5)
        self.stepped += step
        clock.step_wall(self.stepped)
        disk = self.disk
        self.begin(clock)
        self.shares, self.withdrawn = {}, dict(disk.withdrawn)
        for key, share in disk.shares.items():
            if share.may <= disk.judged:
                continue
            unsure = share.must <= disk.judged
            if share.restorations < 3:
                share.restorations += 1
                share.must, share.may = (-EVER if unsure else EVER), EVER
            else:
                left = share.may - disk.judged
                share.must, share.may = -EVER, self.now + min(left, 2 * LEASE) + SLACK
            self.shares[key] = share
        self.disk = Disk(deepcopy(self.shares), dict(self.withdrawn), self.now)

    def heard(self) -> None:
        if self.listens is None:
            self.listen(self.now)

    def listen(self, at: float) -> None:
        self.listens = at
        for share in self.shares.values():
            if share.may == EVER:
                share.may = at + LEASE + SLACK
                share.must = min(share.must, at + LEASE)

    # -- calls -----------------------------------------------------------------

    @rule(key=some_keys, model=st.sampled_from(["a", "b"]), named=st.booleans())
    def register(self, key: PoolKey, model: str, *, named: bool) -> None:
        before = self.shares.get(key)
        there = before is not None and self.now < before.must
        if before is not None and not there and self.now < before.may:
            return  # it may have lapsed or not: both is right
        known = before is not None and before.stored  # no caller was told the id of another
        lease_id = before.lease_id if before is not None and known and named else ""
        call = self.life.register(key, model=model, lease_id=lease_id)
        share = Ref(model, "", self.now + LEASE, self.now + LEASE + SLACK)
        if there and before is not None:
            share.stored = before.stored
        unstored = self.broken and not share.stored
        self.shares[key] = share
        self.heard()
        try:
            share.lease_id = self.call(call)
        except StoreUnwritable:
            assert unstored
            self.told_broken = True
            share.lease_id = self.current(key)
            return
        assert not unstored
        if there and lease_id:
            assert share.lease_id == lease_id
        if not self.broken:
            self.disk.shares[key] = deepcopy(share)

    def current(self, key: PoolKey) -> str:
        (share,) = self.life.world.registrations._table.pools[key].shares.values()
        return share.lease_id

    @rule()
    def renew_all(self) -> None:
        sure = [share for share in self.shares.values() if self.now < share.must]
        renewals = self.does(self.life.renew(*(share.lease_id for share in sure)))
        assert (renewals.unknown, renewals.not_stored) == ([], [])
        if sure:
            self.heard()
        for share in sure:
            share.must, share.may = self.now + LEASE, self.now + LEASE + SLACK
            share.restorations = 0

    @rule(key=some_keys)
    def withdraw(self, key: PoolKey) -> None:
        share = self.shares.get(key)
        if share is not None and share.must <= self.now < share.may:
            return
        there = share is not None and self.now < share.must
        try:
            self.call(self.life.withdraw(key, relay_id="r1"))
        except ShareNotFound:
            assert not there
        except StoreUnwritable:
            assert there
            assert self.broken
            self.told_broken = True
        else:
            assert there
            assert share is not None
            assert not self.broken
            del self.shares[key]
            self.withdrawn[share.lease_id] = self.now + REMEMBERED
            self.flushed()

    @precondition(lambda self: self.withdrawn)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        lease_id = data.draw(st.sampled_from(sorted(self.withdrawn)))
        if self.now < self.withdrawn[lease_id] - SLACK:
            with pytest.raises(LeaseWithdrawn):
                self.does(self.life.register(KEYS[0], lease_id=lease_id))

    # -- time and trouble --------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 4.0, 9.0, 16.0]))
    def run(self, seconds: float) -> None:
        latest = self.opened + LEASE
        self.life.run(seconds)
        if self.listens is None and self.now >= latest:
            self.listen(latest)
        for key in [key for key, share in self.shares.items() if self.now >= share.may]:
            del self.shares[key]

    @rule()
    def flush(self) -> None:
        self.does(self.life.store.flush())
        self.flushed()

    @rule()
    def toggle_trouble(self) -> None:
        self.broken = not self.broken
        self.does(self.life.in_its_thread(f"PRAGMA query_only = {int(self.broken)}"))
        self.flush()  # the store finds out

    # -- what must hold -----------------------------------------------------------

    @invariant()
    def what_must_be_listed_is_and_what_must_not_be_is_not(self) -> None:
        if not hasattr(self, "life"):
            return
        listed = self.life.listed
        must = {key: share.model for key, share in self.shares.items() if self.now < share.must}
        assert must.items() <= listed.items()
        assert set(listed) <= {key for key, share in self.shares.items() if self.now < share.may}

    @invariant()
    def the_state_says_whether_it_fails(self) -> None:
        if hasattr(self, "life"):
            failing = self.life.store.state().failing
            assert failing if self.told_broken else not failing or self.broken

    def teardown(self) -> None:
        if hasattr(self, "life"):
            self.does(self.life.let_go())
        self.loop.close()
        self.place.cleanup()


TestRestarts = pytest.mark.timeout(600)(Restarts.TestCase)  # shrinking a failure takes its time
TestRestarts.settings = settings(max_examples=40, stateful_step_count=30)
