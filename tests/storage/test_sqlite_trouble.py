"""A file that cannot be used says so at the start; one that fails later costs durability only."""

import asyncio
import os
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from global_discovery.domain.errors import LeaseWithdrawn, StoreUnwritable
from global_discovery.domain.events import Event
from global_discovery.domain.pool import PoolKey
from global_discovery.storage.sqlite.file import FileFailed, StoreFile
from global_discovery.storage.sqlite.schema import APPLICATION_ID, FORMATS
from global_discovery.storage.sqlite.store import SqliteStore
from support.clock import FakeClock
from support.grpc_calls import eventually
from support.lease_world import KEY, keys
from support.sqlite_lives import SqliteLife, sqlite_life


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "registrations.db"


GARBAGE = b"no database at all\n" * 100


def write(path: Path, content: bytes) -> None:
    """Puts a file in the place of whatever was there."""
    written = path.with_name("written")
    written.write_bytes(content)
    written.replace(path)


def read(path: Path) -> bytes:
    return path.read_bytes()


async def refusal(path: Path) -> str:
    """What the operator is told when the file cannot be opened."""
    store = SqliteStore(path, FakeClock())
    try:
        with pytest.raises(OSError, match=path.name) as refused:
            await store.open()
        return str(refused.value)
    finally:
        await store.close()


async def a_file(path: Path) -> None:
    """One with a pool in it."""
    async with sqlite_life(path, FakeClock()) as life:
        await life.register()


# -- at the start -----------------------------------------------------------------


async def test_a_file_in_use_is_refused(path: Path) -> None:
    async with sqlite_life(path, FakeClock()) as life:
        assert "in use by another process" in await refusal(path)
        await life.register()  # and the one that has it goes on
    await a_file(path)


async def test_something_else_is_refused(path: Path) -> None:
    write(path, GARBAGE)
    assert "no SQLite database" in await refusal(path)
    assert read(path) == GARBAGE


async def test_a_damaged_file_is_refused(path: Path) -> None:
    async with sqlite_life(path, FakeClock()) as life:
        for key in keys(200):
            await life.register(key)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(8192))
    assert "damaged" in await refusal(path)


async def test_damage_that_no_reading_meets_is_found_at_the_start(path: Path) -> None:
    """A list of free pages that is wrong: the next writes would spoil what is read well now."""
    async with sqlite_life(path, FakeClock()) as life:
        await life.register()
    with path.open("r+b") as file:
        file.seek(36)  # the number of free pages, in the header
        file.write((7).to_bytes(4, "big"))
    assert "damaged" in await refusal(path)


async def test_a_schema_that_is_no_text_any_more_is_damage(path: Path) -> None:
    await a_file(path)
    whole = read(path)
    assert b"tableshareshare" in whole
    write(path, whole.replace(b"tableshareshare", b"table\x80hareshare"))
    assert "damaged" in await refusal(path)


async def test_the_database_of_another_program_is_refused(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (x)")
    other.commit()
    other.close()
    assert "another program" in await refusal(path)


async def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "No such file or directory" in await refusal(tmp_path / "none" / "file.db")
    assert "Is a directory" in await refusal(tmp_path)


async def test_a_file_that_a_refused_process_let_go_of_can_be_used(path: Path) -> None:
    newer(path, usable_from=2)
    assert "newer" in await refusal(path)
    sqlite3.connect(path).execute("PRAGMA user_version = 1").connection.close()
    await a_file(path)


# -- formats ------------------------------------------------------------------------


def newer(path: Path, *, usable_from: int) -> None:
    """A file of the next format: one more column, one more table, one more name in the content."""
    made = sqlite3.connect(path)
    if not made.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        made.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for statement in FORMATS[0].statements:
            made.execute(statement)
    made.execute("ALTER TABLE share ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'")
    made.execute("ALTER TABLE lease ADD COLUMN weight REAL")
    made.execute("CREATE TABLE moods (mood TEXT)")
    made.execute("UPDATE share SET mood = 'glad', content = json_set(content, '$.mood', 'glad')")
    made.execute("INSERT OR REPLACE INTO meta VALUES ('usable_from', ?)", (usable_from,))
    made.execute("INSERT OR REPLACE INTO meta VALUES ('moon', 'full')")
    made.execute(f"PRAGMA user_version = {FORMATS[-1].number + 1}")
    made.commit()
    made.close()


async def test_a_newer_format_that_can_be_used_is_used_and_left_what_it_is(path: Path) -> None:
    await a_file(path)
    newer(path, usable_from=1)
    async with sqlite_life(path, FakeClock()) as life:
        assert life.listed == {KEY: "m"}
        await life.register(keys(1)[0])
    after = sqlite3.connect(path)
    assert after.execute("PRAGMA user_version").fetchone() == (FORMATS[-1].number + 1,)
    moods = after.execute("SELECT dgd_name, mood FROM share ORDER BY id").fetchall()
    assert moods == [(KEY.dgd_name, "glad"), (keys(1)[0].dgd_name, "calm")]
    after.close()


async def test_a_newer_format_that_cannot_be_used_is_refused_and_left_alone(path: Path) -> None:
    await a_file(path)
    newer(path, usable_from=FORMATS[-1].number + 1)
    said = await refusal(path)
    assert "newer version" in said
    assert str(FORMATS[-1].number + 1) in said
    left = sqlite3.connect(path)
    assert left.execute("SELECT mood FROM share").fetchall() == [("glad",)]
    left.close()


# -- rights ---------------------------------------------------------------------------


def rights(path: Path) -> dict[str, str]:
    return {found.name: oct(found.stat().st_mode & 0o777) for found in path.parent.iterdir()}


@pytest.mark.parametrize("before", [None, 0o644, 0o666])
async def test_only_the_owner_can_read_it(path: Path, before: int | None) -> None:
    if before is not None:
        write(path, b"")
        os.chmod(path, before)  # noqa: PTH101 - nothing blocks here
    old = os.umask(0)
    try:
        async with sqlite_life(path, FakeClock()) as life:
            await life.register()
            assert rights(path) == {path.name: "0o600", f"{path.name}-wal": "0o600"}
    finally:
        os.umask(old)
    assert rights(path) == {path.name: "0o600"}


async def test_what_is_answered_was_forced_to_the_disk(path: Path) -> None:
    """What a power cut may lose hangs on this; the pragma's 2 is FULL."""
    async with sqlite_life(path, FakeClock()) as life:
        assert await life.in_its_thread("PRAGMA synchronous") == [(2,)]
        assert await life.in_its_thread("PRAGMA journal_mode") == [("wal",)]


# -- while running -----------------------------------------------------------------------


async def fail(life: SqliteLife) -> None:
    """The disk is full, and the store has found out."""
    await life.fill_the_disk()
    with pytest.raises(StoreUnwritable):
        await register_many(life, keys(500))
    assert life.store.state().failing


async def test_a_full_disk_costs_a_new_share_its_answer_and_nothing_else(path: Path) -> None:
    async with sqlite_life(path, FakeClock()) as life:
        lease = await life.register()
        await fail(life)
        assert life.store.state().reasons == frozenset()
        new = keys(1000)[999]
        with pytest.raises(StoreUnwritable) as refused:
            await life.register(new)
        assert refused.value.retry_after
        assert new in life.listed
        assert (await life.renew(lease)).not_stored == []
        assert await life.register(lease_id=lease, model="changed") == lease
        assert await life.register(model="anew") != lease
        assert life.listed[KEY] == "anew"
        with pytest.raises(StoreUnwritable):
            await life.register(new)  # still, and again
        life.run(12)
        assert KEY in life.listed


async def test_a_withdrawal_on_a_full_disk_changes_nothing(path: Path) -> None:
    async with sqlite_life(path, FakeClock()) as life:
        lease = await life.register()
        await fail(life)
        with pytest.raises(StoreUnwritable):
            await life.withdraw(lease_id=lease)
        await life.make_room()
        await life.store.flush()
        assert not life.store.state().failing
        assert await life.register(lease_id=lease) == lease


async def test_it_says_once_that_it_fails_and_once_that_it_works_again(path: Path) -> None:
    async with sqlite_life(path, FakeClock()) as life:
        await life.register()
        await fail(life)
        for _ in range(3):
            await life.store.flush()
        assert life.store.state().failures == 1
        (told,) = [fields for event, fields in life.world.events if event is Event.STORE_FAILING]
        assert "full" in str(told["message"])
        await life.make_room()
        await life.store.flush()
        assert life.world.count(Event.STORE_WORKS_AGAIN) == 1
        assert not life.store.state().failing
        await fail_again(life)
        assert life.store.state().failures == 2


async def fail_again(life: SqliteLife) -> None:
    await life.fill_the_disk()
    await life.store.flush()
    with pytest.raises(StoreUnwritable):
        await register_many(life, keys(900)[500:])


async def register_many(life: SqliteLife, several: list[PoolKey]) -> None:
    for key in several:
        await life.register(key, model="x" * 900)


async def test_when_there_is_room_again_everything_that_was_missing_is_written(path: Path) -> None:
    async with sqlite_life(path, FakeClock(), killed=True) as life:
        await life.register(model="older")
        await fail(life)
        lease = await life.register(model="newer")
        expected = life.listed
        await life.make_room()
        await life.store.flush()
        new = keys(1000)[999]
        expected[new] = "m"
        await life.register(new)
    async with sqlite_life(path, FakeClock()) as life:
        assert life.listed == expected
        assert (await life.renew(lease)).unknown == []


async def test_a_file_that_was_deleted_is_begun_anew_with_all_that_is_live(path: Path) -> None:
    async with sqlite_life(path, FakeClock(), killed=True) as life:
        for key in keys(3):
            lease = await life.register(key)
        await life.withdraw(keys(3)[2], lease_id=lease)
        os.unlink(path)  # noqa: PTH108 - nothing blocks here
        await life.store.flush()
        assert life.store.state().failing
        await life.store.flush()
        assert not life.store.state().failing
    async with sqlite_life(path, FakeClock()) as life:
        assert life.listed == dict.fromkeys(keys(3)[:2], "m")
        with pytest.raises(LeaseWithdrawn):
            await life.register(keys(3)[2], lease_id=lease)


@pytest.mark.parametrize("ending", ["", "-wal"])
@pytest.mark.parametrize("hurt", [os.unlink, lambda file: os.truncate(file, 0)])
async def test_a_file_or_log_that_was_deleted_or_cut_off_is_noticed_with_the_next_write(
    path: Path, ending: str, hurt: Callable[[str], None]
) -> None:
    async with sqlite_life(path, FakeClock(), killed=True) as life:
        for key in keys(3):
            await life.register(key)
        hurt(f"{path}{ending}")
        await life.store.flush()
        assert life.store.state().failing
        await life.store.flush()
        assert not life.store.state().failing
        await life.register(keys(4)[3])
        await life.store.flush()
        assert not life.store.state().failing
    async with sqlite_life(path, FakeClock()) as life:
        assert life.listed == dict.fromkeys(keys(4), "m")


async def test_a_file_that_is_reached_through_a_link_is_watched_all_the_same(path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    async with sqlite_life(link, FakeClock(), killed=True) as life:
        await life.register()
        await life.store.flush()
        assert not life.store.state().failing
        os.unlink(f"{path}-wal")  # noqa: PTH108 - nothing blocks here
        await life.store.flush()
        assert life.store.state().failing
        await life.store.flush()
    async with sqlite_life(path, FakeClock()) as life:
        assert life.listed == {KEY: "m"}


async def test_a_file_that_was_replaced_by_garbage_is_put_aside(path: Path) -> None:
    async with sqlite_life(path, FakeClock(), killed=True) as life:
        await life.register()
        write(path, GARBAGE)
        await life.store.flush()
        await life.store.flush()
        assert not life.store.state().failing
    assert read(path.with_name(f"{path.name}.damaged")) == GARBAGE
    async with sqlite_life(path, FakeClock()) as life:
        assert life.listed == {KEY: "m"}


async def test_a_disk_that_hangs_stops_no_renewal(path: Path) -> None:
    clock = FakeClock()
    async with sqlite_life(path, clock) as life:
        lease = await life.register()
        hangs = threading.Event()
        life.store._thread.submit(hangs.wait)
        writing = asyncio.create_task(life.store.flush())
        await asyncio.sleep(0)
        clock.advance(2.5)
        assert life.store.state().failing
        life.tick()
        life.tick()
        (told,) = [fields for event, fields in life.world.events if event is Event.STORE_FAILING]
        assert "longer than 2 s" in str(told["message"])
        assert (await life.renew(lease)).not_stored == []
        with pytest.raises(StoreUnwritable):
            await life.register(keys(1)[0])
        with pytest.raises(StoreUnwritable):
            await life.withdraw(lease_id=lease)
        hangs.set()
        await writing
        assert not life.store.state().failing
        assert life.world.count(Event.STORE_WORKS_AGAIN) == 1
        await life.register(keys(1)[0])


async def test_a_cancelled_withdrawal_that_was_stored_counts(path: Path) -> None:
    async with sqlite_life(path, FakeClock()) as life:
        lease = await life.register()
        hangs = threading.Event()
        life.store._thread.submit(hangs.wait)
        withdrawing = asyncio.create_task(life.withdraw(lease_id=lease))
        await eventually(lambda: life.store._writing is not None)
        withdrawing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await withdrawing
        hangs.set()
        await life.store.flush()
        await eventually(lambda: not life.registrar._withdrawing)
        assert life.listed == {}


# -- what is no file ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFCHR])
def test_what_is_no_regular_file_is_refused_and_left_as_it_was(path: Path, kind: int) -> None:
    try:
        os.mknod(path, kind, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root may make a device")
    path.chmod(0o640)
    before = path.stat()
    file = StoreFile(path, FakeClock())
    for call in (file.open, file.begin_anew):
        with pytest.raises(FileFailed, match="is not a regular file"):
            call()
    after = path.stat()
    assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
