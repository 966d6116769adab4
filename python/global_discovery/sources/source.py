"""The one interface between what knows pools or routers and the view."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from global_discovery.domain.change import Change
from global_discovery.domain.completeness import Mark

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Update(Generic[K, T]):
    """Everything since the last one, each key at most once, with the mark as it is now."""

    changes: Sequence[Change[K, T]]
    mark: Mark
    synced: bool = True
    """False until the source has once known its whole list: no snapshot before that."""


class Source(Protocol[K, T]):
    """Yields a list as changes. The first update has everything that is there."""

    def drain(self) -> Update[K, T]:
        """What changed since the last call, merged by key.

        After it, a reader that applied every update has exactly the source's
        list. May contain the departure of a key that was never told: it came
        and went in between.
        """
        ...

    def on_change(self, wake: Callable[[], None]) -> None:
        """Has `wake` called whenever there may be something to drain."""
        ...
