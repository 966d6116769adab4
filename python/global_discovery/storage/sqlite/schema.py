"""The format of the file, and how a file comes from one format to the next.

`user_version` is the newest format a file was ever brought to. A file also says
which format a program must know to use it (`usable_from`): a format that only
adds columns with defaults, or names in JSON, leaves that number as it was, and
versions of the program before and after it use the file in turn. What an older
program cannot use, it refuses.

Readers name the columns they want and ignore the rest; writers name the columns
they set and leave the rest to their defaults.
"""

import sqlite3
from typing import NamedTuple

APPLICATION_ID = 0x47446973
"""Tells our files from those of other programs."""


class Format(NamedTuple):
    """One step."""

    number: int
    usable_from: int
    """The oldest format whose programs can read and write a file of this one."""
    statements: tuple[str, ...]


FORMATS = (
    Format(
        number=1,
        usable_from=1,
        statements=(
            "CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
            """CREATE TABLE share (
                id INTEGER PRIMARY KEY,
                cluster_id TEXT NOT NULL,
                namespace TEXT NOT NULL,
                dgd_name TEXT NOT NULL,
                identity_kind TEXT NOT NULL,
                identity TEXT NOT NULL,
                lease_id TEXT NOT NULL,
                granted REAL NOT NULL,
                number INTEGER NOT NULL,
                content TEXT NOT NULL,
                relays TEXT NOT NULL,
                registered_time REAL NOT NULL DEFAULT 0,
                sequence INTEGER NOT NULL DEFAULT 0
            )""",
            # Apart from the shares, so that a renewal writes a few bytes.
            """CREATE TABLE lease (
                id INTEGER PRIMARY KEY,
                deadline REAL NOT NULL,
                extensions INTEGER NOT NULL DEFAULT 0
            )""",
            """CREATE TABLE withdrawn (
                lease_id TEXT PRIMARY KEY,
                until REAL NOT NULL
            ) WITHOUT ROWID""",
        ),
    ),
)


class NotUsable(Exception):
    """Says what is wrong with the file, as the rest of a sentence."""


def prepare(connection: sqlite3.Connection, formats: tuple[Format, ...] = FORMATS) -> None:
    """Makes the file one of the newest format, or of one that can be used all the same.

    Inside a transaction. Raises NotUsable.
    """
    version = _pragma(connection, "user_version")
    newest = formats[-1].number
    if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    elif _pragma(connection, "application_id") != APPLICATION_ID:
        raise NotUsable("is the database of another program")
    elif version > newest:
        needed = _meta(connection, "usable_from")
        if not needed <= newest:
            raise NotUsable(
                f"was written by a newer version of this program: it needs format {needed:g}, "
                f"and this version knows formats up to {newest}"
            )
    for step in formats:
        if step.number > version:
            for statement in step.statements:
                connection.execute(statement)
            connection.execute(
                "INSERT OR REPLACE INTO meta VALUES ('usable_from', ?)", (step.usable_from,)
            )
            connection.execute(f"PRAGMA user_version = {step.number}")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _meta(connection: sqlite3.Connection, name: str) -> float:
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    try:
        return float(row[0]) if row else 0.0
    except (TypeError, ValueError):
        raise NotUsable("is damaged: its format is unreadable") from None
