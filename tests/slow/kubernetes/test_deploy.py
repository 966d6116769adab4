"""A real API server takes the manifests in deploy/, and their roles allow what they should."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.kube_apiserver import ControlPlane, Refused, a_control_plane
from support.kube_objects import Object, a_namespace, path_of
from support.manifests import (
    FOLDERS,
    a_kustomization,
    only,
    pod_of,
    relay_with_about,
    rendered,
)
from support.relay_process import a_relay_process

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

STRICTLY = {"dryRun": "All", "fieldValidation": "Strict"}
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def a_definition(kind: str, plural: str, *, group: str, version: str, scope: str) -> Object:
    """A kind of which nothing is checked but its name."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            # Groups of this domain belong to Kubernetes and say where they were approved.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


EXPORTS = a_definition(
    "ServiceExport",
    "serviceexports",
    group="multicluster.x-k8s.io",
    version="v1alpha1",
    scope="Namespaced",
)
PROPERTIES = a_definition(
    "ClusterProperty",
    "clusterproperties",
    group="about.k8s.io",
    version="v1beta1",
    scope="Cluster",
)


@contextlib.asynccontextmanager
async def a_prepared_plane(folder: Path) -> AsyncIterator[ControlPlane]:
    """With the namespaces, which a dry run of what is inside needs, and exports."""
    async with a_control_plane(folder) as plane:
        for name in ("global-discovery", "llm"):
            await plane.create(a_namespace(name, **RESTRICTED))
        await plane.create(EXPORTS)
        await plane.until_served("/apis/multicluster.x-k8s.io/v1alpha1/serviceexports")
        yield plane


async def test_every_object_is_taken_with_every_field_checked(tmp_path: Path) -> None:
    async with a_prepared_plane(tmp_path) as plane:
        for folder in FOLDERS:
            for item in rendered(folder):
                await plane.apply(item, **STRICTLY)
                # Nothing was stored.
                if item["kind"] != "Namespace":
                    with pytest.raises(Refused, match="404"):
                        await plane.call("GET", path_of(item))


async def test_the_pods_are_allowed_where_only_restricted_ones_are(tmp_path: Path) -> None:
    async with a_prepared_plane(tmp_path) as plane:
        for folder in [folder for folder in FOLDERS if folder != "karmada-hub"]:
            pod = a_pod_of(only(rendered(folder), "Deployment"))
            await plane.apply(pod, **STRICTLY)
            del pod["spec"]["securityContext"]["seccompProfile"]
            with pytest.raises(Refused, match="violates PodSecurity"):
                await plane.apply(pod, **STRICTLY)


@pytest.mark.parametrize("folder", ["overlays/mcs", "karmada-hub"])
async def test_the_account_may_read_slices_and_nothing_else(tmp_path: Path, folder: str) -> None:
    namespace = "global-discovery"
    async with a_control_plane(tmp_path) as plane:
        for item in rendered(folder):
            if item["kind"] != "Deployment":
                await plane.apply(item)
        token = await plane.grant_token(namespace, "global-discovery", name="token")
        await plane.call("GET", SLICES, token=token)
        assert await allowed(plane, token) == {("discovery.k8s.io", "endpointslices"): READ}


READ = frozenset({"get", "list", "watch"})


async def allowed(plane: ControlPlane, token: str) -> dict[tuple[str, str], frozenset[str]]:
    """What an account may do with objects, beyond what every account may."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": "llm"},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    answer = await plane.call("POST", path, review, token=token)
    everyone_s = {"authorization.k8s.io", "authentication.k8s.io"}
    return {
        (group, resource): frozenset(rule["verbs"])
        for rule in answer["status"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if group not in everyone_s
    }


def a_pod_of(deployment: Object) -> Object:
    """A pod as the Deployment's controller would make it."""
    template = pod_of(deployment)
    name = deployment["metadata"]["name"]
    metadata = {
        **template["metadata"],
        "name": name,
        "namespace": deployment["metadata"]["namespace"],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


async def test_the_relay_warns_with_its_component_of_a_name_that_the_cluster_has_not(
    tmp_path: Path,
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    async with a_prepared_plane(tmp_path) as plane:
        await plane.create(PROPERTIES)
        await plane.until_served("/apis/about.k8s.io/v1beta1/clusterproperties")
        name = {
            "apiVersion": "about.k8s.io/v1beta1",
            "kind": "ClusterProperty",
            "metadata": {"name": "cluster.clusterset.k8s.io"},
            "spec": {"value": "eu-2"},
        }
        await plane.create(name)
        for item in rendered(a_kustomization(own, relay_with_about(own))):
            if item["kind"].startswith(("ClusterRole", "ServiceAccount")):
                await plane.apply(item)
        token = await plane.grant_token("llm", "qwen", name="token")
        kubeconfig = plane.kubeconfig("relay", token=token)
        flags = ["--pool=llm/qwen", "--region=eu", "--frontend=http://127.0.0.1:1"]
        async with a_relay_process(
            *flags, "--server=127.0.0.1:1", DYN_CLUSTER_ID="eu-1", KUBECONFIG=str(kubeconfig)
        ) as relay:
            told = await relay.event("cluster_id_mismatch")
        assert (told["cluster_id"], told["cluster_property"]) == ("eu-1", "eu-2")
