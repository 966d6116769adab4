"""Objects of the Kubernetes API as a caller sends them, and the words they are addressed by."""

from typing import Any

Object = dict[str, Any]

PLURALS = {
    "Cluster": "clusters",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "ClusterProperty": "clusterproperties",
    "ConfigMap": "configmaps",
    "CustomResourceDefinition": "customresourcedefinitions",
    "Deployment": "deployments",
    "EndpointSlice": "endpointslices",
    "Namespace": "namespaces",
    "NetworkPolicy": "networkpolicies",
    "Pod": "pods",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Secret": "secrets",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
    "ServiceExport": "serviceexports",
}


def collection(*, api_version: str, kind: str, namespace: str | None) -> str:
    """The path of all objects of a kind, in one namespace or in none."""
    root = "/apis/" if "/" in api_version else "/api/"
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{api_version}{inside}/{PLURALS[kind]}"


def path_of(item: Object) -> str:
    """The path of one object."""
    metadata = item["metadata"]
    folder = collection(
        api_version=item["apiVersion"], kind=item["kind"], namespace=metadata.get("namespace")
    )
    return f"{folder}/{metadata['name']}"


def a_namespace(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
