"""Remembers what became of bytes that come again and again, within bounded memory.

Heartbeats repeat the same bytes; checking them once is enough. Two generations:
what is asked for lives on, what is not is gone after the younger one has filled
up twice. Looking something up costs one or two dictionary accesses.
"""

from typing import Generic, TypeVar

V = TypeVar("V")

MAX_BYTES = 24 * 1024 * 1024
VALUE_BYTES = 512
"""What is counted for a value and its place, so that very many short keys are bounded too."""
MAX_KEY_BYTES = 4 * 1024


class ByteCache(Generic[V]):
    """Values by bytes; together they are counted as at most `max_bytes`."""

    def __init__(self, *, max_bytes: int = MAX_BYTES, max_key_bytes: int = MAX_KEY_BYTES) -> None:
        """Keys above `max_key_bytes` are not remembered."""
        self._room = self._left = max_bytes // 2
        self._max_key_bytes = max_key_bytes
        self._young: dict[bytes, V] = {}
        self._old: dict[bytes, V] = {}

    def __len__(self) -> int:
        """How many values are remembered."""
        return len(self._young.keys() | self._old.keys())

    def get(self, key: bytes) -> V | None:
        """What was put under these bytes, if it is still remembered."""
        value = self._young.get(key)
        if value is None:
            value = self._old.get(key)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: bytes, value: V) -> None:
        """Remembers a value."""
        if len(key) > self._max_key_bytes:
            return
        size = len(key) + VALUE_BYTES
        self._left -= size
        if self._left < 0:
            self._old, self._young = self._young, {}
            self._left = self._room - size
        self._young[key] = value
