"""One pod cannot run in two clusters: who shows it so copies slices it should not.

Karmada before its fix of 2025 collected slices that it had itself brought to a
member as if they were that member's own. The two pools are warned about, and
both stay as their slices show them.
"""

from global_discovery.domain.events import Event, Report
from global_discovery.domain.pool import PoolKey


class SharedPods:
    """Which pools show which pods."""

    def __init__(self, report: Report) -> None:
        """No pool shows any."""
        self._report = report
        self._pods: dict[PoolKey, frozenset[str]] = {}
        self._pools: dict[str, tuple[PoolKey, ...]] = {}
        self._told: dict[PoolKey, set[PoolKey]] = {}

    def show(self, key: PoolKey, pods: frozenset[str]) -> None:
        """A pool shows these pods, by uid, and no others.

        Two pools of different clusters that share one are reported, once for as
        long as they do.
        """
        before = self._pods.pop(key, frozenset())
        for pod in before - pods:
            left = tuple(pool for pool in self._pools.pop(pod) if pool != key)
            if left:
                self._pools[pod] = left
        for pod in pods - before:
            self._pools[pod] = (*self._pools.get(pod, ()), key)
        if pods:
            self._pods[key] = pods
        self._tell(key, pods)

    def _tell(self, key: PoolKey, pods: frozenset[str]) -> None:
        others = {
            other
            for pod in pods
            for other in self._pools[pod]
            if other.cluster_id != key.cluster_id
        }
        told = self._told.pop(key, set())
        for other in told - others:
            self._told[other].discard(key)
            if not self._told[other]:
                del self._told[other]
        for other in sorted(others - told):
            self._told.setdefault(other, set()).add(key)
            first, second = sorted((key, other))
            self._report(Event.POD_IN_TWO_CLUSTERS, pool=str(first), other=str(second))
        if others:
            self._told[key] = others
