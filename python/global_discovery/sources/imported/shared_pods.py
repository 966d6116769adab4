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
        self._first: dict[str, PoolKey] = {}
        """The pool that shows a pod, as nearly always there is one."""
        self._others: dict[str, set[PoolKey]] = {}
        """Those that show it too."""
        self._told: dict[PoolKey, set[PoolKey]] = {}

    def sharing(self, key: PoolKey) -> frozenset[PoolKey]:
        """The pools of other clusters that show a pod of this one."""
        return frozenset(self._told.get(key, ()))

    def show(self, key: PoolKey, pods: frozenset[str]) -> None:
        """A pool shows these pods, by uid, and no others.

        Two pools of different clusters that share one are reported, once for as
        long as they do.
        """
        before = self._pods.pop(key, frozenset())
        for pod in before - pods:
            self._hide(pod, key)
        for pod in pods - before:
            if self._first.setdefault(pod, key) != key:
                self._others.setdefault(pod, set()).add(key)
        if pods:
            self._pods[key] = pods
        self._tell(key, pods)

    def _hide(self, pod: str, key: PoolKey) -> None:
        others = self._others.get(pod)
        if others is None:
            del self._first[pod]
            return
        if self._first[pod] == key:
            self._first[pod] = others.pop()
        else:
            others.discard(key)
        if not others:
            del self._others[pod]

    def _tell(self, key: PoolKey, pods: frozenset[str]) -> None:
        showing: set[PoolKey] = set()
        for pod in pods:
            showing.add(self._first[pod])
            showing.update(self._others.get(pod, ()))
        others = {other for other in showing if other.cluster_id != key.cluster_id}
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
