"""EndpointSlices as implementations of Multi-Cluster Services and Karmada's hub write them."""

from collections.abc import Sequence

from support.kube_objects import Object

_MANAGER = "endpointslice.kubernetes.io/managed-by"


def mcs_slice(
    *,
    cluster: str,
    service: str,
    addresses: Sequence[str],
    port: tuple[str, int],
    namespace: str = "llm",
    ready: bool = True,
) -> Object:
    """What KEP-1645 asks for: both labels, and a manager that is not Kubernetes itself."""
    name, number = port
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{service}-{cluster}",
            "namespace": namespace,
            "labels": {
                "multicluster.kubernetes.io/service-name": service,
                "multicluster.kubernetes.io/source-cluster": cluster,
                _MANAGER: "mcs-controller.example.org",
            },
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [ip], "conditions": {"ready": ready}} for ip in addresses],
        "ports": [{"name": name, "port": number, "protocol": "TCP"}],
    }


def karmada_slice(
    *,
    cluster: str,
    service: str,
    addresses: Sequence[str],
    port: tuple[str, int],
    namespace: str = "llm",
    ready: bool = True,
) -> Object:
    """What Karmada's ServiceExport collects on its hub: the cluster is in an annotation."""
    item = mcs_slice(
        cluster=cluster,
        service=service,
        addresses=addresses,
        port=port,
        namespace=namespace,
        ready=ready,
    )
    item["metadata"] = {
        "name": f"imported-{cluster}-{service}-x7k2p",
        "namespace": namespace,
        "labels": {
            "kubernetes.io/service-name": f"derived-{service}",
            _MANAGER: "endpointslice-controller.karmada.io",
        },
        "annotations": {
            "work.karmada.io/namespace": f"karmada-es-{cluster}",
            "work.karmada.io/name": f"endpointslice-{service}-x7k2p",
        },
    }
    return item
