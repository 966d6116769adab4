"""What remains after very many comings and goings: nothing.

Each soak is done in thirds. The first fills what is bounded (histories, caches, arenas);
the last must then take no more than the second left: tasks, descriptors, threads and
series not one more, memory less than what a leak of some tens of bytes a cycle would be.
"""

import asyncio
import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import grpc
import pytest

from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support import footprint
from support.footprint import MIB, Footprint
from support.metrics import metric
from support.pools import a_registration
from support.serve_process import LOOPBACK, SHORT_LEASE, ServeProcess, started
from support.tcp_proxy import tcp_proxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

AT_ONCE = 64
PATIENCE_SECONDS = 120
GROWTH_MIB = 4
ROOM_BYTES = 1_500 * 512
"""More than 1,500 pools take that are in a file at once, less than 4,500 would."""
PASSING = 3
"""What is there at one moment and not at another, such as the connection that asks."""


class Soaked:
    """A server, and what it took after each third."""

    def __init__(self, server: ServeProcess, ports: dict[str, int]) -> None:
        self.server = server
        self.grpc_port = ports["grpc_port"]
        self.rest_port = ports["rest_port"]
        self.taken: list[Footprint] = []

    async def third(self, work: Callable[[], Awaitable[None]]) -> None:
        await work()
        await self.until_empty()
        self.taken.append(await footprint.footprint(self.server, self.rest_port))

    async def until_empty(self) -> None:
        """No pool and no watcher is left."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            for name in ("registered_pools", 'watchers{view="pools"}'):
                while await metric(self.rest_port, f"global_discovery_{name}"):  # noqa: ASYNC110 - of another process
                    await asyncio.sleep(0.2)

    def assert_flat(self, *, history_is_full: bool = True) -> None:
        """Of memory only once the view's history is full: it keeps 65,536 changes."""
        _, second, last = self.taken
        if history_is_full:
            assert last.resident - second.resident < GROWTH_MIB * MIB, self.taken
        assert last.descriptors <= second.descriptors + PASSING, self.taken
        assert last.threads <= second.threads + PASSING, self.taken
        assert last.tasks <= second.tasks + PASSING, self.taken
        assert last.series == second.series, self.taken


@contextlib.asynccontextmanager
async def soaked(*flags: str) -> AsyncIterator[Soaked]:
    async with started(*LOOPBACK, *flags, command=footprint.COMMAND) as server:
        yield Soaked(server, await server.ready())


@contextlib.asynccontextmanager
async def a_stub(port: int) -> AsyncIterator[PoolDiscoveryServiceStub]:
    """Over a connection of its own."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        yield PoolDiscoveryServiceStub(channel)  # type: ignore[no-untyped-call, unused-ignore]


async def at_once(work: Callable[[int], Awaitable[object]], numbers: range) -> None:
    """Each number, so many at a time."""
    left = iter(numbers)

    async def some() -> None:
        for number in left:
            await work(number)

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))


@contextlib.contextmanager
def a_copy_of(path: Path) -> Iterator[sqlite3.Connection]:
    """A copy of a file that is in use."""
    with tempfile.TemporaryDirectory() as folder:
        for file in path.parent.iterdir():
            shutil.copy(file, folder)
        with contextlib.closing(sqlite3.connect(Path(folder) / path.name)) as copy:
            yield copy


def rows_in(path: Path) -> int:
    """Of shares, leases and withdrawn ids."""
    with a_copy_of(path) as copy:
        tables = ("share", "lease", "withdrawn")
        counts = [copy.execute(f"SELECT count(*) FROM {name}") for name in tables]  # noqa: S608 - of ours
        return sum(int(count.fetchone()[0]) for count in counts)


def pages_in_use(path: Path) -> int:
    """Those that hold something. How many there are besides depends on what came at once."""
    with a_copy_of(path) as copy:
        (pages,) = copy.execute("PRAGMA page_count").fetchone()
        (free,) = copy.execute("PRAGMA freelist_count").fetchone()
        return int(pages) - int(free)


def a_call(number: int) -> pb.RegisterPoolRequest:
    return pb.RegisterPoolRequest(registration=a_registration(number), relay_id=f"relay-{number}")


async def test_a_hundred_thousand_pools_that_came_and_lapsed_leave_nothing_behind() -> None:
    async with soaked(*SHORT_LEASE) as soak, a_stub(soak.grpc_port) as stub:
        for third in range(3):
            numbers = range(third * 33_400, (third + 1) * 33_400)
            await soak.third(lambda n=numbers: at_once(lambda i: stub.RegisterPool(a_call(i)), n))
        soak.assert_flat()


async def test_what_came_and_went_leaves_a_file_and_its_room_is_used_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "registrations.db"
    in_use: list[int] = []
    flags = ["--registration-storage=sqlite", f"--sqlite-path={path}"]
    async with soaked(*SHORT_LEASE, *flags) as soak, a_stub(soak.grpc_port) as stub:

        async def come_and_go(number: int) -> None:
            lease = await stub.RegisterPool(a_call(number))
            if number % 2:
                key = a_registration(number).key
                await stub.DeregisterPool(
                    pb.DeregisterPoolRequest(key=key, lease_id=lease.lease_id)
                )

        for third in range(3):
            numbers = range(third * 1_500, (third + 1) * 1_500)
            await soak.third(lambda n=numbers: at_once(come_and_go, n))
            async with asyncio.timeout(PATIENCE_SECONDS):
                while await asyncio.to_thread(rows_in, path):  # noqa: ASYNC110 - ids are remembered for ten leases
                    await asyncio.sleep(1)
            in_use.append(await asyncio.to_thread(pages_in_use, path))
        soak.assert_flat(history_is_full=False)
    assert max(in_use) <= in_use[0] + 4, in_use
    assert path.stat().st_size < ROOM_BYTES


async def test_thirty_thousand_watches_that_were_left_leave_nothing_behind() -> None:
    async with soaked() as soak, a_stub(soak.grpc_port) as stub:

        async def watch(_number: int) -> None:
            stream = stub.WatchPools(pb.WatchPoolsRequest())
            await stream.read()
            stream.cancel()

        for _ in range(3):
            await soak.third(lambda: at_once(watch, range(10_000)))
        soak.assert_flat()


async def test_a_thousand_relays_that_reconnect_leave_nothing_behind() -> None:
    async with soaked(*SHORT_LEASE) as soak, tcp_proxy(soak.grpc_port) as proxy:

        async def come_twice(number: int) -> None:
            """Registers, loses its connection, and renews over another one."""
            call = a_call(number)
            for _ in range(2):
                async with a_stub(proxy.port) as stub:
                    call.lease_id = (await stub.RegisterPool(call)).lease_id
                    if not number % 100:
                        proxy.cut()

        async def all_of_them() -> None:
            await at_once(_again_when_cut(come_twice), range(1_000))
            proxy.cut()

        for _ in range(3):
            await soak.third(all_of_them)
        soak.assert_flat()


def _again_when_cut(work: Callable[[int], Awaitable[None]]) -> Callable[[int], Awaitable[None]]:
    """A call that another one's cut broke is made again, as a relay makes it."""

    async def until_done(number: int) -> None:
        while True:
            try:
                return await work(number)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise

    return until_done
