"""The file of a saved view: whole, checked, and never a reason to fail."""

import asyncio
import contextlib
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.client import saved_view
from global_discovery.client.carrying import KnownPool
from global_discovery.client.saved_view import (
    SavedView,
    UnusableFile,
    decode,
    encode,
    in_thread,
    read_view,
    remove_leftovers,
    write_view,
)
from global_discovery.client.view_saver import WAIT_SECONDS, ViewSaver
from global_discovery.v1 import pool_pb2
from support.timer import MovedTimer

PATIENCE = 30


def known(name: str, told_at: float = 1.0) -> KnownPool:
    key = pool_pb2.PoolKey(cluster_id="c", namespace="n", dgd_name=name)
    return KnownPool(pool_pb2.Pool(key=key, model="m"), told_at + 1, told_at, "process")


VIEW = SavedView(1e9, (known("a"), known("b", 2.5)))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "view"
    write_view(path, VIEW)
    assert read_view(path) == VIEW
    assert [each.name for each in tmp_path.iterdir()] == ["view"]


KILLED_WRITER = """
import os, signal, sys
from pathlib import Path
from global_discovery.client import saved_view

def killed(_):
    print("writing", flush=True)
    if sys.argv[2] == "waits":
        sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)

os.fsync = killed
saved_view.write_view(Path(sys.argv[1]), saved_view.SavedView(1.0, ()))
"""


def a_writer(path: Path, how: str) -> "subprocess.Popen[bytes]":
    """Another process that is killed while it writes; with "waits", only when its input ends."""
    command = [sys.executable, "-c", KILLED_WRITER, str(path), how]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_what_killed_writers_left_is_removed_with_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "view"
    old = tmp_path / ".view.4711.new"  # as an earlier release named it
    old.write_bytes(b"unfinished")
    with a_writer(path, "at once") as writer:
        assert writer.wait(PATIENCE) != 0
    assert len(list(tmp_path.iterdir())) == 2
    saver = ViewSaver(path, timer=MovedTimer(), wall=lambda: 1e9)
    asyncio.run(saver.save((known("a"),), 1))
    assert [each.name for each in tmp_path.iterdir()] == ["view"]


def test_what_another_process_is_writing_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "view"
    with a_writer(path, "waits") as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        before = set(tmp_path.iterdir())
        remove_leftovers(path)
        assert set(tmp_path.iterdir()) == before != set()
        writer.kill()
    remove_leftovers(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    [
        ".view.new",
        ".view.mine.new",
        ".view.2.12ab.new",
        ".view2.12ab.new",
        ".view.12ab.new.kept",
        "view.12ab.new",
        "-view.12ab.new",
    ],
)
def test_only_leftovers_of_this_very_file_are_removed(tmp_path: Path, name: str) -> None:
    other = tmp_path / name
    other.write_bytes(b"somebody's")
    remove_leftovers(tmp_path / "view")
    assert other.exists()


def test_a_link_in_the_place_of_a_leftover_is_not_followed(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_bytes(b"kept")
    (tmp_path / ".view.12ab.new").symlink_to(mine)
    remove_leftovers(tmp_path / "view")
    remove_leftovers(tmp_path / "no such folder" / "view")
    assert mine.read_bytes() == b"kept"


def test_two_threads_that_write_one_file_leave_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "view"
    views = [SavedView(float(n), (known(str(n)),)) for n in range(2)]
    threads = [threading.Thread(target=write_view, args=(path, view)) for view in views]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert read_view(path) in views


def test_an_empty_view_is_knowledge_too() -> None:
    assert decode(encode(SavedView(1.0, ()))) == SavedView(1.0, ())


def test_no_file_is_no_view_and_no_error(tmp_path: Path) -> None:
    assert read_view(tmp_path / "none") is None


@given(st.data())
def test_a_file_with_any_part_missing_or_changed_is_refused(data: st.DataObject) -> None:
    content = encode(VIEW)
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        broken = content[:at]
    else:
        bit = data.draw(st.integers(0, 7))
        broken = content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
    with pytest.raises(UnusableFile):
        decode(broken)


@given(st.binary(max_size=200))
def test_garbage_is_refused(content: bytes) -> None:
    with pytest.raises(UnusableFile):
        decode(content)


def with_meta(meta: object) -> bytes:
    """A file whose digest is right and whose second line says something else."""
    rest = json.dumps(meta).encode() + b"\n"
    return b"global-discovery-pools 1 %b\n%b" % (saved_view._digest(rest), rest)


@pytest.mark.parametrize(
    "meta",
    [
        [],
        {},
        {"saved_at": 1, "known": [[1, 2, "x"]]},
        {"saved_at": "soon", "known": []},
        {"saved_at": 10**400, "known": []},
        {"saved_at": 1, "known": 3},
    ],
)
def test_a_whole_file_that_makes_no_sense_is_refused(meta: object) -> None:
    with pytest.raises(UnusableFile, match="no sense"):
        decode(with_meta(meta))


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(UnusableFile, match="no sense"):
        decode(encode(SavedView(1.0, (known("a", float("nan")),))))


def test_a_file_of_a_newer_release_is_named_as_such() -> None:
    with pytest.raises(UnusableFile, match="another release"):
        decode(encode(VIEW).replace(b" 1 ", b" 2 ", 1))


def test_what_is_no_regular_file_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, Path("/dev/zero")):
        with pytest.raises(UnusableFile):
            read_view(path)


def test_a_file_that_is_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_view, "MAX_BYTES", 10)
    write_view(tmp_path / "view", VIEW)
    with pytest.raises(UnusableFile, match="too long"):
        read_view(tmp_path / "view")


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "view"
    write_view(path, VIEW)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_view(path, SavedView(2e9, ()))
    assert read_view(path) == VIEW
    assert [each.name for each in tmp_path.iterdir()] == ["view"]


def test_a_file_is_in_place_only_after_its_content_was_forced_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = []
    real_sync, real_replace = os.fsync, Path.replace

    def sync(descriptor: int) -> None:
        order.append("sync")
        real_sync(descriptor)

    def replace(self: Path, target: Path) -> Path:
        order.append("replace")
        return real_replace(self, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", replace)
    write_view(tmp_path / "view", VIEW)
    assert order == ["sync", "replace", "sync"]


async def test_a_disk_that_hangs_is_given_up_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, timer = threading.Event(), MovedTimer()
    said: list[str] = []

    def hang(_: Path) -> None:
        goes_on.wait(60)

    monkeypatch.setattr("global_discovery.client.view_saver.read_view", hang)
    saver = ViewSaver(tmp_path / "view", timer=timer, wall=lambda: 1e9, log=said.append)
    restoring = asyncio.create_task(saver.restore())
    await timer.slept_for(WAIT_SECONDS)
    timer.advance(WAIT_SECONDS)
    assert await restoring == ()
    assert "did not answer" in saver.state.error
    goes_on.set()


@pytest.mark.parametrize("name", ["a\0b", ".", "x" * 300])
async def test_a_path_that_can_be_no_file_is_reported_and_no_exception(
    tmp_path: Path, name: str
) -> None:
    said: list[str] = []
    saver = ViewSaver(tmp_path / name, timer=MovedTimer(), wall=lambda: 1e9, log=said.append)
    assert await saver.restore() == ()
    await saver.save(VIEW.known, 1)
    assert saver.state.error
    assert said


async def test_the_same_trouble_is_logged_once_and_a_success_ends_it(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    said: list[str] = []
    saver = ViewSaver(folder / "view", timer=MovedTimer(), wall=lambda: 1e9, log=said.append)
    for version in range(3):
        await saver.save(VIEW.known, version)
    assert len(said) == 1
    folder.mkdir()
    await saver.save(VIEW.known, 4)
    assert (saver.state.error, saver.state.saved_at) == ("", 1e9)


async def test_an_older_write_that_still_hangs_does_not_mix_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, begun = threading.Event(), threading.Event()
    real_sync = os.fsync

    def slow(descriptor: int) -> None:
        begun.set()
        goes_on.wait(60)
        real_sync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    path = tmp_path / "view"
    saver = ViewSaver(path, timer=MovedTimer(), wall=lambda: 1e9)
    first = asyncio.create_task(saver.save(VIEW.known, 1))
    await asyncio.to_thread(begun.wait, 30)
    assert saver._writing.locked()
    first.cancel()
    second = asyncio.create_task(saver.save((known("newer"),), 2))
    await asyncio.sleep(0)
    goes_on.set()
    await second
    view = read_view(path)
    assert view is not None
    assert [each.pool.key.dgd_name for each in view.known] == ["newer"]


async def test_no_restored_time_lies_in_the_future_when_the_wall_clock_was_set_back(
    tmp_path: Path,
) -> None:
    timer, path = MovedTimer(now=50.0), tmp_path / "view"
    write_view(path, SavedView(1e9, (known("a", told_at=1e9),)))
    (restored,) = await ViewSaver(path, timer=timer, wall=lambda: 1e9 - 3600).restore()
    assert (restored.listed_until, restored.told_at) == (50, 50)
    (restored,) = await ViewSaver(path, timer=timer, wall=lambda: 1e9 + 3600).restore()
    assert (restored.listed_until, restored.told_at) == (50 - 3599, 50 - 3600)


async def test_what_a_thread_raises_is_raised_where_it_is_awaited() -> None:
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 / 0)


def test_what_is_no_regular_file_is_never_replaced(tmp_path: Path) -> None:
    fifo, folder, device = (tmp_path / name for name in ("fifo", "folder", "device"))
    os.mkfifo(fifo)
    folder.mkdir()
    places = [fifo, folder]
    with contextlib.suppress(PermissionError):  # only root may make one
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        places.append(device)
    before = {place: place.stat() for place in places}
    for place in places:
        with pytest.raises(OSError, match="not a regular file"):
            write_view(place, VIEW)
    assert {place: (place.stat().st_ino, place.stat().st_mode) for place in places} == {
        place: (found.st_ino, found.st_mode) for place, found in before.items()
    }
    assert sorted(tmp_path.iterdir()) == sorted(places)


def test_a_file_that_may_not_be_read_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "view"
    path.write_bytes(b"somebody else's")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may read everything
    with pytest.raises(OSError, match="cannot be read"):
        write_view(path, VIEW)
    assert path.read_bytes() == b"somebody else's"


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_the_view_goes_where_it_points_to(tmp_path: Path, *, there: bool) -> None:
    link, target = tmp_path / "link", tmp_path / "volume" / "view"
    target.parent.mkdir()
    leftover = target.with_name(".view.0123456789abcdef.new")
    leftover.touch()
    if there:
        target.write_bytes(b"damaged")
    link.symlink_to(target)
    remove_leftovers(link)
    write_view(link, VIEW)
    assert link.readlink() == target
    assert read_view(link) == read_view(target) == VIEW
    assert not leftover.exists()


def test_links_that_lead_nowhere_are_an_error_of_the_disk(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(OSError, match="symbolic links"):
        write_view(link, VIEW)
