"""A lazy timing wheel: constant work for a renewal, bounded work for a tick.

An item lies in the slot of the deadline it had when it was put in. Moving its
deadline later costs nothing: the wheel asks for the deadline again when the
slot comes due, and puts the item back if it is not due yet. An item comes out
at its deadline at the earliest, and at most one slot late.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

SLOT_SECONDS = 0.1


class TimingWheel(Generic[T]):
    """Items by deadline. `deadline_of` tells an item's present deadline, in seconds."""

    def __init__(self, *, now: float, deadline_of: Callable[[T], float]) -> None:
        """`now` is on the clock of the deadlines."""
        self._deadline_of = deadline_of
        self._slots: dict[int, set[T]] = {}
        self._slot_of: dict[T, int] = {}
        self._next = self._slot(now)

    def __len__(self) -> int:
        """How many items there are."""
        return len(self._slot_of)

    def add(self, item: T) -> None:
        """Puts an item in, once."""
        slot = max(self._next, self._slot(self._deadline_of(item)) + 1)
        self._slot_of[item] = slot
        self._slots.setdefault(slot, set()).add(item)

    def discard(self, item: T) -> None:
        """Takes an item out, if it is in."""
        slot = self._slot_of.pop(item, None)
        if slot is not None:
            items = self._slots[slot]
            items.discard(item)
            if not items:
                del self._slots[slot]

    def take_due(self, now: float, limit: int) -> list[T]:
        """Takes out items whose deadline has come, looking at no more than `limit` slots and items.

        When fewer than `limit` items come back there may still be more, if
        others were only looked at; `behind(now)` tells.
        """
        due: list[T] = []
        last = self._slot(now)
        while limit > 0 and self._next <= last:
            items = self._slots.get(self._next)
            if not items:
                self._slots.pop(self._next, None)
                self._next = self._next + 1 if self._slots else last + 1
                limit -= 1
                continue
            while items and limit > 0:
                limit -= 1
                item = items.pop()
                del self._slot_of[item]
                if self._deadline_of(item) <= now:
                    due.append(item)
                else:
                    self.add(item)
        return due

    def behind(self, now: float) -> bool:
        """Whether slots that have come due are still unread."""
        return self._next <= self._slot(now) and bool(self._slots)

    @staticmethod
    def _slot(time: float) -> int:
        return int(time / SLOT_SECONDS)
