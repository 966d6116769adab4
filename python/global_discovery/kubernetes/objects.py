"""Decodes the objects of one kind, so that a bad one harms none but itself.

An object that cannot be decoded counts as not there, in a list as in a watch:
whichever of the two shows it, the set is the same. It is reported once, until it
can be read or is gone.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

from global_discovery.kubernetes.envelopes import UNREADABLE, Key, read_names

T = TypeVar("T")

PORTION_BYTES = 256 * 1024
"""Decoded before the loop runs again."""
_NAMELESS = Key("", "?")


class Objects(Generic[T]):
    """The objects of one list and watch."""

    def __init__(
        self, decode: Callable[[msgspec.Raw], T], tell: Callable[[int, Key, str], None]
    ) -> None:
        """`decode` raises as msgspec does; `tell` is given how many, one of them, and its fault."""
        self._decode = decode
        self._tell = tell
        self._unreadable: set[Key] = set()

    async def read_all(self, raws: Iterable[msgspec.Raw]) -> tuple[dict[Key, T], dict[Key, str]]:
        """Those that can be read, and the faults of the others."""
        good: dict[Key, T] = {}
        bad: dict[Key, str] = {}
        since_breath = 0
        for raw in raws:
            key = _NAMELESS
            try:
                key, _ = read_names(raw)
                good[key] = self._decode(raw)
            except UNREADABLE as error:
                bad[key] = str(error)
            since_breath += memoryview(raw).nbytes
            if since_breath >= PORTION_BYTES:
                since_breath = 0
                await asyncio.sleep(0)
        return good, bad

    def listed(self, bad: dict[Key, str]) -> None:
        """A whole list had these faults, and no others."""
        new = bad.keys() - self._unreadable
        if new:
            example = min(new)
            self._tell(len(bad), example, bad[example])
        self._unreadable = set(bad)

    def read_one(self, key: Key, raw: msgspec.Raw) -> T | None:
        """None when it cannot be read."""
        try:
            item = self._decode(raw)
        except UNREADABLE as error:
            if key not in self._unreadable:
                self._unreadable.add(key)
                self._tell(1, key, str(error))
            return None
        self._unreadable.discard(key)
        return item

    def gone(self, key: Key) -> None:
        """It left the set."""
        self._unreadable.discard(key)
