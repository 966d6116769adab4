"""The newest changes of a list, with the time of each: for people only.

Bounded, in memory, and fed by the view as it gives a change its position, so a
renewal that changes nothing costs nothing here. What a pool was and became is
not kept, only which parts of it changed.
"""

from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

from global_discovery.domain.change import Departure
from global_discovery.domain.pool import Pool, PoolKey

KEPT = 1_000


class Kind(Enum):
    """What happened to a pool."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"
    UNLISTED = "unlisted"


class RecentChange(NamedTuple):
    """One of them."""

    at: float
    """Seconds since the epoch."""
    kind: Kind
    key: PoolKey
    model: str
    """That it has, or had when it left; empty when it was never listed here."""
    parts: tuple[str, ...]
    """What changed of it, by the names of the contract."""


class RecentChanges:
    """The newest KEPT ones."""

    def __init__(self, wall: Callable[[], float]) -> None:
        """`wall` gives seconds since the epoch."""
        self._wall = wall
        self._kept: deque[RecentChange] = deque(maxlen=KEPT)

    def __iter__(self) -> Iterator[RecentChange]:
        """The newest first."""
        return reversed(self._kept)

    def note(
        self, key: PoolKey, before: Pool | None, after: Pool | None, departure: Departure | None
    ) -> None:
        """See `view.ValueChanged`. What was not listed and is not is no change to people."""
        known = after or before
        if known is None:
            return
        parts: tuple[str, ...] = ()
        if after is None:
            unlisted = departure is Departure.UNLISTED
            kind = Kind.UNLISTED if unlisted else Kind.REMOVED
        elif before is None or before.registered_time != after.registered_time:
            kind = Kind.ADDED
        else:
            kind, parts = Kind.CHANGED, tuple(_changed(before, after))
        change = RecentChange(self._wall(), kind, key, known.content.model, parts)
        self._kept.append(change)


def _changed(before: Pool, after: Pool) -> Iterator[str]:
    for name in ("model", "location", "capabilities", "capacity", "frontends"):
        if getattr(before.content, name) != getattr(after.content, name):
            yield name
    if before.relays != after.relays:
        yield "relays"
