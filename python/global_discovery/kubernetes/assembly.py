"""Puts what the watches of several namespaces show into one sink, as one set."""

from collections.abc import Mapping
from itertools import chain
from typing import Generic, TypeVar

from global_discovery.kubernetes.envelopes import Key
from global_discovery.kubernetes.sink import Sink

T = TypeVar("T")


class Assembly(Generic[T]):
    """One part a namespace; the whole is in sync while every part is.

    With a single part nothing is kept. With several, a list of one part is told as
    the whole set with that part replaced.
    """

    def __init__(self, sink: Sink[T], parts: int) -> None:
        """Parts are known by their number."""
        self._sink = sink
        self._kept: list[dict[Key, T]] = [{} for _ in range(parts)] if parts > 1 else []
        self._synced = [False] * parts

    @property
    def in_sync(self) -> bool:
        """Whether every part is."""
        return all(self._synced)

    def replaced(self, part: int, items: Mapping[Key, T]) -> None:
        """The whole of this part."""
        if not self._kept:
            self._sink.replaced(list(items.values()))
            return
        self._kept[part] = dict(items)
        self._sink.replaced(list(chain.from_iterable(kept.values() for kept in self._kept)))

    def put(self, part: int, key: Key, item: T) -> None:
        """An object entered the part or changed."""
        if self._kept:
            self._kept[part][key] = item
        self._sink.put(item)

    def deleted(self, part: int, key: Key) -> None:
        """An object left the part."""
        if self._kept:
            self._kept[part].pop(key, None)
        self._sink.deleted(key.namespace, key.name)

    def part_in_sync(self, part: int) -> None:
        """The part follows the server."""
        self._synced[part] = True
        if self.in_sync:
            self._sink.in_sync()

    def part_out_of_sync(self, part: int) -> None:
        """It does not."""
        self._synced[part] = False
        self._sink.out_of_sync()
