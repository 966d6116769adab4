"""Where a list and watch puts what it reads."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

T_contra = TypeVar("T_contra", contravariant=True)


class Sink(Protocol[T_contra]):
    """Holds the last known state. Called from the loop only; none of it may block or raise."""

    def replaced(self, items: Sequence[T_contra]) -> None:
        """The whole set as of one moment: what is not in it is gone."""
        ...

    def put(self, item: T_contra) -> None:
        """An object entered the set or changed."""
        ...

    def deleted(self, namespace: str, name: str) -> None:
        """An object left the set: deleted, or no longer selected."""
        ...

    def in_sync(self) -> None:
        """The set follows the server from now on. May be repeated.

        Told after a complete list, and when a watch that was broken goes on from
        where it was.
        """
        ...

    def out_of_sync(self) -> None:
        """The watch is known to be broken or silent: the set may be old. May be repeated."""
        ...
