"""The file: opened, read once, and written in batches, all by one thread.

Every batch is one transaction, on the disk before `write` returns (WAL,
`synchronous=FULL`). The file is locked as long as it is open, so that no second
process can use it, and readable by its owner only; the write-ahead log takes
its rights from it.

Times in the file are on the monotonic clock of the process that wrote it. With
them stands up to when that process had judged which leases ended; a lease that
ends later was alive. A process that opens the file counts all of them anew on
its own clock, and each share whose lease it will restore once more.
"""

import contextlib
import json
import math
import os
import sqlite3
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from global_discovery.domain.clock import Clock
from global_discovery.storage import checked
from global_discovery.storage.content_json import decode_content, encode_content
from global_discovery.storage.sqlite.schema import NotUsable, prepare
from global_discovery.storage.store import StoredShare

LOCK_SECONDS = 1.0
MAX_RESTORATIONS = 3
MAX_AGE_SECONDS = 86_400.0
"""Shares that were last alive longer ago, by the wall clock, are not restored."""
MAX_LOG_BYTES = 16 * 1024 * 1024
OWNER_ONLY = 0o600
_LONGEST_MEMORY = 10 * checked.LONGEST_LEASE_SECONDS
"""For how long a withdrawal can have been meant to be remembered."""
_SIGN = 2**63

_SHARE = """INSERT INTO share
    (id, cluster_id, namespace, dgd_name, identity_kind, identity, lease_id, granted, number,
     content, relays, registered_time, sequence)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET lease_id = excluded.lease_id, granted = excluded.granted,
    number = excluded.number, content = excluded.content, relays = excluded.relays,
    registered_time = excluded.registered_time, sequence = excluded.sequence"""
_LEASE = """INSERT INTO lease (id, deadline, extensions) VALUES (?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET deadline = excluded.deadline, extensions = excluded.extensions"""
_WITHDRAWN = "INSERT OR REPLACE INTO withdrawn (lease_id, until) VALUES (?, ?)"
_META = "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)"
_READ = """SELECT share.id, cluster_id, namespace, dgd_name, identity_kind, identity, lease_id,
    granted, number, content, relays, registered_time, sequence, deadline, extensions
    FROM share JOIN lease USING (id) WHERE deadline > ?
    AND lease_id NOT IN (SELECT lease_id FROM withdrawn) ORDER BY share.id"""


class FileFailed(OSError):
    """A sentence for the operator that names the file."""

    def __init__(self, message: str, *, lost: bool = False) -> None:
        """`lost`: what was written before cannot be relied on any more."""
        super().__init__(message)
        self.lost = lost


class _Trace(NamedTuple):
    """What tells a file from another one in its place, and from a part of it."""

    device: int
    inode: int
    size: int


class Row(NamedTuple):
    """A share as it was found, with its lease from now on."""

    id: int
    share: StoredShare
    remaining: float
    """What was left of its lease when the old process last judged."""
    extensions: int
    """Without this restoration."""


@dataclass(slots=True)
class Contents:
    """What was in the file. Times are on the clock of this process."""

    rows: list[Row] = field(default_factory=list)
    withdrawn: dict[str, float] = field(default_factory=dict)
    """Ids, and until when they are remembered."""


@dataclass(slots=True)
class Batch:
    """What is written in one transaction, in this order."""

    judged: float
    wall: float
    shares: list[tuple[int, StoredShare]]
    leases: list[tuple[int, float, int]]
    """Row, deadline, extensions."""
    gone: list[int]
    """Rows to delete."""
    withdrawn: list[tuple[str, float]]


class StoreFile:
    """Not safe for several threads."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Opens nothing."""
        self.path = path.absolute()
        self._clock = clock
        self._connection: sqlite3.Connection | None = None
        self._log = Path(f"{self.path.resolve()}-wal")
        self._inode: tuple[int, int] | None = None
        self._log_inode: tuple[int, int] | None = None
        self._left: tuple[_Trace | None, ...] = ()
        """How file and log were left by what this process last did to them."""

    def open(self) -> Contents:
        """Opens or makes the file, reads what is alive in it, and takes it over."""
        try:
            with self._told():
                self._connect()
                with self._transaction() as connection:
                    prepare(connection)
                    contents = self._read(connection)
                    self._take_over(connection, contents)
                self._log_inode = _inode_of(self._log)
        except BaseException:
            self.close()
            raise
        return contents

    def write(self, batch: Batch) -> None:
        """All of it or nothing."""
        with self._told():
            self._check_place()
            with self._transaction() as connection:
                shares = (_share_row(row, share) for row, share in batch.shares)
                connection.executemany(_SHARE, shares)
                connection.executemany(_LEASE, batch.leases)
                gone = [(row,) for row in batch.gone]
                connection.executemany("DELETE FROM share WHERE id = ?", gone)
                connection.executemany("DELETE FROM lease WHERE id = ?", gone)
                connection.executemany(_WITHDRAWN, batch.withdrawn)
                connection.execute("DELETE FROM withdrawn WHERE until <= ?", (batch.judged,))
                _write_meta(connection, batch.judged, batch.wall)

    def begin_anew(self) -> None:
        """Puts a file that cannot be relied on aside, if it is still there, and makes an empty one.

        A file that is in use by another process stays where it is.
        """
        self.close()
        self._drop_own_log()
        try:
            self.open()
        except FileFailed as failed:
            if not failed.lost:
                raise
        else:
            with self._told(), self._transaction() as connection:
                for table in ("share", "lease", "withdrawn"):
                    connection.execute(f"DELETE FROM {table}")  # noqa: S608 - names of ours
            return
        self.close()
        with self._told():
            for file, ending in ((self.path, ""), (self._log, "-wal")):
                with contextlib.suppress(FileNotFoundError):
                    file.replace(f"{self.path}.damaged{ending}")
        self.open()

    def close(self) -> None:
        """Lets go of the file. Never raises."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    # -- within -----------------------------------------------------------------

    def _connect(self) -> None:
        """Locks the file, and checks it."""
        self._make_private()
        self._connection = connection = sqlite3.connect(
            self.path, timeout=LOCK_SECONDS, isolation_level=None
        )
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # no -shm file either
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {MAX_LOG_BYTES}")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise FileFailed(f"{self.path} is damaged: {found}", lost=True)

    def _make_private(self) -> None:
        """Before it is opened: closing a file would give up this process's locks on it.

        Leaves alone what is no regular file: a device with other rights is of use
        to nobody any more, and opening one may do something already.
        """
        with contextlib.suppress(FileNotFoundError):
            kind = stat.S_IFMT(self.path.stat().st_mode)
            if kind not in (stat.S_IFREG, stat.S_IFDIR):  # a directory is refused below
                raise FileFailed(f"{self.path} is not a regular file")
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY)
        try:
            found = os.fstat(descriptor)
            if found.st_mode & 0o777 & ~OWNER_ONLY and found.st_uid == os.geteuid():
                os.fchmod(descriptor, OWNER_ONLY)
            self._inode = (found.st_dev, found.st_ino)
        finally:
            os.close(descriptor)

    def _check_place(self) -> None:
        """Writing to what has no name any more, or has lost its end, would lose all in silence."""
        if (_trace_of(self.path), _trace_of(self._log)) != self._left:
            raise FileFailed(f"{self.path} or its log was deleted, replaced or cut off", lost=True)

    def _drop_own_log(self) -> None:
        """The log of a file that is gone must not be read as that of the one in its place."""
        with self._told():
            gone = _inode_of(self.path) != self._inode
            if gone and self._log_inode is not None and _inode_of(self._log) == self._log_inode:
                self._log.unlink()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Makes a sentence of what goes wrong."""
        try:
            yield
        except NotUsable as reason:
            raise FileFailed(f"{self.path} {reason}") from None
        except sqlite3.Error as error:
            failed = self._failure(error)
            raise failed from error
        except UnicodeDecodeError as error:
            # SQLite quotes what it found in the file, and Python cannot read that.
            told = f"{self.path} is no SQLite database, or is damaged"
            raise FileFailed(told, lost=True) from error
        except FileFailed:
            raise
        except OSError as error:
            raise FileFailed(f"{self.path}: {error.strerror}") from error

    def _failure(self, error: sqlite3.Error) -> FileFailed:
        # The low byte is the kind, the rest a detail of it.
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return FileFailed(f"{self.path} is in use by another process")
        if kind == sqlite3.SQLITE_FULL:
            return FileFailed(f"{self.path}: the disk is full")
        if kind == sqlite3.SQLITE_NOTADB:
            return FileFailed(f"{self.path} is no SQLite database, or is damaged", lost=True)
        if kind in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT):
            return FileFailed(f"{self.path} is damaged", lost=True)
        return FileFailed(f"{self.path}: {error}")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        if self._connection is None:
            raise FileFailed(f"{self.path} is not open", lost=True)
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        finally:
            self._left = (_trace_of(self.path), _trace_of(self._log))

    def _read(self, connection: sqlite3.Connection) -> Contents:
        try:
            return self._read_rows(connection)
        except ValueError:
            raise FileFailed(f"{self.path} is damaged: a row is unreadable", lost=True) from None

    def _read_rows(self, connection: sqlite3.Connection) -> Contents:
        """Raises ValueError."""
        meta = dict(connection.execute("SELECT name, value FROM meta").fetchall())
        contents = Contents()
        if meta.get("judged") is None or meta.get("wall") is None:
            return contents
        judged, wall = _number(meta["judged"]), _number(meta["wall"])
        now = self._clock.monotonic()
        for lease_id, until in connection.execute("SELECT lease_id, until FROM withdrawn"):
            if _number(until) > judged:
                remembered = min(until - judged, _LONGEST_MEMORY)
                contents.withdrawn[checked.text(lease_id)] = now + remembered
        if self._clock.wall() - wall > MAX_AGE_SECONDS:
            return contents
        contents.rows += (_row(row, judged) for row in connection.execute(_READ, (judged,)))
        return contents

    def _take_over(self, connection: sqlite3.Connection, contents: Contents) -> None:
        """What is alive goes on on this process's clock; the rest goes."""
        now = self._clock.monotonic()
        connection.execute("DELETE FROM lease")
        connection.execute("DELETE FROM withdrawn")
        connection.executemany(_LEASE, (lease_from(row, now) for row in contents.rows))
        connection.execute("DELETE FROM share WHERE id NOT IN (SELECT id FROM lease)")
        connection.executemany(_WITHDRAWN, contents.withdrawn.items())
        _write_meta(connection, now, self._clock.wall())


def _trace_of(path: Path) -> "_Trace | None":
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return _Trace(found.st_dev, found.st_ino, found.st_size)


def _inode_of(path: Path) -> tuple[int, int] | None:
    found = _trace_of(path)
    return found and (found.device, found.inode)


def lease_from(row: Row, now: float) -> tuple[int, float, int]:
    """The lease of a share that was found, from `now` on: row, deadline, extensions."""
    if row.extensions >= MAX_RESTORATIONS:
        return (row.id, now + row.remaining, row.extensions)
    return (row.id, now + row.share.granted, row.extensions + 1)


def _write_meta(connection: sqlite3.Connection, judged: float, wall: float) -> None:
    connection.executemany(_META, (("judged", judged), ("wall", wall)))


def _share_row(row: int, share: StoredShare) -> tuple[object, ...]:
    return (
        row,
        *share.key,
        *share.identity,
        share.lease_id,
        share.granted,
        share.number,
        encode_content(share.content).decode(),
        json.dumps(share.relays),
        share.registered_time,
        _signed(share.sequence),
    )


def _row(columns: tuple[object, ...], judged: float) -> Row:
    """Raises ValueError."""
    row, cluster, namespace, name, kind, identity, lease_id, granted, *rest = columns
    number, content, relays, registered_time, sequence, deadline, extensions = rest
    share = StoredShare(
        key=checked.key((cluster, namespace, name)),
        identity=(checked.text(kind), checked.text(identity)),
        lease_id=checked.text(lease_id),
        granted=checked.lease_seconds(_number(granted)),
        number=checked.whole(number),
        content=decode_content(checked.text(content)),
        relays=_relays(checked.text(relays)),
        registered_time=checked.wall_time(_number(registered_time)),
        sequence=checked.whole(_unsigned(sequence), most=2 * _SIGN),
    )
    remaining = min(_number(deadline) - judged, checked.LONGEST_LEASE_SECONDS)
    return Row(checked.whole(row), share, remaining, checked.whole(extensions))


def _relays(text: str) -> tuple[str, ...]:
    try:
        return checked.texts(json.loads(text))
    except RecursionError:
        raise ValueError("no relays") from None


def _signed(sequence: int) -> int:
    """SQLite's numbers have a sign; a caller's number has 64 bits without one."""
    return sequence if sequence < _SIGN else sequence - 2 * _SIGN


def _unsigned(stored: object) -> object:
    return stored + 2 * _SIGN if isinstance(stored, int) and stored < 0 else stored


def _number(value: object) -> float:
    if isinstance(value, int | float) and math.isfinite(value):
        return value
    raise ValueError("no number")
