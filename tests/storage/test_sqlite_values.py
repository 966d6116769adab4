"""Values that a caller may send, and those that a disk or a hand may leave in the file."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from global_discovery.domain.lease import Heartbeat
from global_discovery.domain.pool import Content, Location, Registration
from global_discovery.storage.sqlite.file import StoreFile
from global_discovery.storage.sqlite.store import SqliteStore
from support.clock import FakeClock
from support.lease_world import KEY
from support.sqlite_lives import sqlite_life


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "registrations.db"


async def refusal(path: Path) -> str:
    """What the operator is told when the file cannot be opened."""
    store = SqliteStore(path, FakeClock())
    with pytest.raises(OSError, match=path.name) as refused:
        await store.open()
    await store.close()
    return str(refused.value)


async def a_file(path: Path) -> None:
    """One with a pool in it."""
    async with sqlite_life(path, FakeClock()) as life:
        await life.register()


@pytest.mark.parametrize("sequence", [2**63 - 1, 2**63, 2**64 - 1])
async def test_every_legal_sequence_is_stored_and_read_again(path: Path, sequence: int) -> None:
    """SQLite's own numbers end at 2**63 - 1."""
    clock = FakeClock()
    async with sqlite_life(path, clock) as life:
        content = Content("m", Location("r1"))
        heartbeat = Heartbeat(Registration(KEY, content), "10.0.0.1", "r1", sequence=sequence)
        await life.registrar.register(heartbeat)
    file = StoreFile(path, clock)
    [row] = file.open().rows
    file.close()
    assert row.share.sequence == sequence


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE meta SET value = 'x' WHERE name = 'judged'",
        "UPDATE meta SET value = x'ff' WHERE name = 'wall'",
        "UPDATE share SET granted = 9e999",
        "UPDATE share SET number = 9e999",
        "UPDATE share SET registered_time = 'x'",
        "UPDATE share SET relays = '[1]'",
        'UPDATE share SET content = \'{"model": 5, "region": "r"}\'',
        "UPDATE share SET cluster_id = ''",
        "UPDATE lease SET extensions = 0.5",
        "INSERT INTO withdrawn VALUES ('x', 'never')",
    ],
)
async def test_a_file_with_a_value_of_a_wrong_kind_is_refused(path: Path, damage: str) -> None:
    await a_file(path)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    assert "damaged: a row is unreadable" in await refusal(path)


async def test_a_file_whose_format_is_unreadable_is_refused(path: Path) -> None:
    await a_file(path)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = 'x' WHERE name = 'usable_from'")
        connection.execute("PRAGMA user_version = 99")
    assert "its format is unreadable" in await refusal(path)
