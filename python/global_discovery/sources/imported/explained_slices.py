"""What the imported slices say of one key, for people."""

from collections.abc import Iterable, Iterator, KeysView
from itertools import islice

from global_discovery.domain.events import Event
from global_discovery.domain.explanation import (
    Code,
    Finding,
    MayRead,
    RefusedSlice,
    SlicesSide,
)
from global_discovery.domain.pool import PoolKey
from global_discovery.slices.describe import describe_service, port_texts
from global_discovery.slices.interpret import Notice, slice_name
from global_discovery.slices.naming import Naming
from global_discovery.slices.recognise import Service, claimed
from global_discovery.sources.imported.slices import ImportedSlices

REFUSED_LOOKED_AT = 10_000
REFUSED_SHOWN = 10
NOTICES_SHOWN = 10


class ExplainedSlices:
    """Reads what the readers of slices know."""

    def __init__(
        self, slices: ImportedSlices, naming: Naming, watched: frozenset[str] = frozenset()
    ) -> None:
        """`watched` are the namespaces whose slices are asked for; none: all."""
        self._slices = slices
        self.naming = naming
        self._watched = watched

    def side(
        self,
        key: PoolKey,
        notices: Iterable[Notice],
        sharing: Iterable[PoolKey],
        may_read: MayRead,
    ) -> SlicesSide:
        """The whole side. `sharing` are pools that show the same pods."""
        relays, frontends = self.naming.relays_of(key), self.naming.frontends_of(key)
        port = self.naming.frontend_port
        return SlicesSide(
            in_sync=self._slices.mark.exact,
            watched=not self._watched or key.namespace in self._watched,
            relays=describe_service(relays, self._slices.of(relays)),
            frontends=describe_service(frontends, self._slices.of(frontends), port),
            port_name=port,
            refused=tuple(islice(self._refused(key), REFUSED_SHOWN)),
            notices=tuple(
                islice(_findings(notices, filter(may_read, sorted(sharing))), NOTICES_SHOWN)
            ),
        )

    def services(self) -> KeysView[Service]:
        """Every Service that has a slice."""
        return self._slices.services()

    def ports(self, service: Service) -> tuple[str, ...]:
        """The ports that the slices of a Service have."""
        return port_texts(self._slices.of(service))

    def _refused(self, key: PoolKey) -> Iterator[RefusedSlice]:
        """Those of the pool's Services: of its cluster, or of one that they do not tell."""
        names = {self.naming.relays_of(key).name, self.naming.frontends_of(key).name}
        for one, refusal in islice(self._slices.refused_slices(), REFUSED_LOOKED_AT):
            cluster, namespace, name = claimed(one)
            if cluster in {"", key.cluster_id} and namespace == key.namespace and name in names:
                yield RefusedSlice(slice_name(one), refusal.value)


def _findings(notices: Iterable[Notice], sharing: Iterable[PoolKey]) -> Iterator[Finding]:
    for notice in notices:
        yield finding_of(notice)
    for other in sharing:
        yield Finding(Code.POD_IN_TWO_CLUSTERS, f"slices of {other} show a pod of this pool too")


def finding_of(notice: Notice) -> Finding:
    """What people are told of one."""
    fields = notice.fields
    if notice.event is Event.TOO_MANY_ENDPOINTS:
        detail = f"{fields['found']} {fields['of']} are Ready, {fields['listed']} are listed"
        return Finding(Code.TOO_MANY_ENDPOINTS, detail)
    if notice.event is Event.FRONTEND_PORT_MISSING:
        detail = f"slice {fields['slice']} has no TCP port named {fields['port']}"
        return Finding(Code.FRONTEND_PORT_MISSING, detail)
    detail = f"slice {fields['slice']} has {fields['endpoints']} endpoints without a usable address"
    return Finding(Code.SLICE_DAMAGED, detail)
