"""Which Service of which cluster a slice was imported from, or why that is not known.

Each implementation says it in its own way. `mcs` reads the labels of KEP-1645
(Submariner Lighthouse from 0.16 on, Cilium, AWS Cloud Map, OVN-Kubernetes);
`karmada` reads what Karmada writes on its control plane for a ServiceExport,
and on a member for a MultiClusterService. A slice whose source cluster would
have to be guessed is refused. docs/kubernetes.md has the whole table.
"""

import re
from enum import Enum
from typing import NamedTuple

from global_discovery.domain.errors import InvalidInput
from global_discovery.domain.rules import check_key
from global_discovery.slices.model import EndpointSlice

MCS_SERVICE = "multicluster.kubernetes.io/service-name"
MCS_CLUSTER = "multicluster.kubernetes.io/source-cluster"
SERVICE = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
LIGHTHOUSE_NAMESPACE = "lighthouse.submariner.io/sourceNamespace"
LIGHTHOUSE_OLD_CLUSTER = "lighthouse.submariner.io/sourceCluster"
MIRRORED = "endpointslicemirroring-controller.k8s.io"
KARMADA_EXPORTED = "endpointslice-controller.karmada.io"
KARMADA_DISPATCHED = "endpointslice-dispatch-controller.karmada.io"
KARMADA_ON_MEMBER = "karmada.io/managed"
KARMADA_WORK_NAMESPACE = "work.karmada.io/namespace"
KARMADA_PROVIDER = "endpointslice.karmada.io/provision-cluster"
KARMADA_SPACE = "karmada-es-"
DERIVED = "derived-"
ADDRESS_TYPES = frozenset({"IPv4", "IPv6"})
_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
"""What is left of such a name without its suffix can be part of a pool's key."""


class Discovery(Enum):
    """Whose slices are read. The values are those of --pool-discovery."""

    MCS = "mcs"
    KARMADA = "karmada"


SELECTORS = {
    # Not the source cluster too: what has none must be seen to be warned about.
    Discovery.MCS: MCS_SERVICE,
    Discovery.KARMADA: f"{MANAGED_BY} in ({KARMADA_EXPORTED},{KARMADA_DISPATCHED})",
}
"""The label selectors with which the API server is asked for slices."""


class Service(NamedTuple):
    """An exported Service of one cluster."""

    cluster_id: str
    namespace: str
    name: str


class Refusal(Enum):
    """Why a slice is not read. The values are fixed codes, for logs and metrics."""

    NOT_IMPORTED = "not_imported"
    """It does not say which exported Service it belongs to."""
    NO_SOURCE_CLUSTER = "no_source_cluster"
    """Nothing in it says which cluster it comes from."""
    AMBIGUOUS_CLUSTER = "ambiguous_cluster"
    """Its annotation contradicts its name, and the known clusters do not decide."""
    MEMBER_COPY = "member_copy"
    """Karmada's copy on a member: its annotation names the consumer, not the source."""
    BROKER_COPY = "broker_copy"
    """Lighthouse's copy on the broker, outside the Service's namespace."""
    LEGACY = "legacy_form"
    """Lighthouse before 0.16."""
    MIRROR = "mirror_without_cluster"
    """A mirror of Endpoints, which merge all clusters (Antrea, GKE)."""
    ADDRESS_TYPE = "address_type"
    """Neither IPv4 nor IPv6."""
    BAD_NAME = "bad_name"
    """A part of it could not be part of a pool's key."""


def recognise(
    discovery: Discovery, endpoint_slice: EndpointSlice, clusters: frozenset[str] | None = None
) -> Service | Refusal:
    """Where a slice comes from, by its metadata alone.

    `clusters` are the names of Karmada's members, when they are known; they only
    help where an annotation is missing.
    """
    if discovery is Discovery.MCS:
        found = _mcs(endpoint_slice)
    else:
        found = _karmada(endpoint_slice, clusters)
    if isinstance(found, Refusal):
        return found
    if endpoint_slice.address_type not in ADDRESS_TYPES:
        return Refusal.ADDRESS_TYPE
    try:
        check_key(*found)
    except InvalidInput:
        return Refusal.BAD_NAME
    return found if _LABEL_VALUE.fullmatch(found.name) else Refusal.BAD_NAME


def claimed(endpoint_slice: EndpointSlice) -> tuple[str, str, str]:
    """Cluster, namespace and name of the Service that a refused slice seems to be of.

    What it does not say is empty; nothing of it is believed.
    """
    label = endpoint_slice.label
    name = label(MCS_SERVICE) or label(SERVICE).removeprefix(DERIVED)
    return label(MCS_CLUSTER), endpoint_slice.metadata.namespace or "", name


def _mcs(endpoint_slice: EndpointSlice) -> Service | Refusal:
    label = endpoint_slice.label
    namespace, name = endpoint_slice.metadata.namespace or "", label(MCS_SERVICE)
    cluster = label(MCS_CLUSTER)
    if not name:
        mirrored = label(MANAGED_BY) == MIRRORED
        return Refusal.MIRROR if mirrored else Refusal.NOT_IMPORTED
    if not cluster:
        legacy = label(LIGHTHOUSE_OLD_CLUSTER)
        return Refusal.LEGACY if legacy else Refusal.NO_SOURCE_CLUSTER
    if label(LIGHTHOUSE_NAMESPACE) not in {"", namespace}:
        return Refusal.BROKER_COPY
    return Service(cluster, namespace, name)


def _karmada(endpoint_slice: EndpointSlice, clusters: frozenset[str] | None) -> Service | Refusal:
    manager = endpoint_slice.label(MANAGED_BY)
    if manager == KARMADA_DISPATCHED:
        return _karmada_dispatched(endpoint_slice)
    if manager == KARMADA_EXPORTED:
        return _karmada_exported(endpoint_slice, clusters)
    return Refusal.MIRROR if manager == MIRRORED else Refusal.NOT_IMPORTED


def _karmada_dispatched(endpoint_slice: EndpointSlice) -> Service | Refusal:
    """A MultiClusterService's slice on a consuming member."""
    cluster, name = endpoint_slice.annotation(KARMADA_PROVIDER), endpoint_slice.label(SERVICE)
    if not name:
        return Refusal.NOT_IMPORTED
    if not cluster:
        return Refusal.NO_SOURCE_CLUSTER
    return Service(cluster, endpoint_slice.metadata.namespace or "", name)


def _karmada_exported(
    endpoint_slice: EndpointSlice, clusters: frozenset[str] | None
) -> Service | Refusal:
    """A ServiceExport's slice on the control plane."""
    label = endpoint_slice.label(SERVICE)
    name = label.removeprefix(DERIVED)  # one: derived-derived-x is the Service derived-x
    if not name or name == label:
        return Refusal.NOT_IMPORTED
    if KARMADA_ON_MEMBER in (endpoint_slice.metadata.labels or {}):
        return Refusal.MEMBER_COPY
    cluster = _karmada_cluster(endpoint_slice, clusters)
    if isinstance(cluster, Refusal):
        return cluster
    return Service(cluster, endpoint_slice.metadata.namespace or "", name)


def _karmada_cluster(
    endpoint_slice: EndpointSlice, clusters: frozenset[str] | None
) -> str | Refusal:
    """The name `imported-<cluster>-<slice>` cannot be parsed, but it can contradict."""
    space = endpoint_slice.annotation(KARMADA_WORK_NAMESPACE)
    said = space.removeprefix(KARMADA_SPACE)
    if said and said != space and _name_fits(endpoint_slice, said):
        return said
    if clusters is None:
        return Refusal.AMBIGUOUS_CLUSTER if space else Refusal.NO_SOURCE_CLUSTER
    fitting = [cluster for cluster in clusters if _name_fits(endpoint_slice, cluster)]
    return fitting[0] if len(fitting) == 1 else Refusal.AMBIGUOUS_CLUSTER


def _name_fits(endpoint_slice: EndpointSlice, cluster: str) -> bool:
    prefix = f"imported-{cluster}-"
    name = endpoint_slice.metadata.name or ""
    return name.startswith(prefix) and len(name) > len(prefix)
