"""How a list changes: a value under a key, or a departure of one of two kinds."""

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class Departure(Enum):
    """How a key leaves a list."""

    REMOVED = "removed"
    """Positive knowledge: withdrawn, lapsed while we listened, gone from a synced source."""
    UNLISTED = "unlisted"
    """Its lease ended while renewals may have been missed: routers carry it on."""


@dataclass(frozen=True, slots=True)
class Change(Generic[K, T]):
    """The newest state of one key: exactly one of `value` and `departure` is set."""

    key: K
    value: T | None
    departure: Departure | None = None
