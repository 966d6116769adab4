"""Paged lists (AIP-158): all pages of one list are of one position.

A list that did not fit into its first page is kept for a minute, and no more
than `MAX_KEPT` of them; after that its next page is refused and the caller
begins again. Callers of the same list share it.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from global_discovery.domain.clock import Clock
from global_discovery.domain.errors import InvalidInput, PositionGone, Violation
from global_discovery.view.position import BadPosition, Position, decode
from global_discovery.view.view import Entry, Filter, Keyed, Snapshot, View

T = TypeVar("T", bound=Keyed)

DEFAULT_PAGE_SIZE = 1_000
MAX_PAGE_SIZE = 10_000
MAX_PAGE_BYTES = 1024 * 1024
MAX_KEPT = 64
KEPT_SECONDS = 60.0


class Place(NamedTuple, Generic[T]):
    """Where a page begins, and how many entries it may have."""

    snapshot: Snapshot[T]
    fingerprint: bytes
    offset: int
    size: int

    @property
    def name(self) -> tuple[bytes, int, int, int]:
        """Equal for the places of equal pages."""
        return self.fingerprint, self.snapshot.sequence, self.offset, self.size


class Page(NamedTuple, Generic[T]):
    """One page and where the next one begins."""

    snapshot: Snapshot[T]
    entries: tuple[Entry[T], ...]
    next_page_token: str


class Pages(Generic[T]):
    """The pages of one view."""

    def __init__(self, view: View[T], *, clock: Clock, size_of: Callable[[Entry[T]], int]) -> None:
        """`size_of` tells how many bytes an entry takes in a page."""
        self._view = view
        self._clock = clock
        self._size_of = size_of
        self._kept: OrderedDict[tuple[bytes, int], tuple[float, Snapshot[T]]] = OrderedDict()

    def page(self, wanted: Filter, page_size: int, page_token: str) -> Page[T]:
        """One page of at most `page_size` entries and about a MiB.

        0 is the default size, larger ones are coerced. Raises InvalidInput for a
        negative size and for a token that is damaged or of another filter, and
        PositionGone for one whose list is no longer here.
        """
        return self.cut(self.find(wanted, page_size, page_token))

    def find(self, wanted: Filter, page_size: int, page_token: str) -> Place[T]:
        """Where a page begins. Raises what `page` raises."""
        if page_size < 0:
            raise InvalidInput([Violation("page_size", "must not be negative")])
        size = min(page_size or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)
        snapshot, offset = self._list(wanted, page_token)
        return Place(snapshot, wanted.fingerprint, offset, size)

    def cut(self, place: Place[T]) -> Page[T]:
        """The page at a place; what comes after it is kept."""
        snapshot, fingerprint, offset, size = place
        taken: list[Entry[T]] = []
        room = MAX_PAGE_BYTES
        for entry in snapshot.entries[offset : offset + size]:
            room -= self._size_of(entry)
            if room < 0 and taken:
                break
            taken.append(entry)
        end = offset + len(taken)
        if end >= len(snapshot.entries):
            return Page(snapshot, tuple(taken), "")
        self.keep(place)
        token = Position(self._view.process, fingerprint, snapshot.sequence, end).encode()
        return Page(snapshot, tuple(taken), token)

    def keep(self, place: Place[T]) -> None:
        """Keeps the list of a page, from now on, for those who want the next one."""
        self._drop_old()
        name = (place.fingerprint, place.snapshot.sequence)
        self._kept[name] = (self._clock.monotonic(), place.snapshot)
        self._kept.move_to_end(name)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)

    def _list(self, wanted: Filter, page_token: str) -> tuple[Snapshot[T], int]:
        if not page_token:
            self._view.refresh()
            return self._view.snapshot(wanted), 0
        try:
            point = decode(page_token)
        except BadPosition:
            raise InvalidInput([Violation("page_token", "is damaged")]) from None
        if point is None or point.process != self._view.process:
            raise PositionGone
        if point.offset == 0:
            raise InvalidInput([Violation("page_token", "is none: it is a position")])
        if point.filter != wanted.fingerprint:
            raise InvalidInput([Violation("page_token", "belongs to another filter")])
        self._drop_old()
        kept: Any = self._kept.get((point.filter, point.sequence))
        if kept is None:
            raise PositionGone
        return kept[1], point.offset

    def _drop_old(self) -> None:
        horizon = self._clock.monotonic() - KEPT_SECONDS
        while self._kept and next(iter(self._kept.values()))[0] < horizon:
            self._kept.popitem(last=False)
