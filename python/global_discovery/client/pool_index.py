"""The pools that are offered, by model: a look-up for each request of a router."""

from collections.abc import Callable, Iterable, Sequence

from global_discovery.client.cache_state import CachedPool
from global_discovery.client.fold import PoolFold, PoolKey


class PoolIndex:
    """Follows a fold. What it gives out is made once and stays until it changes."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Empty. `now` is the clock of the fold."""
        self._now = now
        self._pools: dict[PoolKey, CachedPool] = {}
        self._models: dict[str, dict[PoolKey, CachedPool]] = {}
        self._lists: dict[str, tuple[CachedPool, ...]] = {}
        self._all: tuple[CachedPool, ...] | None = None

    def of_model(self, model: str) -> Sequence[CachedPool]:
        """The pools of a model, sorted by key."""
        made = self._lists.get(model)
        if made is None:
            pools = self._models.get(model)
            if pools is None:
                return ()
            made = self._lists[model] = tuple(pools[key] for key in sorted(pools))
        return made

    def all(self) -> Sequence[CachedPool]:
        """All pools, sorted by key."""
        if self._all is None:
            self._all = tuple(self._pools[key] for key in sorted(self._pools))
        return self._all

    def models(self) -> Sequence[str]:
        """The models that have a pool, sorted."""
        return tuple(sorted(self._models))

    def replace(self, fold: PoolFold) -> None:
        """Everything anew."""
        self.update(fold, [*self._pools, *fold.listed, *fold.carried])

    def update(self, fold: PoolFold, touched: Iterable[PoolKey]) -> None:
        """These keys may stand differently in the fold than before."""
        for key in touched:
            self._all = None
            self._drop(key)
            pool = self._standing(fold, key)
            if pool is not None:
                model = pool.pool.model
                self._pools[key] = pool
                self._models.setdefault(model, {})[key] = pool
                self._lists.pop(model, None)

    def _standing(self, fold: PoolFold, key: PoolKey) -> CachedPool | None:
        listed = fold.listed.get(key)
        if listed is not None:
            return CachedPool(key, listed, False, None, self._now)
        carried = fold.carried.get(key)
        if carried is not None:
            return CachedPool(key, carried.entry, True, carried.listed_until, self._now)
        return None

    def _drop(self, key: PoolKey) -> None:
        old = self._pools.pop(key, None)
        if old is None:
            return
        model = old.pool.model
        self._lists.pop(model, None)
        pools = self._models[model]
        del pools[key]
        if not pools:
            del self._models[model]
