"""The fold of a cache: who told a pool, when, and which exact mark ends it.

A cache outlives its servers, and behind one name several may answer that read
one store at different times. An exact mark promises that every pool which has
been registered for longer than its *bound* is in the view; so:

* a mark of the process that told a pool ends it, when that process no longer
  lists it;
* a mark of another process ends it only when it was told longer ago than that
  mark's bound. Until then it is carried, although the mark is exact, and the
  first exact mark that comes later, an idle message's too, ends it;
* `removed` ends it always, and nothing else does.

Where the process cannot be known (an older server's list over HTTP does not name
it), every mark counts as another one's. A view counts as of when it came: one that
was under way for longer than its bound may, until the next change comes, end what
another process told meanwhile. There is no I/O here, and time is an argument.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from global_discovery.client.fold import Carried, PoolFold, PoolKey, Update, WatchResponse
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2


@dataclass(frozen=True, slots=True)
class KnownPool:
    """A pool with what is known of its knowing. Times are on one clock of the caller."""

    pool: pool_pb2.Pool
    listed_until: float
    """When it was last known to be listed."""
    told_at: float
    """When its content was last told."""
    told_by: str
    """The process that told it; empty when that is not known."""


class CarryingFold(PoolFold):
    """A `PoolFold` that carries a pool until an exact mark can know that it left."""

    def __init__(self) -> None:
        """Empty, without a mark or a position."""
        super().__init__()
        self._tellings: dict[PoolKey, tuple[float, str]] = {}

    def restore(self, known: Iterable[KnownPool], wanted: pb.PoolFilter | None = None) -> None:
        """Carries these from now on, as far as they match the filter. For an empty fold."""
        for each in known:
            if wanted is None or matches(each.pool, wanted):
                key = PoolKey.of(each.pool.key)
                self._carried[key] = Carried(each.pool, each.listed_until)
                self._tellings[key] = (each.told_at, each.told_by)

    def known(self) -> Iterator[KnownPool]:
        """Everything that is offered, to be restored by another run."""
        for key, pool in self._listed.items():
            yield KnownPool(pool, self._listed_at, *self._tellings[key])
        for key, carried in self._carried.items():
            yield KnownPool(carried.entry, carried.listed_until, *self._tellings[key])

    def apply(self, message: WatchResponse, *, now: float) -> Update[PoolKey, pool_pb2.Pool] | None:
        """As `Fold.apply`."""
        update = super().apply(message, now=now)
        for key in update.removed if update is not None else ():
            if key not in self._listed and key not in self._carried:
                del self._tellings[key]
        return update

    def _told(self, key: PoolKey, now: float) -> None:
        self._tellings[key] = (now, self._process)

    def _ended_by(self, mark: pool_pb2.Mark, now: float) -> list[PoolKey]:
        bound = bound_seconds(mark)
        ended = []
        for key in self._carried:
            told_at, told_by = self._tellings[key]
            if (told_by and told_by == self._process) or now - told_at > bound:
                ended.append(key)
        return ended


def bound_seconds(mark: pool_pb2.Mark) -> float:
    """How recently registered a pool may be and be missing: from whichever side it is later.

    A number that is none does not count; a pool would be carried for ever.
    """
    bounds = (mark.bound_secs, mark.slices_bound_secs)
    return max((bound for bound in bounds if math.isfinite(bound)), default=0.0)


def matches(pool: pool_pb2.Pool, wanted: pb.PoolFilter) -> bool:
    """Whether a pool matches a filter, as the server would say."""
    pairs = (
        (pool.model, wanted.models),
        (pool.location.region, wanted.regions),
        (pool.key.cluster_id, wanted.cluster_ids),
        (pool.key.namespace, wanted.namespaces),
    )
    return all(value in allowed for value, allowed in pairs if allowed)
