"""Job j: a start with what was stored before."""

import shutil
import tempfile
import time
from pathlib import Path

import content
import http1
import measure
import processes
import report
from report import Row
from stores import DISK, sqlite_flags

from global_discovery.domain.clock import SystemClock
from global_discovery.domain.pool import Content, Location, PoolKey
from global_discovery.storage.sqlite.file import Batch, StoreFile
from global_discovery.storage.store import StoredShare

LEASE_SECONDS = 3600


async def restarts(*, quick: bool) -> list[Row]:
    """Job j."""
    rows = []
    with tempfile.TemporaryDirectory(dir=DISK) as name:
        folder = Path(name)
        for pools in (10_000,) if quick else (10_000, 100_000):
            written = folder / f"{pools}.db"
            _write(written, pools)
            found = await measure.alternating(
                1 if quick else 2,
                {"memory": _start(), "sqlite": _start_with(written, folder / "used.db", pools)},
            )
            size = {"sqlite": written.stat().st_size / 1e6}
            what = f"{pools:,} pools"
            rows += [
                report.row("j", f"{what}, until ready", "s", found, "wall"),
                report.row("j", f"{what}, CPU until ready", "s", found, "cpu"),
                report.row_of("j", f"{what}, size of the file", "MB", size),
            ]
    return rows


def _write(path: Path, pools: int) -> None:
    """The file that an instance with so many pools leaves."""
    clock = SystemClock()
    file = StoreFile(path, clock)
    file.open()
    now = clock.monotonic()
    file.write(
        Batch(
            judged=now,
            wall=clock.wall(),
            shares=[(index + 1, _stored_share(index)) for index in range(pools)],
            leases=[(index + 1, now + LEASE_SECONDS, 0) for index in range(pools)],
            gone=[],
            withdrawn=[],
        )
    )
    file.close()


def _stored_share(index: int) -> StoredShare:
    told = content.registration(index)
    place = told.location
    return StoredShare(
        key=PoolKey(told.key.cluster_id, told.key.namespace, told.key.dgd_name),
        identity=("relay_id", f"relay-{index:06d}"),
        lease_id=f"{index:016d}",
        granted=LEASE_SECONDS,
        number=1,
        content=Content(
            model=told.model,
            location=Location(place.region, place.availability_zone, place.datacenter),
            capabilities=tuple(told.capabilities),
            capacity=tuple((each.gpu_sku, each.gpu_count) for each in told.capacity),
            frontends=tuple(told.frontends),
        ),
        relays=tuple(told.relays),
        registered_time=time.time(),
    )


def _start(*flags: str, pools: int = 0) -> measure.Measure:
    """A start that must find so many pools."""

    async def one_round() -> dict[str, float]:
        began = time.perf_counter()
        with processes.our_server(*flags) as server:
            found = {"wall": time.perf_counter() - began, "cpu": server.cpu()}
            connection = await http1.connect(server.ports["http"])
            metrics = await connection.ask(http1.request("GET", "/metrics"), keep=True)
            connection.close()
        if f"global_discovery_registered_pools {float(pools)}\n".encode() not in metrics.body:
            raise RuntimeError(f"not {pools:,} pools after a start")
        return found

    return one_round


def _start_with(written: Path, used: Path, pools: int) -> measure.Measure:
    """Each round from a copy: a lease is restored three times at most."""
    start = _start(*sqlite_flags(used), pools=pools)

    async def one_round() -> dict[str, float]:
        shutil.copyfile(written, used)
        return await start()

    return one_round
