"""A view of pools in a file: whole or not at all, and never trusted.

A file is written beside the old one, forced to the disk and put in its place, so
that a crash leaves either. Its first line names format, version and the digest of
what follows; a file that is damaged, of a newer release, too long or no file at
all is refused with a sentence. Times in it are by the wall clock.

What it puts itself in the place of is a file that it could read, whatever that
held, or nothing: never a device, a FIFO, a socket, a folder or a file that is not
for it to read. A link stays, and the file that it points to is replaced.

A writer that was killed leaves its unfinished file behind. Writers hold a lock on
theirs (flock), which ends with the process: what nobody holds is a leftover, and
`remove_leftovers` takes it away. Where the file system knows no locks it removes
nothing.

Nothing here waits politely: call it off the event loop, with `in_thread`.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import json
import math
import os
import re
import secrets
import stat
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from global_discovery.client.carrying import KnownPool
from global_discovery.v1 import pool_discovery_pb2 as pb

T = TypeVar("T")

FORMAT = b"global-discovery-pools"
VERSION = 1
MAX_BYTES = 256 * 1024 * 1024
_HEAD_WORDS = 3


class UnusableFile(Exception):
    """The file cannot be used; `str` says why, in a sentence without the file's name."""


@dataclass(frozen=True, slots=True)
class SavedView:
    """What a file holds. All times are seconds since the epoch."""

    saved_at: float
    known: tuple[KnownPool, ...]


def write_view(path: Path, view: SavedView) -> None:
    """Puts the view in the place of the file. Raises OSError; the old file is then untouched."""
    path = place_of(path)
    _refuse_what_is_not_ours(path)
    # A name of its own: two containers that share the folder may share a process id, too.
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            _lock(file.fileno())
            file.write(encode(view))
            file.flush()
            os.fsync(file.fileno())
            beside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def remove_leftovers(path: Path) -> None:
    """Removes what killed writers of this file left beside it; never what is being written.

    A writer whose file is taken in the instant between making and locking it
    fails with OSError, as on a full disk, and saves again later.
    """
    path = place_of(path)
    leftover = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]+\.new")
    with contextlib.suppress(OSError):
        for beside in path.parent.iterdir():
            if leftover.fullmatch(beside.name):
                _remove_unless_locked(beside)


def place_of(path: Path) -> Path:
    """Where the file itself is, or will be: behind all links."""
    return Path(os.path.realpath(path))


def _refuse_what_is_not_ours(path: Path) -> None:
    """Raises OSError. A rename would replace whatever has the name, a device too."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is not a regular file")
    if not os.access(path, os.R_OK):
        raise OSError("it cannot be read, and so is not replaced")


def _remove_unless_locked(beside: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(beside, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            beside.unlink()
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Until the file is closed; does without where there are no locks."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def read_view(path: Path) -> SavedView | None:
    """What the file holds; None when there is none. Raises UnusableFile."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UnusableFile("it is not a regular file")
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnusableFile(f"it cannot be read: {error.strerror or error}") from error
    if len(content) > MAX_BYTES:
        raise UnusableFile("it is too long")
    return decode(content)


def encode(view: SavedView) -> bytes:
    """The bytes of a file."""
    times = [[each.listed_until, each.told_at, each.told_by] for each in view.known]
    pools = pb.PoolSnapshot(pools=[each.pool for each in view.known])
    meta = json.dumps({"saved_at": view.saved_at, "known": times}).encode()
    rest = meta + b"\n" + pools.SerializeToString()
    return b"%b %d %b\n%b" % (FORMAT, VERSION, _digest(rest), rest)


def decode(content: bytes) -> SavedView:
    """What the bytes of a file say. Raises UnusableFile."""
    head, _, rest = content.partition(b"\n")
    words = head.split(b" ")
    if len(words) != _HEAD_WORDS or words[0] != FORMAT:
        raise UnusableFile("it is not a saved view, or it is damaged")
    if words[1] != b"%d" % VERSION:
        raise UnusableFile("it is of another release")
    if words[2] != _digest(rest):
        raise UnusableFile("it is damaged")
    meta, _, pools = rest.partition(b"\n")
    try:
        return _view(json.loads(meta), pb.PoolSnapshot.FromString(pools).pools)
    except (
        ArithmeticError,
        ValueError,
        KeyError,
        TypeError,
        DecodeError,
        RecursionError,
    ) as error:
        raise UnusableFile("it says what makes no sense") from error


def _view(meta: Any, pools: Sequence[Any]) -> SavedView:
    known = [
        KnownPool(pool, float(listed_until), float(told_at), str(told_by))
        for pool, (listed_until, told_at, told_by) in zip(pools, meta["known"], strict=True)
    ]
    times = [time for each in known for time in (each.listed_until, each.told_at)]
    if not all(map(math.isfinite, times)):
        raise ValueError("a time that is none")
    return SavedView(float(meta["saved_at"]), tuple(known))


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()


def _sync_folder(folder: Path) -> None:
    """So that the new name survives a power cut too; not every file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


async def in_thread(work: Callable[[], T]) -> T:
    """The result of `work`, from a thread that nobody waits for at exit.

    A disk may hang for ever; the caller stops waiting by being cancelled.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - raised where it is awaited
            tell(outcome.set_exception, error)
        else:
            tell(outcome.set_result, result)

    def tell(settle: Callable[[Any], None], value: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
            loop.call_soon_threadsafe(settle_unless_done, settle, value)

    def settle_unless_done(settle: Callable[[Any], None], value: Any) -> None:
        if not outcome.done():
            settle(value)

    threading.Thread(target=run, name="saved-view", daemon=True).start()
    return await outcome
