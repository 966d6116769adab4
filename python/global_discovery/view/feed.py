"""What all watchers with one filter are told, encoded once for each place they have.

A feed holds nothing that the view does not: it forgets its messages as soon as
the view moves. It knows no wire format; an `Encoder` is given to it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from global_discovery.domain.completeness import Mark
from global_discovery.view.view import Delta, Filter, Keyed, Snapshot, View

T = TypeVar("T", bound=Keyed)
Frames = Iterable[bytes]


@dataclass(frozen=True, slots=True)
class Encoder(Generic[T]):
    """How what a watcher is told becomes messages. Each may be iterated more than once."""

    snapshot: Callable[[Snapshot[T], str], Frames]
    """Of a snapshot and its position."""
    delta: Callable[[Delta[T], str], Frames]
    """Of changes and the position after them."""
    idle: Callable[[Mark, str], Frames]
    """Of the mark and the position; an empty position before the first snapshot."""


class Feed(Generic[T]):
    """The messages for one filter."""

    def __init__(self, view: View[T], wanted: Filter, encoder: Encoder[T]) -> None:
        """Of a view, under a filter."""
        self.wanted = wanted
        self.watchers = 0
        """How many use it; kept by the fan-out."""
        self._view = view
        self._encoder = encoder
        self._at = -1
        self._deltas: dict[int, tuple[Delta[T], Frames] | None] = {}
        self._snapshot: tuple[Snapshot[T], Frames] | None = None
        self._idle: tuple[tuple[int | None, Mark], Frames] | None = None

    def snapshot(self) -> tuple[Snapshot[T], Frames]:
        """For a watcher that has no place yet, or one that cannot be continued."""
        self._follow()
        if self._snapshot is None:
            snapshot = self._view.snapshot(self.wanted)
            self._snapshot = snapshot, self._encoder.snapshot(snapshot, self._position())
        return self._snapshot

    def delta(self, since: int) -> tuple[Delta[T], Frames] | None:
        """For a watcher at this place; None when it needs a snapshot."""
        self._follow()
        if since not in self._deltas:
            delta = self._view.since(since, self.wanted)
            self._deltas[since] = (
                None if delta is None else (delta, self._encoder.delta(delta, self._position()))
            )
        return self._deltas[since]

    def idle(self, sequence: int | None, mark: Mark) -> Frames:
        """For a watcher with nothing new; `sequence` is None before its first snapshot."""
        if self._idle is None or self._idle[0] != (sequence, mark):
            position = "" if sequence is None else self._view.position(sequence, self.wanted)
            self._idle = (sequence, mark), self._encoder.idle(mark, position)
        return self._idle[1]

    def _follow(self) -> None:
        if self._at != self._view.sequence:
            self._at = self._view.sequence
            self._deltas.clear()
            self._snapshot = None

    def _position(self) -> str:
        return self._view.position(self._view.sequence, self.wanted)
