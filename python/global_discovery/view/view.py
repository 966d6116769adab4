"""One list: what it is now, at which position, and how it came there.

`refresh` takes what the source has, gives each change the next position and
keeps it in a bounded history. Everything that is served - a snapshot, what
changed since a position, a page - is a pure function of that. A reader that
holds a position costs nothing but that number.

A mark is true of the moment at which it was taken, and time alone makes an exact
one wrong. So whatever is told must be told of a view that was brought forward for it
(`refresh`), or a moment ago (`freshen`).
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from global_discovery.domain.change import Change, Departure
from global_discovery.domain.completeness import Mark, Reason
from global_discovery.sources.source import Source
from global_discovery.view.position import Position, decode, new_process_id

MAX_KEPT_SNAPSHOTS = 256
_RECORD_BYTES = 256


class Keyed(Protocol):
    """What a view can list."""

    @property
    def key(self) -> Any:
        """Unique within a list; sorts as the list is sorted."""
        ...


class Filter(Protocol):
    """Which values a reader wants."""

    @property
    def matches_all(self) -> bool:
        """Whether nothing is filtered."""
        ...

    @property
    def fingerprint(self) -> bytes:
        """Equal exactly for equal filters."""
        ...

    def matches(self, value: Any) -> bool:
        """Whether a value is wanted."""
        ...

    def may_name(self, key: Any) -> bool:
        """Whether the reader may be told of a key at all, if only that it left."""
        ...


T = TypeVar("T", bound=Keyed)
Pause = Callable[[], Awaitable[object]]
"""Lets others have the loop."""
ValueChanged = Callable[[Any, T | None, T | None, Departure | None], None]
"""Of a key: the value before and after, and how it left if it did."""


class Entry(Generic[T]):
    """One listed value, and the encoded forms that the faces keep with it."""

    __slots__ = ("json", "value", "wire")

    def __init__(self, value: T) -> None:
        """The encoded forms are made when they are first needed."""
        self.value = value
        self.wire: bytes | None = None
        self.json: bytes | None = None


class Form(NamedTuple):
    """How a face writes an entry, once in the entry's life."""

    missing: Callable[[Entry[Any]], bool]
    """Whether it was not written yet."""
    write: Callable[[Entry[Any]], bytes]


class Snapshot(NamedTuple, Generic[T]):
    """The whole list under a filter at a position."""

    sequence: int
    mark: Mark
    entries: tuple[Entry[T], ...]
    """Sorted by key."""


class Delta(NamedTuple, Generic[T]):
    """What changed between two positions, each key at most once."""

    sequence: int
    mark: Mark
    entries: tuple[Entry[T], ...]
    removed: tuple[Hashable, ...]
    unlisted: tuple[Hashable, ...]
    merged: int
    """How many changes were merged into newer ones of the same key."""


class _Record(NamedTuple, Generic[T]):
    """One position: a change of one key, or of the mark alone (then `key` is None)."""

    key: Any
    before: Entry[T] | None
    after: Entry[T] | None
    departure: Departure | None
    estimated: bool
    weight: int
    """About how many bytes are kept for it alone."""


class HistoryLimits(NamedTuple):
    """How much is kept for readers that come back; above either, the older half goes."""

    changes: int = 65_536
    size: int = 64 * 1024 * 1024
    """In bytes, about."""


ENTRIES_A_PORTION = 250
"""What is looked at under a filter in less than a quarter of a millisecond."""
WRITTEN_A_PORTION = 30
"""As many are written in less than half a millisecond."""
DEFAULT_LIMITS = HistoryLimits()
FRESH_SECONDS = 0.25
"""For how long what was brought forward is told without another look; far below any bound."""


class View(Generic[T]):
    """The list of one source."""

    def __init__(  # noqa: PLR0913 - by keyword, and all but one have a default
        self,
        source: Source[Any, T],
        *,
        process: bytes | None = None,
        boottime: Callable[[], float] = lambda: 0.0,
        weigh: Callable[[T], int] = lambda _: 256,
        limits: HistoryLimits = DEFAULT_LIMITS,
        mark_changed: Callable[[Mark], None] = lambda _: None,
        value_changed: ValueChanged[T] = lambda *_: None,
    ) -> None:
        """`weigh` tells about how many bytes a value takes; what changed away is kept that long.

        `boottime` is the clock that runs while suspended; without one a view stays
        fresh. `value_changed` is told each change as it becomes a position.
        """
        self._source = source
        self._boottime = boottime
        self._refreshed_at = float("-inf")
        self._weigh = weigh
        self._limits = limits
        self._mark_changed = mark_changed
        self._value_changed = value_changed
        self._entries: dict[Any, Entry[T]] = {}
        """In the order of their keys once `_sort` has run."""
        self._sorted = True
        self._history: list[_Record[T]] = []
        self._history_bytes = 0
        self._forgotten = 0
        """The position before the first record of the history."""
        self._snapshots: dict[bytes, Snapshot[T]] = {}
        self._written: dict[tuple[bytes, Form], int] = {}
        """The position at which all entries of a filter were written in a form."""
        self.process = new_process_id() if process is None else process
        self.mark = Mark(frozenset({Reason.STARTING}), bound=0.0)
        self.synced = False
        """Whether the source has once known its whole list."""
        self._moved: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        """How many values are listed."""
        return len(self._entries)

    def get(self, key: Hashable) -> T | None:
        """The value of a key, as of the newest position; None when it is not listed."""
        entry = self._entries.get(key)
        return None if entry is None else entry.value

    @property
    def sequence(self) -> int:
        """The newest position; grows with every change."""
        return self._forgotten + len(self._history)

    @property
    def history(self) -> int:
        """How many changes are kept."""
        return len(self._history)

    def on_move(self, moved: Callable[[], None]) -> None:
        """Has `moved` called when the source may have something, or a reader brought it in."""
        self._moved = moved
        self._source.on_change(moved)

    def refresh(self) -> bool:
        """Takes what the source has; whether there is a new position."""
        before = self.sequence
        self._refreshed_at = self._boottime()
        update = self._source.drain()
        mark_moved = update.mark != self.mark
        self.mark = update.mark
        self.synced = self.synced or update.synced
        for change in update.changes:
            self._apply(change)
        if mark_moved:
            if self.sequence == before:
                self._record(None, None, None, None)
            self._mark_changed(self.mark)
        moved = self.sequence != before
        if moved:
            self._snapshots.clear()
            self._trim()
            self._moved()
        return moved

    def freshen(self) -> None:
        """Takes what the source has unless that was just done: the loop may have stood still."""
        if self._boottime() - self._refreshed_at > FRESH_SECONDS:
            self.refresh()

    def snapshot(self, wanted: Filter) -> Snapshot[T]:
        """The list as it is, under a filter; made once per position and filter."""
        snapshot = self._snapshots.get(wanted.fingerprint)
        if snapshot is None:
            self._sort()
            entries: Iterable[Entry[T]] = self._entries.values()
            if not wanted.matches_all:
                entries = (entry for entry in entries if wanted.matches(entry.value))
            snapshot = Snapshot(self.sequence, self.mark, tuple(entries))
            self._keep_snapshot(wanted, snapshot)
        return snapshot

    async def prepare(self, wanted: Filter, form: Form, *, writing: Pause, choosing: Pause) -> None:
        """Makes in portions what `snapshot` is about to be asked for, and writes its entries.

        The pauses are awaited between them. An entry is written once in its life, but
        chosen for each new filter. In vain, in part, when the view moves meanwhile.
        """
        if not wanted.matches_all and wanted.fingerprint not in self._snapshots:
            await self._choose(wanted, choosing)
        if wanted.matches_all or wanted.fingerprint in self._snapshots:
            await self._write(wanted, form, writing)

    async def _write(self, wanted: Filter, form: Form, pause: Pause) -> None:
        name = (wanted.fingerprint, form)
        if self._written.get(name) == self.sequence:
            return
        snapshot = self.snapshot(wanted)
        missing = list(filter(form.missing, snapshot.entries))
        for number, entry in enumerate(missing):
            if number and number % WRITTEN_A_PORTION == 0:
                await pause()
            form.write(entry)
        if len(self._written) == MAX_KEPT_SNAPSHOTS:
            self._written.clear()
        self._written[name] = snapshot.sequence

    async def _choose(self, wanted: Filter, pause: Pause) -> None:
        self._sort()
        sequence, mark, entries = self.sequence, self.mark, tuple(self._entries.values())
        chosen: list[Entry[T]] = []
        for first in range(0, len(entries), ENTRIES_A_PORTION):
            if first:
                await pause()
                if self.sequence != sequence:
                    return
            portion = entries[first : first + ENTRIES_A_PORTION]
            chosen += [entry for entry in portion if wanted.matches(entry.value)]
        self._keep_snapshot(wanted, Snapshot(sequence, mark, tuple(chosen)))

    def _keep_snapshot(self, wanted: Filter, snapshot: Snapshot[T]) -> None:
        if len(self._snapshots) == MAX_KEPT_SNAPSHOTS:
            self._snapshots.clear()
        self._snapshots[wanted.fingerprint] = snapshot

    def since(self, sequence: int, wanted: Filter) -> Delta[T] | None:
        """What changed since a position, under a filter.

        None when the history does not reach back so far, or not yet forward: the
        reader needs a snapshot.
        """
        if not self._forgotten <= sequence <= self.sequence:
            return None
        records = self._history[sequence - self._forgotten :]
        first: dict[Any, Entry[T] | None] = {}
        last: dict[Any, _Record[T]] = {}
        doubted: set[Any] = set()
        changes = 0
        for record in records:
            if record.key is None:
                continue
            changes += 1
            first.setdefault(record.key, record.before)
            last[record.key] = record
            # A reader that comes to an estimated view through an exact moment which
            # it never saw still carries what that moment would have dropped.
            if record.estimated or not self.mark.exact:
                doubted.add(record.key)
        entries: list[Entry[T]] = []
        gone: dict[Departure, list[Any]] = {Departure.REMOVED: [], Departure.UNLISTED: []}
        for key, record in last.items():
            if record.after is not None and wanted.matches(record.after.value):
                entries.append(record.after)
                continue
            departure = _departure(record, wanted)
            before = first[key]
            listed = before is not None and wanted.matches(before.value)
            told = listed or (departure is Departure.REMOVED and key in doubted)
            if told and wanted.may_name(key):
                gone[departure].append(key)
        return Delta(
            self.sequence,
            self.mark,
            tuple(entries),
            tuple(gone[Departure.REMOVED]),
            tuple(gone[Departure.UNLISTED]),
            changes - len(last),
        )

    def position(self, sequence: int, wanted: Filter) -> str:
        """What a caller hands back to `resume`."""
        return Position(self.process, wanted.fingerprint, sequence).encode()

    def resume(self, position: str, wanted: Filter) -> int | None:
        """The sequence that a position of this process and filter names, else None.

        Raises BadPosition for one that is damaged.
        """
        point = decode(position)
        if point is None or (point.process, point.filter) != (self.process, wanted.fingerprint):
            return None
        return point.sequence

    def _apply(self, change: Change[Any, T]) -> None:
        before = self._entries.get(change.key)
        was = None if before is None else before.value
        self._value_changed(change.key, was, change.value, change.departure)
        if change.value is not None:
            after = self._entries[change.key] = Entry(change.value)
            self._sorted = self._sorted and before is not None
            self._record(change.key, before, after, None)
        elif before is not None:
            del self._entries[change.key]
            self._record(change.key, before, None, change.departure)
        else:
            # It came and went unseen: a reader may still carry it from elsewhere.
            self._record(change.key, None, None, change.departure)

    def _record(
        self,
        key: Any,
        before: Entry[T] | None,
        after: Entry[T] | None,
        departure: Departure | None,
    ) -> None:
        weight = _RECORD_BYTES + (0 if before is None else self._weigh(before.value))
        self._history_bytes += weight
        self._history.append(_Record(key, before, after, departure, not self.mark.exact, weight))

    def _sort(self) -> None:
        """Puts what entered since the last time where it belongs; cheap, as the rest is sorted."""
        if not self._sorted:
            self._entries = {key: self._entries[key] for key in sorted(self._entries)}
            self._sorted = True

    def _trim(self) -> None:
        """Forgets the older half once there is too much."""
        number, size = len(self._history), self._history_bytes
        limits = self._limits
        if number <= limits.changes and size <= limits.size:
            return
        oldest = iter(self._history)
        while number > limits.changes // 2 or size > limits.size // 2:
            size -= next(oldest).weight
            number -= 1
        forgotten = len(self._history) - number
        del self._history[:forgotten]
        self._forgotten += forgotten
        self._history_bytes = size


def _departure(record: _Record[T], wanted: Filter) -> Departure:
    """How a key left a reader's list that has no place for its newest state.

    What no longer matched the filter when its lease ended is gone for this
    reader, whatever that end means.
    """
    before = record.before
    if record.departure is Departure.UNLISTED and (before is None or wanted.matches(before.value)):
        return Departure.UNLISTED
    return Departure.REMOVED
