"""What the imported slices show of pools, as a source: one side of the join."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from global_discovery.domain.change import Change, Departure
from global_discovery.domain.completeness import Mark
from global_discovery.domain.events import Event, Report, ignore
from global_discovery.domain.explanation import Finding, MayRead, SlicesSide
from global_discovery.domain.pool import PoolKey
from global_discovery.slices.imported import ImportedPool
from global_discovery.slices.interpret import interpret_pool
from global_discovery.slices.naming import Naming
from global_discovery.slices.recognise import Refusal, Service
from global_discovery.sources.imported.explained_slices import ExplainedSlices, finding_of
from global_discovery.sources.imported.notices import Notices
from global_discovery.sources.imported.shared_pods import SharedPods
from global_discovery.sources.imported.slices import ImportedSlices
from global_discovery.sources.source import Update


class ImportedPools:
    """Every pool that has an imported slice, ready or not.

    Only differences come out. While the watch is not in sync the pools stay as
    they were last known, and the mark says so.
    """

    def __init__(
        self,
        slices: ImportedSlices,
        *,
        naming: Naming,
        watched: Sequence[str] = (),
        report: Report = ignore,
    ) -> None:
        """Reads `slices` from now on; `watched` are the only namespaces asked for, none: all."""
        self._slices = slices
        self._naming = naming
        self.explained = ExplainedSlices(slices, naming, frozenset(watched))
        self._notices = Notices(report)
        self._pods = SharedPods(report)
        self._pools: dict[PoolKey, ImportedPool] = {}
        self._unread: dict[PoolKey, None] = {}
        """Pools whose slices changed, in the order of their first change."""
        self._unpublished: dict[PoolKey, ImportedPool | None] = {}
        """What was read in this series of turns; None: it has no slice any more."""
        self._pending: dict[PoolKey, Change[PoolKey, ImportedPool]] = {}
        self._wake: Callable[[], None] = lambda: None
        slices.add_reader(self)

    def __len__(self) -> int:
        """How many pools have a slice."""
        return len(self._pools)

    def warnings(self) -> Counter[Event]:
        """How many of each kind hold, of what its slices were warned about."""
        return self._notices.counts()

    @property
    def mark(self) -> Mark:
        """Of the slices, as it is now."""
        return self._slices.mark

    def noticed(self) -> Iterator[tuple[PoolKey, Finding]]:
        """What its slices are warned about, pool by pool."""
        for key, notice in self._notices.all():
            if isinstance(key, PoolKey):
                yield key, finding_of(notice)

    def refused(self) -> Mapping[Refusal, int]:
        """How many slices there are of each kind that is not read, of whatever pool or none."""
        return self._slices.refused

    def drain(self) -> Update[PoolKey, ImportedPool]:
        """What was published since the last call."""
        changes = [*self._pending.values()]
        self._pending.clear()
        return Update(changes, self._slices.mark, synced=self._slices.synced)

    def on_change(self, wake: Callable[[], None]) -> None:
        """Has `wake` called when pools or the mark changed."""
        self._wake = wake

    def explain(self, key: PoolKey, may_read: MayRead) -> SlicesSide:
        """What is known of a key, with or without slices; names other pools that may be read."""
        return self.explained.side(key, self._notices.of(key), self._pods.sharing(key), may_read)

    # -- the reader of slices ------------------------------------------------

    def service_changed(self, service: Service) -> None:
        """Notes the pool to be read again."""
        key = self._naming.pool_of(service)
        if key is not None:
            self._unread[key] = None

    def work(self, endpoints: int) -> int:
        """Reads pools, each as a whole."""
        while self._unread and endpoints > 0:
            key = next(iter(self._unread))
            del self._unread[key]
            endpoints -= self._read(key)
        return endpoints

    def settled(self) -> None:
        """Publishes what differs from what was published before, all of it together."""
        for key, pool in self._unpublished.items():
            before = self._pools.pop(key, None)
            if pool is not None:
                self._pools[key] = pool
            if pool != before:
                gone = Departure.REMOVED if pool is None else None
                self._pending[key] = Change(key, pool, gone)
        self._unpublished.clear()
        self._wake()

    def mark_changed(self) -> None:
        """The next `drain` has the new mark."""
        self._wake()

    def _read(self, key: PoolKey) -> int:
        relays = self._slices.of(self._naming.relays_of(key))
        frontends = self._slices.of(self._naming.frontends_of(key))
        if not relays and not frontends:
            self._unpublished[key] = None
            self._notices.hold(key, ())
            self._pods.show(key, frozenset())
            return 1
        found = interpret_pool(self._naming, key, relays, frontends)
        self._unpublished[key] = found.pool
        self._notices.hold(key, found.notices)
        self._pods.show(key, found.pods)
        return sum(one.weight for one in relays) + sum(one.weight for one in frontends)
