"""The routers of all clusters, from the imported slices of the router Service."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from global_discovery.domain.change import Change, Departure
from global_discovery.domain.events import Event, Report, ignore
from global_discovery.domain.pool import Router
from global_discovery.slices.interpret import interpret_routers
from global_discovery.slices.recognise import Service
from global_discovery.sources.imported.notices import Notices
from global_discovery.sources.imported.slices import ImportedSlices
from global_discovery.sources.source import Update


class RouterService(NamedTuple):
    """The Service under which every cluster exports its routers."""

    namespace: str
    name: str
    port: str
    """The name of the port on which routers serve."""


class ImportedRouters:
    """A source of routers: exact while the watch is in sync.

    An id is `<cluster_id>/<pod name>`, or the address where no pod is named.
    """

    def __init__(
        self, slices: ImportedSlices, *, service: RouterService, report: Report = ignore
    ) -> None:
        """Reads `slices` from now on."""
        self._slices = slices
        self._service = service
        self._notices = Notices(report)
        self._of_cluster: dict[str, dict[str, Router]] = {}
        self._unread: dict[Service, None] = {}
        self._unpublished: dict[str, dict[str, Router]] = {}
        """What was read of clusters in this series of turns."""
        self._pending: dict[str, Change[str, Router]] = {}
        self._wake: Callable[[], None] = lambda: None
        slices.add_reader(self)

    def __len__(self) -> int:
        """How many routers are listed."""
        return sum(map(len, self._of_cluster.values()))

    def warnings(self) -> Counter[Event]:
        """How many of each kind hold, of what its slices were warned about."""
        return self._notices.counts()

    def drain(self) -> Update[str, Router]:
        """What was published since the last call."""
        changes = [*self._pending.values()]
        self._pending.clear()
        return Update(changes, self._slices.mark, synced=self._slices.synced)

    def on_change(self, wake: Callable[[], None]) -> None:
        """Has `wake` called when routers or the mark changed."""
        self._wake = wake

    # -- the reader of slices ------------------------------------------------

    def service_changed(self, service: Service) -> None:
        """Notes a cluster's router Service to be read again."""
        if (service.namespace, service.name) == (self._service.namespace, self._service.name):
            self._unread[service] = None

    def work(self, endpoints: int) -> int:
        """Reads clusters, each as a whole."""
        while self._unread and endpoints > 0:
            service = next(iter(self._unread))
            del self._unread[service]
            slices = self._slices.of(service)
            routers, notices = interpret_routers(service.cluster_id, slices, self._service.port)
            self._unpublished[service.cluster_id] = {router.id: router for router in routers}
            self._notices.hold(service, notices)
            endpoints -= 1 + sum(one.weight for one in slices)
        return endpoints

    def settled(self) -> None:
        """Publishes what differs from what was published before, all of it together."""
        for cluster, routers in self._unpublished.items():
            before = self._of_cluster.pop(cluster, {})
            if routers:
                self._of_cluster[cluster] = routers
            for router_id in before.keys() - routers.keys():
                self._pending[router_id] = Change(router_id, None, Departure.REMOVED)
            for router_id, router in routers.items():
                if before.get(router_id) != router:
                    self._pending[router_id] = Change(router_id, router)
        self._unpublished.clear()
        self._wake()

    def mark_changed(self) -> None:
        """The next `drain` has the new mark."""
        self._wake()
