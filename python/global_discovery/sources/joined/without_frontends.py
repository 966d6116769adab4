"""Listed pools that no request can be sent to, because no Ready frontend of them is imported.

Mostly the frontend Service was not exported, or its port has another name. Each
pool is told once, on losing its last frontend or on being listed without one;
the next time after it had one or left the list. It is told with the next tick,
so that slices which arrive together are looked at together.
"""

from collections.abc import Callable
from itertools import islice

from global_discovery.domain.events import Event, Report, ignore
from global_discovery.domain.pool import PoolKey
from global_discovery.slices.imported import ImportedPool

TOLD_A_TICK = 20


class WithoutFrontends:
    """The listed pools without a frontend."""

    def __init__(
        self, *, frontend_suffix: str, frontend_port_name: str, report: Report = ignore
    ) -> None:
        """The suffix and port name are those by which frontends are looked for."""
        self._suffix = frontend_suffix
        self._port_name = frontend_port_name
        self._report = report
        self._keys: set[PoolKey] = set()
        self._untold: dict[PoolKey, None] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._keys)

    def put(self, key: PoolKey, *, missing: bool) -> None:
        """Whether the key is a listed pool without a frontend."""
        if not missing:
            self._keys.discard(key)
            self._untold.pop(key, None)
        elif key not in self._keys:
            self._keys.add(key)
            self._untold[key] = None

    def tick(self, imported: Callable[[PoolKey], ImportedPool | None]) -> None:
        """Tells those that were not told; `imported` says what the slices show of a key."""
        for key in list(islice(self._untold, TOLD_A_TICK)):
            del self._untold[key]
            self._tell(key, imported(key))

    def _tell(self, key: PoolKey, imported: ImportedPool | None) -> None:
        slices = 0 if imported is None else imported.frontend_slices
        port_seen = imported is not None and imported.frontend_port_seen
        self._report(
            Event.POOL_WITHOUT_FRONTENDS,
            pool=str(key),
            service=f"{key.namespace}/{key.dgd_name}{self._suffix}",
            port_name=self._port_name,
            imported_slices=slices,
            port_seen=port_seen,
            message=_cause(slices, port_seen=port_seen),
        )


def _cause(slices: int, *, port_seen: bool) -> str:
    if not slices:
        return "no slice of its frontend Service is imported: is that Service exported?"
    if not port_seen:
        return "no imported slice of its frontend Service has a TCP port of that name"
    return "its frontend Service is imported, and none of its frontends is Ready"
