"""What stands in a file or a table may be anything: good shares are read, bad ones are told."""

import asyncio
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, note
from hypothesis import strategies as st

from global_discovery.domain.pool import Registration
from global_discovery.serving import wire
from global_discovery.storage.content_json import decode_content
from global_discovery.storage.dynamodb.items import Unreadable, read_content, read_renewal
from global_discovery.storage.sqlite.store import SqliteStore
from support.clock import FakeClock
from support.hostile import hostile
from support.hostile_json import any_json, damaged_json
from support.pools import pool_key
from support.sqlite_lives import SqliteLife, sqlite_life

CONTENT = {
    "model": "m",
    "region": "r1",
    "availability_zone": "z",
    "datacenter": "d",
    "capabilities": ["chat"],
    "capacity": [["H100", 8]],
    "frontends": ["http://10.0.0.1:8000"],
}
OWNER = {"key": ["c1", "ns", "p"], "identity": ["relay_id", "r"], "relays": ["ip:10.0.0.1"]}
RENEWAL = {
    "l": {"S": "lease"},
    "g": {"N": "15"},
    "c": {"N": "1"},
    "w": {"S": "writer"},
    "h": {"S": "hash"},
    "n": {"N": "1"},
    "t": {"N": "1.0"},
    "r": {"N": "1.0"},
    "q": {"N": "1"},
}


@hostile(examples=150, text=damaged_json(CONTENT))
def test_a_content_that_is_read_can_be_listed(text: str) -> None:
    try:
        content = decode_content(text)
    except ValueError:
        return
    registration = Registration(pool_key(), content)
    assert wire.registration_message(registration).SerializeToString()


@hostile(examples=100, owner=damaged_json(OWNER), content=damaged_json(CONTENT))
def test_a_content_item_is_read_or_unreadable(owner: str, content: str) -> None:
    try:
        said = read_content({"o": {"S": owner}, "j": {"S": content}})
    except Unreadable as told:
        str(told).encode(errors="backslashreplace")
        return
    assert all(isinstance(part, str) and part for part in said.key)
    "".join((*said.key, *said.identity, *said.relays)).encode()


NUMBERS = ["nan", "inf", "-1", "0", "1E+125", "1e400", "9" * 38, "", "x", "1_0", "٣", " 1 ", "0x1"]


@hostile(
    examples=150,
    name=st.sampled_from(sorted(RENEWAL)),
    value=st.one_of(
        st.sampled_from(NUMBERS).map(lambda text: {"N": text}),
        st.sampled_from(["", "\ud800", "x" * 1000]).map(lambda text: {"S": text}),
        any_json(),
    ),
)
def test_a_renewal_item_is_read_or_unreadable(name: str, value: Any) -> None:
    try:
        renewal = read_renewal({**RENEWAL, name: value})
    except Unreadable:
        return
    assert 0 < renewal.granted <= 86_400
    for time in (renewal.renewed_time, renewal.registered_time):
        assert wire._timestamp(time).ToJsonString()


COLUMNS = {
    "share": [
        "cluster_id",
        "namespace",
        "dgd_name",
        "identity_kind",
        "identity",
        "lease_id",
        "granted",
        "number",
        "content",
        "relays",
        "registered_time",
        "sequence",
    ],
    "lease": ["deadline", "extensions"],
    "withdrawn": ["lease_id", "until"],
    "meta": ["value", "name"],
}
PLACES = [(table, column) for table, columns in COLUMNS.items() for column in columns]
VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.binary(max_size=20),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=20),
    st.just("[" * 100_000),
    damaged_json(CONTENT).filter(lambda text: text.isascii()),
)


class File:
    """Hypothesis shows arguments; it need not show this one's bytes."""

    def __init__(self, content: bytes) -> None:
        self.content = content


@pytest.fixture(scope="module")
def a_file() -> File:
    """A file with pools in it."""
    return File(asyncio.run(_a_file()))


async def _a_file() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "registrations.db"
        async with sqlite_life(path, FakeClock()) as life:
            for number in range(12):
                await life.register(pool_key(number))
        return path.read_bytes()


@hostile(
    examples=60,
    place=st.sampled_from(PLACES),
    value=VALUES,
    row=st.integers(0, 3),
)
def test_a_file_with_any_value_in_it_is_opened_or_refused_with_a_sentence(
    a_file: File, place: tuple[str, str], value: Any, row: int
) -> None:
    table, column = place
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "registrations.db"
        path.write_bytes(a_file.content)
        with sqlite3.connect(path) as connection:
            try:
                connection.execute(
                    f"UPDATE {table} SET {column} = ? WHERE rowid % 4 = ?"  # noqa: S608 - names of ours
                    if table in {"share", "lease"}
                    else f"UPDATE {table} SET {column} = ?",  # noqa: S608 - as above
                    (value, row) if table in {"share", "lease"} else (value,),
                )
            except (sqlite3.Error, OverflowError):
                assume(False)
        connection.close()
        asyncio.run(_opened_or_refused(path))


@hostile(
    examples=60,
    cut=st.one_of(st.none(), st.integers(0, 40_000)),
    changes=st.lists(st.tuples(st.integers(0, 40_000), st.binary(min_size=1, max_size=64))),
)
def test_a_damaged_file_is_opened_or_refused_with_a_sentence(
    a_file: File, cut: int | None, changes: list[tuple[int, bytes]]
) -> None:
    data = bytearray(a_file.content)
    for place, new in changes:
        place_here = place % len(data)
        data[place_here : place_here + len(new)] = new
    note(f"{len(changes)} changes, cut {cut}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "registrations.db"
        path.write_bytes(bytes(data[:cut]))
        asyncio.run(_opened_or_refused(path))


async def _opened_or_refused(path: Path) -> None:
    """And what is opened can be listed, written and opened again."""
    clock = FakeClock()
    life = SqliteLife(SqliteStore(path, clock), clock, first_id=1_000_000)
    try:
        try:
            await life.registrar.open()
        except OSError as refused:
            sentence = str(refused)
        else:
            sentence = ""
        if sentence:
            assert path.name in sentence
            assert len(sentence) < 1000
            return
        running = asyncio.create_task(life.store.run())
        life.world.drain()
        for pool in life.world.fold.values():
            assert wire.pool_message(pool).SerializeToString()
        for number in (0, 99):
            await asyncio.wait_for(life.register(pool_key(number)), 20)
        assert not running.done()
        running.cancel()
        await asyncio.wait([running])
    finally:
        await life.store.close()
