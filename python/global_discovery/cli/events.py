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

import grpc

from global_discovery.cli.kinds import Document, Kind
from global_discovery.cli.text import count, safe
from global_discovery.client.errors import CallFailed
from global_discovery.client.watch import Connection, WatchState
from global_discovery.v1 import pool_pb2

_LACKS = "no rule of the policy lets this identity read any pool"
"""What a refused watch lacks; the server itself says the same to every refused call."""


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
class Unconnected:
    """The connection was lost, or could not be made and this server's reason is a new one."""

    error: CallFailed
    lost: bool


@dataclass(frozen=True, slots=True)
class Connected:
    """After the events above a server answers: `again`, or for the first time."""

    server: str
    again: bool


Event = Snapshot | Changed | Left | Marked | Unconnected | Connected


class Events:
    """Turns states into events. Keeps only what was told of the connection."""

    def __init__(self) -> None:
        """A first connection that was made at once is no event."""
        self._connected = False
        self._ever_connected = False
        self._told: dict[str, grpc.StatusCode] = {}
        """What keeps each server from answering, as it was told since the last connection."""

    def of(self, state: WatchState[Any]) -> Iterator[Event]:
        """The events of one state, in order."""
        update, fold = state.update, state.fold
        yield from self._of_connection(state.connection)
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

    def _of_connection(self, connection: Connection) -> Iterator[Event]:
        error = connection.last_error
        if connection.connected:
            if self._told:
                yield Connected(connection.server, again=self._ever_connected)
            self._told.clear()
            self._ever_connected = True
        elif error is not None:
            if self._connected or self._told.get(error.server) is not error.code:
                yield Unconnected(error, lost=self._connected)
            self._told[error.server] = error.code
        self._connected = connection.connected


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
        case Unconnected(error, lost):
            return {
                "event": "connection_lost" if lost else "connection_failed",
                "server": error.server,
                "error": str(error),
                "code": error.code.name,
                "reason": error.details.reason,
            }
        case Connected(server, again):
            return {"event": f"connection_{'restored' if again else 'made'}", "server": server}


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
        case Unconnected(error, lost):
            yield f"{'lost' if lost else 'failed':9} {safe(unconnected_text(error))}"
        case Connected(server, again):
            answers = "answers again" if again else "answers"
            yield f"{'restored' if again else 'connected':9} {safe(server)} {answers}"


def unconnected_text(error: CallFailed) -> str:
    """Why there is no connection, with the reason's fixed code. Not escaped."""
    reason = error.details.reason or error.code.name
    lacks = f", {_LACKS}" if error.code is grpc.StatusCode.PERMISSION_DENIED else ""
    return f"{error} ({reason}{lacks}); trying again"
