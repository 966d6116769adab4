"""Imported EndpointSlices: the samples, slices made in a line, and sources that read them."""

import copy
import json
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from global_discovery.domain.completeness import Mark
from global_discovery.domain.events import Event
from global_discovery.domain.pool import PoolKey, Router
from global_discovery.slices.imported import ImportedPool
from global_discovery.slices.model import EndpointSlice, decode_slice
from global_discovery.slices.naming import Naming
from global_discovery.slices.recognise import Discovery
from global_discovery.sources.imported.pools import ImportedPools
from global_discovery.sources.imported.routers import ImportedRouters, RouterService
from global_discovery.sources.imported.slices import ENDPOINTS_A_TURN, ImportedSlices

FILES = Path(__file__).resolve().parents[1] / "slices/samples"
MCS, KARMADA = Discovery.MCS, Discovery.KARMADA
_FILES = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in FILES.glob("*.yaml")
}
SAMPLES: dict[str, dict[str, Any]] = {
    f"{file}/{name}": sample for file, samples in _FILES.items() for name, sample in samples.items()
}
"""As the API server sends them, by `<file>/<name>`."""
ROUTERS = RouterService("routing", "global-router", "http")


def mode_of(sample: str) -> Discovery:
    """The mode in which a sample would be seen."""
    return KARMADA if sample.startswith("karmada/") else MCS


def read(raw: dict[str, Any]) -> EndpointSlice:
    """A slice as it comes over the wire."""
    return decode_slice(json.dumps(raw).encode())


def sample(name: str) -> EndpointSlice:
    return read(SAMPLES[name])


def without_each_key(raw: Any) -> Iterator[Any]:
    """The same value without one of its keys or members, and with null for it, at any depth."""
    places = list(raw.items() if isinstance(raw, dict) else enumerate(raw))
    for place, value in places:
        less, null = copy.copy(raw), copy.copy(raw)
        del less[place]
        null[place] = None
        yield from (less, null)
        if isinstance(value, dict | list):
            for smaller in without_each_key(value):
                inside = copy.copy(raw)
                inside[place] = smaller
                yield inside


def endpoint(
    address: str, *, pod: str = "", kind: str = "Pod", **conditions: Any
) -> dict[str, Any]:
    """One endpoint; `pod` is the name of what is behind it, and makes its uid."""
    made: dict[str, Any] = {"addresses": [address], "conditions": conditions}
    if pod:
        made["targetRef"] = {"kind": kind, "namespace": "models", "name": pod, "uid": f"uid-{pod}"}
    return made


def a_slice(
    service: str,
    *endpoints: dict[str, Any],
    name: str = "",
    cluster: str = "rome",
    namespace: str = "models",
    family: str = "IPv4",
    port: str = "http",
    number: int | None = 8000,
    protocol: str = "TCP",
    told: str = "",
) -> EndpointSlice:
    """A slice with the labels of KEP-1645."""
    metadata: dict[str, Any] = {
        "name": name or f"{service}-{family.lower()}",
        "namespace": namespace,
        "labels": {
            "multicluster.kubernetes.io/service-name": service,
            "multicluster.kubernetes.io/source-cluster": cluster,
        },
    }
    if told:
        metadata["annotations"] = {"endpoints.kubernetes.io/last-change-trigger-time": told}
    ports = [{"name": port, "port": number, "protocol": protocol}]
    raw = {"metadata": metadata, "addressType": family, "ports": ports, "endpoints": [*endpoints]}
    return read(raw)


class SlicesWorld:
    """A watch's sink with both of its readers; what they told, folded."""

    def __init__(
        self,
        discovery: Discovery = MCS,
        *,
        by_hand: bool = False,
        gathers: bool = False,
        endpoints_a_turn: int = ENDPOINTS_A_TURN,
    ) -> None:
        """`by_hand`: turns are taken by `turn`; else each as soon as it is asked for.

        `gathers`: those after which events were gathered are taken by `turn`.
        """
        self.turns: deque[Callable[[], None]] = deque()
        self.events: list[tuple[Event, dict[str, Any]]] = []
        self.woken = 0
        self.slices = ImportedSlices(
            discovery,
            call_soon=self.turns.append if by_hand else lambda turn: turn(),
            gather=self.turns.append if gathers else None,
            report=self._report,
            endpoints_a_turn=endpoints_a_turn,
        )
        self.source = ImportedPools(self.slices, naming=Naming(), report=self._report)
        self.router_source = ImportedRouters(self.slices, service=ROUTERS, report=self._report)
        self.source.on_change(self._wake)
        self._pools: dict[PoolKey, ImportedPool] = {}
        self._routers: dict[str, Router] = {}

    def _report(self, event: Event, **fields: Any) -> None:
        self.events.append((event, fields))

    def _wake(self) -> None:
        self.woken += 1

    def told(self, event: Event) -> list[dict[str, Any]]:
        return [fields for told, fields in self.events if told is event]

    def turn(self) -> None:
        self.turns.popleft()()

    def run_turns(self) -> None:
        while self.turns:
            self.turn()

    @property
    def mark(self) -> Mark:
        self.changes()
        return self._mark

    def changes(self) -> int:
        """Takes what the pools' source has; how many changes that were."""
        update = self.source.drain()
        self._mark, self.synced = update.mark, update.synced
        for change in update.changes:
            if change.value is None:
                self._pools.pop(change.key, None)
            else:
                self._pools[change.key] = change.value
        return len(update.changes)

    @property
    def pools(self) -> dict[PoolKey, ImportedPool]:
        self.changes()
        return self._pools

    @property
    def routers(self) -> dict[str, str]:
        for change in self.router_source.drain().changes:
            if change.value is None:
                self._routers.pop(change.key, None)
            else:
                self._routers[change.key] = change.value
        return {router.id: router.url for router in self._routers.values()}
