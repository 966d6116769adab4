"""Lives over one SQLite file, each ended in order or by a kill, and a disk that can be full."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

from global_discovery.storage.sqlite.store import SqliteStore
from support.clock import FakeClock
from support.store_life import StoreLife

_first_ids = itertools.count(1, 1_000_000)
"""No two lives give the same id, as no two processes do."""


class SqliteLife(StoreLife):
    """One process's life over a file."""

    store: SqliteStore

    async def in_its_thread(self, statement: str) -> list[tuple[object, ...]]:
        """Runs a statement on the connection of the store; its rows."""
        connection = self.store._file._connection
        assert connection is not None
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self.store._thread, lambda: connection.execute(statement).fetchall()
        )

    async def fill_the_disk(self) -> None:
        """No page more: SQLite itself says SQLITE_FULL, as for a full disk."""
        await self.in_its_thread("PRAGMA max_page_count = 1")

    async def make_room(self) -> None:
        await self.in_its_thread("PRAGMA max_page_count = 1000000")

    async def let_go(self) -> None:
        """What the kernel does after a SIGKILL: nothing more is written, the lock is free."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self.store._thread, self.store._file.close)
        self.store._thread.shutdown(wait=False)
        self.store._closed = True


@contextlib.asynccontextmanager
async def sqlite_life(
    path: Path, clock: FakeClock, *, killed: bool = False
) -> AsyncIterator[SqliteLife]:
    """Its file is written as it is in a process; at the end it is stopped in order, or killed."""
    life = SqliteLife(SqliteStore(path, clock), clock, first_id=next(_first_ids))
    life.store._report = lambda event, **fields: life.world.events.append((event, fields))
    await life.registrar.open()
    running = asyncio.create_task(life.store.run())
    try:
        yield life
    finally:
        running.cancel()
        await asyncio.wait([running])
        await (life.let_go() if killed else life.store.close())
