"""What deploy/ says fits the program, and itself. Whether Kubernetes takes it: tests/slow."""

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from global_discovery.cli import relay
from global_discovery.cli.flags import PREFIX
from global_discovery.cli.main import make_parser
from global_discovery.cli.serve_flags import FLAGS, read_values
from global_discovery.cli.serve_flags.discovery import ROUTER_FLAGS
from global_discovery.cli.serve_flags.general import (
    GRPC_LISTEN,
    HEALTH_LISTEN,
    LISTEN,
    POOL_DISCOVERY,
)
from support.documents import block_with
from support.kube_objects import Object
from support.manifests import (
    DEPLOY,
    FOLDERS,
    OVERLAYS,
    ROOT,
    STORES_AND_TLS,
    a_kustomization,
    composed,
    containers_of,
    from_there,
    only,
    rendered,
    variables,
)
from support.serve_flags import parse

READ_SLICES = {
    "apiGroups": ["discovery.k8s.io"],
    "resources": ["endpointslices"],
    "verbs": ["get", "list", "watch"],
}
READ_CLUSTERS = {
    "apiGroups": ["cluster.karmada.io"],
    "resources": ["clusters"],
    "verbs": ["get", "list", "watch"],
}
READ_THE_CLUSTER_S_NAME = {
    "apiGroups": ["about.k8s.io"],
    "resources": ["clusterproperties"],
    "resourceNames": ["cluster.clusterset.k8s.io"],
    "verbs": ["get"],
}

Container = dict[str, Any]


@pytest.fixture(params=OVERLAYS)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def items(mode: str) -> list[Object]:
    return rendered(f"overlays/{mode}")


@pytest.fixture
def pod(items: list[Object]) -> Object:
    template: Object = only(items, "Deployment")["spec"]["template"]
    return template


@pytest.fixture
def container(pod: Object) -> Container:
    (found,) = pod["spec"]["containers"]
    return dict(found)


def ports(container: Container) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container["ports"]}


def test_the_command_line_and_its_variables_are_taken_by_the_program(
    items: list[Object], container: Container, mode: str
) -> None:
    command, *flags = container["args"]
    assert command == "serve"
    values = read_values(parse(*flags), variables(items, container))
    assert values[POOL_DISCOVERY] == mode


def test_every_variable_is_a_flag_of_the_program(items: list[Object], container: Container) -> None:
    known = {flag.variable for flag in FLAGS.flags}
    assert variables(items, container).keys() <= known
    assert all(name.startswith(PREFIX) for name in known)


def test_the_container_s_ports_are_those_that_the_program_listens_on(
    items: list[Object], container: Container
) -> None:
    values = read_values(parse(), variables(items, container))
    health = values.get(HEALTH_LISTEN)
    assert health is not None
    assert ports(container) == {
        "rest": values[LISTEN].port,
        "grpc": values[GRPC_LISTEN].port,
        "health": health.port,
    }


def test_the_service_has_both_faces_and_says_what_they_speak(
    items: list[Object], container: Container, pod: Object
) -> None:
    spec = only(items, "Service")["spec"]
    assert {port["name"]: port["appProtocol"] for port in spec["ports"]} == {
        "rest": "http",
        "grpc": "kubernetes.io/h2c",
    }
    for port in spec["ports"]:
        assert port["port"] == ports(container)[port["targetPort"]]
    assert spec["selector"].items() <= pod["metadata"]["labels"].items()


def test_whatever_selects_pods_selects_those_of_the_deployment(
    items: list[Object], pod: Object
) -> None:
    labels = pod["metadata"]["labels"]
    selectors = [
        only(items, "Deployment")["spec"]["selector"],
        only(items, "PodDisruptionBudget")["spec"]["selector"],
        only(items, "NetworkPolicy")["spec"]["podSelector"],
    ]
    for selector in selectors:
        assert selector["matchLabels"]
        assert selector["matchLabels"].items() <= labels.items()


def test_probes_ask_the_port_that_needs_no_certificate_for_paths_that_are_there(
    container: Container,
) -> None:
    probes = {name: container[f"{name}Probe"] for name in ("startup", "readiness", "liveness")}
    paths = {name: probe["httpGet"]["path"] for name, probe in probes.items()}
    assert paths == {"startup": "/livez", "readiness": "/readyz", "liveness": "/livez"}
    assert {probe["httpGet"]["port"] for probe in probes.values()} == {"health"}
    # Leases are counted from when callers can reach the instance.
    assert probes["readiness"]["periodSeconds"] == 1


def test_with_the_memory_store_there_is_never_a_second_instance(items: list[Object]) -> None:
    spec = only(items, "Deployment")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}


def test_a_node_can_be_drained(items: list[Object]) -> None:
    spec = only(items, "PodDisruptionBudget")["spec"]
    assert spec["maxUnavailable"] == 1
    assert "minAvailable" not in spec


def test_the_pod_has_the_least_that_it_needs(pod: Object, container: Container) -> None:
    spec = pod["spec"]
    assert spec["enableServiceLinks"] is False
    assert spec["terminationGracePeriodSeconds"] >= 10
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert "memory" in container["resources"]["limits"]
    assert "cpu" not in container["resources"]["limits"]


def test_the_pod_runs_as_the_user_of_the_image(pod: Object) -> None:
    user = re.search(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert user is not None
    context = pod["spec"]["securityContext"]
    assert [context["runAsUser"], context["runAsGroup"]] == [int(user[1]), int(user[2])]


def test_only_what_reads_its_own_cluster_holds_a_token_of_it(pod: Object, mode: str) -> None:
    assert pod["spec"]["automountServiceAccountToken"] is (mode == "mcs")


def test_only_what_asks_an_api_server_may_call_out(items: list[Object], mode: str) -> None:
    policy = only(items, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert (policy["egress"] == []) is (mode == "registrations")


def test_only_who_is_labelled_reaches_the_ports(items: list[Object]) -> None:
    for rule in only(items, "NetworkPolicy")["spec"]["ingress"]:
        assert rule["from"]
        assert rule["ports"]
        for peer in rule["from"]:
            assert peer["namespaceSelector"]["matchLabels"]


def rules(items: list[Object]) -> list[Any]:
    return [rule for item in items if item["kind"].endswith("Role") for rule in item["rules"]]


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        ("overlays/registrations", []),
        ("overlays/mcs", [READ_SLICES]),
        ("overlays/karmada", []),
        ("karmada-hub", [READ_SLICES]),
        ("relay", []),
    ],
)
def test_the_roles_allow_this_and_nothing_else(folder: str, allowed: list[Any]) -> None:
    items = rendered(folder)
    assert rules(items) == allowed
    assert_bindings_lead_somewhere(items)


def assert_bindings_lead_somewhere(items: list[Object]) -> None:
    for binding in [item for item in items if item["kind"].endswith("RoleBinding")]:
        role = binding["roleRef"]
        assert only(items, role["kind"], role["name"])
        for subject in binding["subjects"]:
            account = only(items, subject["kind"], subject["name"])
            assert account["metadata"]["namespace"] == subject["namespace"]


def test_karmada_s_kubeconfig_is_where_the_program_looks_for_it() -> None:
    items = rendered("overlays/karmada")
    (container,) = containers_of(items)
    spec = only(items, "Deployment")["spec"]["template"]["spec"]
    (volume,) = spec["volumes"]
    (mount,) = container["volumeMounts"]
    assert mount["name"] == volume["name"]
    assert mount["readOnly"] is True
    assert "subPath" not in mount
    path = Path(variables(items, container)["GLOBAL_DISCOVERY_KUBECONFIG"])
    assert path.parent == Path(mount["mountPath"])
    # Readable by the group that the volume is given to, and by nobody else.
    assert volume["secret"]["defaultMode"] == 0o440
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_image_is_of_this_version(folder: str) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for container in containers_of(rendered(folder)):
        if container["name"] != "model-server":
            assert container["image"] == f"global-discovery:{version}"


def test_the_overlay_of_one_s_own_in_the_document_works(tmp_path: Path) -> None:
    text = block_with(ROOT / "docs/deploy.md", "# kustomization.yaml\n")
    text = text.replace("<this repository>", from_there(tmp_path))
    items = rendered(a_kustomization(tmp_path, text.replace("<your registry>", "example")))
    (container,) = containers_of(items)
    assert container["image"].startswith("example/global-discovery:")
    values = read_values(parse(), variables(items, container))
    assert values[POOL_DISCOVERY] == "mcs"
    assert [values[flag] for flag in ROUTER_FLAGS] == ["routing", "global-router", "http"]
    assert values[HEALTH_LISTEN].port == 8081


def test_the_component_for_karmada_s_clusters_lets_them_be_read(tmp_path: Path) -> None:
    items = composed(tmp_path, "karmada-hub", "karmada-clusters")
    assert rules(items) == [READ_SLICES, READ_CLUSTERS]
    assert_bindings_lead_somewhere(items)


def test_the_component_for_the_cluster_s_name_lets_the_relay_read_that(tmp_path: Path) -> None:
    items = composed(tmp_path, "relay", "relay-about")
    assert rules(items) == [READ_THE_CLUSTER_S_NAME]
    assert_bindings_lead_somewhere(items)
    spec = only(items, "Deployment")["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is True
    account = only(items, "ClusterRoleBinding")["subjects"][0]["name"]
    assert spec["serviceAccountName"] == account


def relay_container() -> Container:
    (found,) = [item for item in containers_of(rendered("relay")) if item["name"] == "relay"]
    return found


def test_the_relay_s_command_line_is_taken_by_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    container = relay_container()
    of_the_pod = {"metadata.namespace": "llm", "metadata.uid": "5e0c"}
    values = {
        entry["name"]: entry.get("value") or of_the_pod[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        for entry in container["env"]
    }
    for name in [name for name in os.environ if name.startswith((PREFIX, "DYN_", "POD_"))]:
        monkeypatch.delenv(name)
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    program, *command = container["command"]
    assert program == "global-discovery"
    flags = [re.sub(r"\$\((\w+)\)", lambda name: values[name[1]], arg) for arg in container["args"]]
    settings = relay._settings(make_parser().parse_args([*command, *flags]))
    assert settings.pool == ("eu-1", "llm", "qwen")
    assert settings.relay_id == "5e0c"
    assert settings.withdraw_on_exit
    assert settings.listen_port == ports(container)["relay"]
    assert settings.openai_url == "http://127.0.0.1:8000"


def test_the_relay_s_services_are_named_as_the_service_looks_for_them() -> None:
    items = rendered("relay")
    deployment = only(items, "Deployment")
    known = {
        port["name"]: port["containerPort"]
        for container in containers_of(items)
        for port in container["ports"]
    }
    flags = read_values(parse(), {})
    named = {flag.name: flags.get(flag) for flag in FLAGS.flags}
    for suffix in (named["--pool-relay-suffix"], named["--frontend-suffix"]):
        name = f"{deployment['metadata']['name']}{suffix}"
        service = only(items, "Service", name)["spec"]
        assert only(items, "ServiceExport", name)
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert service["selector"].items() <= labels.items()
        for port in service["ports"]:
            assert port["port"] == known[port["targetPort"]]
    frontend = only(items, "Service", f"qwen{named['--frontend-suffix']}")["spec"]
    assert named["--frontend-port-name"] in [port["name"] for port in frontend["ports"]]


def test_every_kustomization_is_rendered_by_a_test_or_is_part_of_one() -> None:
    folders = {str(path.parent.relative_to(DEPLOY)) for path in DEPLOY.rglob("kustomization.yaml")}
    components = {"endpointslices", "karmada-clusters", "relay-about"}
    components |= {"monitoring", "prometheus-operator"}  # tests/monitoring
    components |= {"access", "relay-access"}  # test_access_components
    components.update(name for names in STORES_AND_TLS for name in names)
    parts = {"base", *(f"components/{name}" for name in components)}
    assert folders == {*FOLDERS, *parts}
