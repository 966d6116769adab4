"""Job i: two replicas over one table, and how a change at one comes to a watcher of the other."""

import asyncio
import time
from collections.abc import Mapping

import h2
import measure
import report
from report import Row
from sides import Ours
from stores import a_table, paced, probed, register_new, renew

POOLS = 10_000
HEARTBEAT_SECONDS = 5
REFRESH_SECONDS = 1
BATCH = 100
CHANGES_A_SECOND = 25
WAIT_SECONDS = 20.0


class Arrivals:
    """One watcher, and when which change came to it."""

    def __init__(self, side: Ours) -> None:
        """Opened by `open`."""
        self.side = side
        self.came: dict[int, float] = {}
        self._channel: h2.Channel | None = None
        self._news = asyncio.Event()

    async def open(self) -> None:
        """Watches from now on."""
        await self.side.look()
        self._channel = await h2.connect(self.side.server.ports["grpc"])
        self.side.watch(self._channel, self._receive)

    def _receive(self, message: bytes) -> None:
        now = time.perf_counter()
        for number in self.side.changes_in(message):
            self.came.setdefault(number, now)
        self._news.set()

    async def lags(self, started: Mapping[int, float]) -> list[float]:
        """How long each change took, in seconds, sorted; once all are there."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not started.keys() <= self.came.keys():
                self._news.clear()
                await self._news.wait()
        assert self._channel is not None
        self._channel.close()
        return sorted(self.came[number] - at for number, at in started.items())


async def replicas(*, quick: bool) -> list[Row]:
    """Job i."""
    async with a_table() as table, table.replica(refresh_seconds=REFRESH_SECONDS) as a:
        await register_new(a, POOLS)
        began = time.perf_counter()
        async with table.replica(refresh_seconds=REFRESH_SECONDS) as b:
            start = {"B": time.perf_counter() - began}
            lags = await _changes(a, b, 3 if quick else 12)
            busy, held = await _renewals(a, b, 2 if quick else 6)
    rows = []
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        what = f"a change at A until a watcher has it, {name}"
        found = {side: measure.percentile(lag, share) for side, lag in lags.items()}
        periods = {side: lag / REFRESH_SECONDS for side, lag in found.items()}
        rows += [
            report.row_of("i", what, "ms", {side: lag * 1e3 for side, lag in found.items()}),
            report.row_of("i", what, "refresh periods", periods),
        ]
    return [
        *rows,
        report.row_of("i", "CPU", "% of a core", busy),
        report.row_of("i", "longest hold of the loop", "ms", held),
        report.row_of("i", f"a start with {POOLS:,} pools in the table, until ready", "s", start),
    ]


async def _changes(a: Ours, b: Ours, seconds: int) -> dict[str, list[float]]:
    """How long each change took to a watcher of either, in seconds, sorted."""
    watchers = {"A": Arrivals(a), "B": Arrivals(b)}
    for watcher in watchers.values():
        await watcher.open()
    started: dict[int, float] = {}

    async def change(number: int) -> None:
        started[number + 1] = time.perf_counter()
        await a.change(number + 1, number)

    await paced(CHANGES_A_SECOND, seconds, change)
    return {name: await watcher.lags(started) for name, watcher in watchers.items()}


async def _renewals(a: Ours, b: Ours, seconds: int) -> tuple[dict[str, float], dict[str, float]]:
    """What both use while A takes all renewals, and for how long their loops are held."""
    batches = POOLS // BATCH

    async def renewal(number: int) -> None:
        first = number % batches * BATCH
        await renew(a, a.lease_ids[first : first + BATCH])

    async with probed(a) as probe_a, probed(b) as probe_b:
        with measure.Cost(a.server) as cost_a, measure.Cost(b.server) as cost_b:
            await paced(batches / HEARTBEAT_SECONDS, seconds, renewal)
    # A may take longer for its share of work than it has; B reads once a second all the same.
    busy = {"A": cost_a.cpu / seconds * 100, "B": cost_b.cpu / cost_b.wall * 100}
    return busy, {"A": max(probe_a), "B": max(probe_b)}
