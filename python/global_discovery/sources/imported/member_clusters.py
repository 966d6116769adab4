"""The names of Karmada's member clusters, for slices that do not say which one they are of.

Only slices of an old Karmada need it, and reading it needs a permission of its
own: where it is not granted nothing is known, nothing is told, and such slices
stay refused, which is told of each.
"""

from collections.abc import Sequence

import msgspec

from global_discovery.kubernetes.scope import Resource
from global_discovery.sources.imported.slices import ImportedSlices

CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters")


class _Metadata(msgspec.Struct, frozen=True):
    name: str


class Cluster(msgspec.Struct, frozen=True):
    """One member cluster, as far as it is read."""

    metadata: _Metadata


decode_cluster = msgspec.json.Decoder(Cluster).decode


class MemberClusters:
    """The sink of a list and watch of clusters."""

    def __init__(self, slices: ImportedSlices) -> None:
        """Tells the slices which names there are."""
        self._slices = slices
        self._names: frozenset[str] = frozenset()

    def __len__(self) -> int:
        """How many are known."""
        return len(self._names)

    def replaced(self, items: Sequence[Cluster]) -> None:
        """All of them."""
        self._know(frozenset(item.metadata.name for item in items))

    def put(self, item: Cluster) -> None:
        """One joined, or changed."""
        self._know(self._names | {item.metadata.name})

    def deleted(self, namespace: str, name: str) -> None:
        """One was unjoined; its slices go by themselves."""
        del namespace
        self._know(self._names - {name})

    def in_sync(self) -> None:
        """Nothing depends on it."""

    def out_of_sync(self) -> None:
        """The names that were known stay known."""

    def _know(self, names: frozenset[str]) -> None:
        self._names = names
        self._slices.know_clusters(names)
