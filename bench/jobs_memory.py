"""Job f: what an idle watcher and a lease weigh. Each on a server that did nothing else."""

import asyncio

import report
from jobs_watch import Watchers
from report import Aim, Row
from sides import Bare, Etcd, Ours, fresh

WARM_WATCHERS = 100
WATCHERS = 2_000
SETTLE_SECONDS = 0.5


async def memory(*, etcd: bool, quick: bool) -> list[Row]:
    """Job f."""
    watcher = {"ours": await _per_watcher(Ours), "bare": await _per_watcher(Bare)}
    pools = 10_000 if quick else 100_000
    lease = {"ours": await _per_lease(Ours, pools)}
    if etcd:
        watcher["etcd"] = await _per_watcher(Etcd)
        lease["etcd"] = await _per_lease(Etcd, pools)
    aim = Aim("etcd", 1.0, at_most=True) if etcd else None
    return [
        report.row_of("f", f"an idle watcher, of {WATCHERS:,}", "kB", watcher, aim=aim),
        report.row_of("f", f"a pool and its lease, of {pools:,}", "kB", lease),
    ]


async def _per_watcher(kind: type[Ours] | type[Bare] | type[Etcd]) -> float:
    async with fresh(kind) as side:
        if isinstance(side, Ours):
            await side.look()
        await Watchers(side).open(WARM_WATCHERS)
        before = side.server.memory()
        await Watchers(side).open(WATCHERS)
        await asyncio.sleep(SETTLE_SECONDS)
        return (side.server.memory() - before) / WATCHERS / 1e3


async def _per_lease(kind: type[Ours] | type[Etcd], pools: int) -> float:
    async with fresh(kind) as side:
        before = side.server.memory()
        await side.register_pools(pools)
        await asyncio.sleep(SETTLE_SECONDS)
        return (side.server.memory() - before) / pools / 1e3
