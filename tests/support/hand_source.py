"""A source whose list, mark and sync a test sets by hand."""

from collections.abc import Callable, Sequence

from global_discovery.domain.change import Change, Departure
from global_discovery.domain.completeness import Mark, Reason
from global_discovery.domain.pool import Content, Location, Pool, PoolKey
from global_discovery.sources.source import Update

EXACT = Mark(frozenset(), bound=1.0)
ESTIMATED = Mark(frozenset({Reason.MASS_LAPSE}), bound=1.0)


def a_pool(
    key: PoolKey, *, model: str = "m", region: str = "r1", frontends: Sequence[str] = ()
) -> Pool:
    content = Content(model, Location(region), frontends=tuple(frontends))
    return Pool(key, content, ("ip:10.0.0.1",), registered_time=1.5e9, changed_time=1.5e9)


class HandSource:
    """Tells what it was told, merged by key, when it is drained."""

    def __init__(self, *, mark: Mark = EXACT, synced: bool = True) -> None:
        self.mark = mark
        self.synced = synced
        self._pending: dict[PoolKey, Change[PoolKey, Pool]] = {}
        self._wake: Callable[[], None] = lambda: None

    def put(self, *pools: Pool) -> None:
        for pool in pools:
            self._pending[pool.key] = Change(pool.key, pool)
        self._wake()

    def remove(self, *keys: PoolKey, departure: Departure = Departure.REMOVED) -> None:
        for key in keys:
            self._pending[key] = Change(key, None, departure)
        self._wake()

    def unlist(self, *keys: PoolKey) -> None:
        self.remove(*keys, departure=Departure.UNLISTED)

    def say(self, mark: Mark, *, synced: bool = True) -> None:
        self.mark, self.synced = mark, synced
        self._wake()

    def drain(self) -> Update[PoolKey, Pool]:
        changes = [*self._pending.values()]
        self._pending.clear()
        return Update(changes, self.mark, synced=self.synced)

    def on_change(self, wake: Callable[[], None]) -> None:
        self._wake = wake
