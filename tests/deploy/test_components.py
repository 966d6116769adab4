"""The components for stores and TLS fit the program, and every overlay."""

from pathlib import Path
from typing import Any

import pytest
import trustme

from global_discovery.cli.flags import Values
from global_discovery.cli.serve_flags import FLAGS, read_values
from global_discovery.cli.serve_flags.general import HEALTH_LISTEN, POOL_DISCOVERY, STORAGE
from global_discovery.cli.serve_flags.stores import DYNAMODB_REGION, DYNAMODB_TABLE, SQLITE_PATH
from global_discovery.cli.serve_flags.tls import TLS_CLIENT_CA, tls_paths
from support.certificates import a_pair
from support.documents import block_with
from support.kube_objects import Object
from support.manifests import (
    OVERLAYS,
    ROOT,
    STORES_AND_TLS,
    a_kustomization,
    composed,
    containers_of,
    from_there,
    only,
    pod_of,
    rendered,
    variables,
)
from support.serve_flags import parse

ETC = "/etc/global-discovery"
THE_TABLE = {"GLOBAL_DISCOVERY_DYNAMODB_TABLE": "pools"}
"""Which the overlay of a user names."""
DYNAMODB = [names for names in STORES_AND_TLS if "dynamodb" in names]


class Composition:
    """One overlay with some components, as it would be applied."""

    def __init__(self, folder: Path, overlay: str, components: tuple[str, ...]) -> None:
        self.overlay = overlay
        self.components = components
        self.items = composed(folder, f"overlays/{overlay}", *components)
        self.deployment = only(self.items, "Deployment")["spec"]
        self.pod: Object = pod_of(only(self.items, "Deployment"))["spec"]
        (self.container,) = containers_of(self.items)
        self.variables = variables(self.items, self.container)

    def mounted(self, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The mount, and its volume, in which a path of the container lies."""
        (mount,) = [
            mount
            for mount in self.container["volumeMounts"]
            if Path(path).is_relative_to(mount["mountPath"])
        ]
        (volume,) = [each for each in self.pod["volumes"] if each["name"] == mount["name"]]
        return mount, volume


@pytest.fixture(params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=STORES_AND_TLS, ids="+".join)
def whole(request: pytest.FixtureRequest, overlay: str, tmp_path: Path) -> Composition:
    return Composition(tmp_path, overlay, request.param)


def read(whole: Composition, folder: Path) -> Values:
    """By the program, which also reads the files of TLS: here from a folder."""
    ca = trustme.CA()
    pair = a_pair(ca)
    files = {"tls/tls.crt": pair.cert, "tls/tls.key": pair.key}
    files["client-ca/ca.crt"] = ca.cert_pem.bytes()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    here = THE_TABLE if "dynamodb" in whole.components else {}
    here = here | {
        name: text.replace(ETC, str(folder)) if name.startswith("GLOBAL_DISCOVERY_TLS_") else text
        for name, text in whole.variables.items()
    }
    _, *flags = whole.container["args"]
    return read_values(parse(*flags), here)


def test_every_variable_is_a_flag_that_the_program_takes(
    whole: Composition, tmp_path: Path
) -> None:
    assert whole.variables.keys() <= {flag.variable for flag in FLAGS.flags}
    values = read(whole, tmp_path / "etc")
    assert values[POOL_DISCOVERY] == whole.overlay
    stores = [name for name in whole.components if "tls" not in name]
    assert values[STORAGE] == (stores[0] if stores else "memory")
    assert (tls_paths(values) is not None) is ("tls" in whole.components)
    assert values.is_set(TLS_CLIENT_CA) is ("mtls" in whole.components)


def test_only_a_shared_store_has_a_second_instance(whole: Composition) -> None:
    if "dynamodb" in whole.components:
        assert whole.deployment["replicas"] >= 2
        strategy = {"maxUnavailable": 0, "maxSurge": 1}
        assert whole.deployment["strategy"] == {"type": "RollingUpdate", "rollingUpdate": strategy}
    else:
        assert whole.deployment["replicas"] == 1
        assert whole.deployment["strategy"] == {"type": "Recreate"}


def test_a_component_takes_nothing_away_from_its_overlay(whole: Composition) -> None:
    plain = rendered(f"overlays/{whole.overlay}")
    (container,) = containers_of(plain)
    for name in ("ports", "resources", "securityContext", "startupProbe", "livenessProbe"):
        assert whole.container[name] == container[name]
    mounts, volumes = container.get("volumeMounts", []), pod_of(only(plain, "Deployment"))["spec"]
    assert [mount for mount in mounts if mount not in whole.container["volumeMounts"]] == []
    wanted = volumes.get("volumes", [])
    assert [volume for volume in wanted if volume not in whole.pod["volumes"]] == []
    name = "global-discovery"
    assert only(whole.items, "NetworkPolicy", name) == only(plain, "NetworkPolicy", name)
    assert whole.pod["securityContext"].items() >= volumes["securityContext"].items()


def test_the_file_of_sqlite_lies_on_a_volume_of_its_own(overlay: str, tmp_path: Path) -> None:
    whole = Composition(tmp_path, overlay, ("sqlite",))
    mount, volume = whole.mounted(str(read(whole, tmp_path / "etc")[SQLITE_PATH]))
    claim = only(whole.items, "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"])
    assert claim["metadata"]["namespace"] == "global-discovery"
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert "readOnly" not in mount
    context = whole.pod["securityContext"]
    assert context["fsGroup"] == context["runAsGroup"]


@pytest.mark.parametrize("components", DYNAMODB, ids="+".join)
def test_instances_over_one_table_are_spread_and_go_one_by_one(
    overlay: str, tmp_path: Path, components: tuple[str, ...]
) -> None:
    whole = Composition(tmp_path, overlay, components)
    spread = whole.pod["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in spread] == [
        "topology.kubernetes.io/zone",
        "kubernetes.io/hostname",
    ]
    labels = pod_of(only(whole.items, "Deployment"))["metadata"]["labels"]
    selectors = [each["labelSelector"] for each in spread]
    policy = only(whole.items, "NetworkPolicy", "global-discovery-dynamodb")["spec"]
    for selector in (*selectors, policy["podSelector"]):
        assert selector["matchLabels"]
        assert selector["matchLabels"].items() <= labels.items()
    assert policy["policyTypes"] == ["Egress"]
    budget = only(whole.items, "PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] < whole.deployment["replicas"]


def test_the_overlay_in_the_document_is_of_many_instances_with_a_role(tmp_path: Path) -> None:
    text = block_with(ROOT / "docs/deploy.md", "# kustomization.yaml, more than one instance\n")
    text = text.replace("<this repository>", from_there(tmp_path))
    items = rendered(a_kustomization(tmp_path, text))
    (container,) = containers_of(items)
    without_files = {
        name: text for name, text in variables(items, container).items() if "_TLS_" not in name
    }
    values = read_values(parse(), without_files)
    assert (values[DYNAMODB_TABLE], values[DYNAMODB_REGION]) == ("pools", "us-east-1")
    account = only(
        items, "ServiceAccount", pod_of(only(items, "Deployment"))["spec"]["serviceAccountName"]
    )
    assert "eks.amazonaws.com/role-arn" in account["metadata"]["annotations"]


def test_tls_is_on_both_faces_and_not_on_the_probes(overlay: str, tmp_path: Path) -> None:
    whole = Composition(tmp_path, overlay, ("tls", "mtls"))
    assert read(whole, tmp_path / "etc").is_set(HEALTH_LISTEN)
    for name in ("startup", "readiness", "liveness"):
        asked = whole.container[f"{name}Probe"]["httpGet"]
        assert asked["port"] == "health"
        assert "scheme" not in asked
    service = only(whole.items, "Service")["spec"]
    assert {port["name"]: port["appProtocol"] for port in service["ports"]} == {
        "rest": "https",
        "grpc": "https",
    }
    assert {port["name"]: port["targetPort"] for port in service["ports"]} == {
        "rest": "rest",
        "grpc": "grpc",
    }


def test_the_files_of_tls_are_where_the_program_looks_for_them(
    overlay: str, tmp_path: Path
) -> None:
    whole = Composition(tmp_path, overlay, ("tls", "mtls"))
    paths = [text for name, text in whole.variables.items() if "_TLS_" in name]
    assert len(paths) == 3
    for path in paths:
        mount, volume = whole.mounted(path)
        assert mount["mountPath"] == str(Path(path).parent)
        assert mount["readOnly"] is True
        # A file that is mounted by itself is never renewed.
        assert "subPath" not in mount
        if path.endswith("ca.crt"):
            assert volume["configMap"]
        else:
            # Readable by the group that the volume is given to, and by nobody else.
            assert volume["secret"]["defaultMode"] == 0o440
