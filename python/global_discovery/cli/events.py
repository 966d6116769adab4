"""What `--watch` reports: the states of a watch as a sequence of events, in two spellings.

A snapshot is told as it came; pools that were known and are not in it are told
after it, as `unlisted` while the view is estimated and as `removed` when it is
exact. After each batch of events the events so far add up to what the client
offers at that moment.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from global_discovery.cli.kinds import Document, Kind
from global_discovery.cli.text import count, safe
from global_discovery.client.watch import Connection, WatchState
from global_discovery.v1 import pool_pb2


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole view."""

    entries: tuple[Any, ...]
    mark: pool_pb2.Mark | None


@dataclass(frozen=True, slots=True)
class Changed:
    """An entry came or changed."""

    entry: Any


@dataclass(frozen=True, slots=True)
class Left:
    """An entry left, by positive knowledge or (`unlisted`) without it."""

    key: Any
    unlisted: bool


@dataclass(frozen=True, slots=True)
class Marked:
    """The mark, its reasons or its bound changed."""

    mark: pool_pb2.Mark


@dataclass(frozen=True, slots=True)
class Connected:
    """The connection was lost, or is back."""

    connection: Connection


Event = Snapshot | Changed | Left | Marked | Connected


class Events:
    """Turns states into events. Keeps only whether the connection was lost."""

    def __init__(self) -> None:
        """The first connection is no event."""
        self._lost = False

    def of(self, state: WatchState[Any]) -> Iterator[Event]:
        """The events of one state, in order."""
        connection, update, fold = state.connection, state.update, state.fold
        if connection.connected is self._lost:
            yield Connected(connection)
        self._lost = not connection.connected
        if update is None:
            return
        if update.snapshot:
            yield Snapshot(tuple(fold.listed.values()), fold.mark)
        else:
            yield from map(Changed, update.changed)
        yield from (Left(key, unlisted=False) for key in update.removed)
        yield from (Left(key, unlisted=True) for key in update.carried)
        if update.mark_changed and not update.snapshot and fold.mark is not None:
            yield Marked(fold.mark)


def json_text(document: Document) -> str:
    """One line of JSON that no terminal can be steered with."""
    return json.dumps(document, ensure_ascii=True).replace("\x7f", "\\u007f")


def event_document(event: Event, kind: Kind) -> Document:
    """One event for `-o json`."""
    match event:
        case Snapshot(entries, mark):
            told = kind.mark_document(mark) if mark is not None else {}
            listed = {kind.plural: [kind.document(entry) for entry in entries]}
            return {"event": "snapshot", **listed, **told}
        case Changed(entry):
            return {"event": "changed", kind.noun: kind.document(entry)}
        case Left(key, unlisted):
            return {"event": "unlisted" if unlisted else "removed", **kind.key_document(key)}
        case Marked(mark):
            return {"event": "mark", **kind.mark_document(mark)}
        case Connected(connection):
            return _connection_document(connection)


def _connection_document(connection: Connection) -> Document:
    if connection.connected:
        return {"event": "connection_restored", "server": connection.server}
    return {
        "event": "connection_lost",
        "server": connection.server,
        "error": str(connection.last_error),
    }


def event_lines(event: Event, kind: Kind) -> Iterator[str]:
    """One event for people who read a pipe or a log: what happened, then to what."""
    match event:
        case Snapshot(entries, mark):
            yield f"snapshot  {count(len(entries), kind.noun)}, {kind.mark_sentence(mark)}"
            yield from (f"listed    {safe(kind.line(entry))}" for entry in entries)
        case Changed(entry):
            yield f"changed   {safe(kind.line(entry))}"
        case Left(key, unlisted):
            yield f"{'unlisted' if unlisted else 'removed':9} {safe(str(key))}"
        case Marked(mark):
            yield f"mark      {kind.mark_sentence(mark)}"
        case Connected(connection):
            if connection.connected:
                yield f"restored  {safe(connection.server)} answers again"
            else:
                yield f"lost      {safe(str(connection.last_error))}; trying again"
