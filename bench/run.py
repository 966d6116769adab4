"""Measures the service beside a bare server and etcd, and over each of its stores.

`python bench/run.py [--quick]` prints a table. A whole run takes about a
quarter of an hour and writes docs/performance.md; a quick one takes less than half of
that and writes nothing, since its figures are rough.
"""

import argparse
import asyncio
import contextlib
import gc
import os
import time
from pathlib import Path

import jobs_abuse
import jobs_calls
import jobs_memory
import jobs_replicas
import jobs_rest
import jobs_restarts
import jobs_stores
import jobs_watch
import processes
import report
from sides import Bare, Etcd, Ours, fresh

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
POOLS = 10_000
JOBS = "abcdefghijk"


async def measure_all(jobs: str, *, etcd_installed: bool, quick: bool) -> list[report.Row]:
    """The rows of the wanted jobs."""
    rows: list[report.Row] = []
    if not set(jobs).isdisjoint("abcde"):
        rows += await _beside_others(jobs, etcd_installed=etcd_installed, quick=quick)
    _freeze()
    if "f" in jobs:
        rows += _told(await jobs_memory.memory(etcd=etcd_installed, quick=quick))
    if "g" in jobs:
        rows += _told(await jobs_stores.calls(quick=quick))
    if "h" in jobs:
        rows += _told(await jobs_stores.living(quick=quick))
    if "i" in jobs:
        rows += _told(await jobs_replicas.replicas(quick=quick))
    if "j" in jobs:
        rows += _told(await jobs_restarts.restarts(quick=quick))
    if "k" in jobs:
        rows += _told(await jobs_abuse.abuse(quick=quick))
    return rows


async def _beside_others(jobs: str, *, etcd_installed: bool, quick: bool) -> list[report.Row]:
    """The jobs that share a server of each kind."""
    rows: list[report.Row] = []
    async with contextlib.AsyncExitStack() as stack:
        ours = await stack.enter_async_context(fresh(Ours))
        bare = await stack.enter_async_context(fresh(Bare))
        etcd = await stack.enter_async_context(fresh(Etcd)) if etcd_installed else None
        await ours.register_pools(POOLS)
        if etcd is not None:
            await etcd.register_pools(POOLS)
        _freeze()
        if "a" in jobs:
            rows += _told(await jobs_calls.register_pool(ours, bare, quick=quick))
        if "b" in jobs:
            rows += _told(await jobs_calls.renew_pools(ours, etcd, quick=quick))
        if "d" in jobs:
            rows += _told(await jobs_watch.snapshot(ours, bare, etcd, quick=quick))
        if "c" in jobs:
            rows += _told(await jobs_watch.changes(ours, bare, etcd, quick=quick))
        if "e" in jobs:
            rows += _told(await jobs_rest.rest(bare, quick=quick))
    return rows


def _freeze() -> None:
    """Keeps the collector out of the load process; its memory is bounded by the jobs."""
    gc.collect()
    gc.freeze()
    gc.disable()


def _told(rows: list[report.Row]) -> list[report.Row]:
    print(report.as_text(rows), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="rough figures in half the time")
    parser.add_argument("--jobs", default=JOBS, help=f"which of {JOBS} to run; all by default")
    parser.add_argument("--output", type=Path, help="where to write the page")
    arguments = parser.parse_args()
    whole = not arguments.quick and arguments.jobs == JOBS
    output = arguments.output or (PAGE if whole else None)
    etcd = processes.etcd_version()
    load = os.getloadavg()[0]
    began = time.perf_counter()
    rows = asyncio.run(
        measure_all(arguments.jobs, etcd_installed=bool(etcd), quick=arguments.quick)
    )
    minutes = (time.perf_counter() - began) / 60
    print(f"\n{minutes:.1f} minutes")
    if output is not None:
        report.write(output, rows, etcd=etcd, minutes=minutes, load=load)
        print(f"wrote {output}")


if __name__ == "__main__":
    main()
