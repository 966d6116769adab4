"""The components of who may do what fit the program, every overlay and each other."""

from pathlib import Path

import pytest

from global_discovery.cli.serve_flags import read_values
from global_discovery.cli.serve_flags.access import POLICY, TOKEN_AUDIENCE, anonymous_rights
from global_discovery.domain.policy import parse as parse_policy
from global_discovery.domain.pool import PoolKey
from support.kube_objects import Object
from support.manifests import OVERLAYS, composed, containers_of, only, pod_of, variables
from support.serve_flags import parse

NAMES = ("tls", "access")


@pytest.fixture(params=OVERLAYS)
def items(request: pytest.FixtureRequest, tmp_path: Path) -> list[Object]:
    return composed(tmp_path, f"overlays/{request.param}", *NAMES)


def policy_of(items: list[Object]) -> str:
    return str(only(items, "ConfigMap", "global-discovery-policy")["data"]["policy.toml"])


def relay_of(folder: Path) -> tuple[Object, Object]:
    """The pod of the example, and its relay."""
    items = composed(folder, "relay", "relay-access")
    (relay,) = [each for each in containers_of(items) if each["name"] == "relay"]
    return pod_of(only(items, "Deployment"))["spec"], relay


def test_the_variables_and_the_policy_are_taken_by_the_program(
    items: list[Object], tmp_path: Path
) -> None:
    (container,) = containers_of(items)
    told = variables(items, container)
    path = Path(told[POLICY.variable])
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "access"]
    assert (str(path.parent), mount["readOnly"]) == (mount["mountPath"], True)
    assert "subPath" not in mount, "a file that is mounted by itself never changes"
    (volume,) = [
        each
        for each in pod_of(only(items, "Deployment"))["spec"]["volumes"]
        if each["name"] == "access"
    ]
    config = only(items, "ConfigMap", volume["configMap"]["name"])
    (tmp_path / path.name).write_text(config["data"][path.name])
    here = {name: text for name, text in told.items() if "_TLS_" not in name}
    values = read_values(parse(), here | {POLICY.variable: str(tmp_path / path.name)})
    assert values[TOKEN_AUDIENCE]
    assert anonymous_rights(values).read.empty


def test_it_may_ask_about_tokens_and_nothing_else(items: list[Object]) -> None:
    role = only(items, "ClusterRole", "global-discovery-token-review")
    assert role["rules"] == [
        {
            "apiGroups": ["authentication.k8s.io"],
            "resources": ["tokenreviews"],
            "verbs": ["create"],
        }
    ]
    (subject,) = only(items, "ClusterRoleBinding", role["metadata"]["name"])["subjects"]
    pod = pod_of(only(items, "Deployment"))
    assert subject["name"] == pod["spec"]["serviceAccountName"]
    assert (
        only(items, "ServiceAccount", subject["name"])["metadata"]["namespace"]
        == (subject["namespace"])
    )
    assert pod["spec"]["automountServiceAccountToken"] is True
    leave = only(items, "NetworkPolicy", "global-discovery-token-review")["spec"]
    assert leave["policyTypes"] == ["Egress"]
    labels = pod["metadata"]["labels"]
    assert leave["podSelector"]["matchLabels"].items() <= labels.items()


def test_the_relay_s_token_is_made_for_the_service_and_lies_where_it_looks(
    tmp_path: Path,
) -> None:
    pod, relay = relay_of(tmp_path)
    told = {each["name"]: each.get("value") for each in relay["env"]}
    mounts = {each["name"]: each["mountPath"] for each in relay["volumeMounts"]}
    volumes = {each["name"]: each for each in pod["volumes"]}
    (source,) = volumes["discovery-token"]["projected"]["sources"]
    token = source["serviceAccountToken"]
    path = f"{mounts['discovery-token']}/{token['path']}"
    assert told["GLOBAL_DISCOVERY_TOKEN_PATH"] == path
    assert told["GLOBAL_DISCOVERY_CA_PATH"] == f"{mounts['discovery-ca']}/ca.crt"
    assert pod["automountServiceAccountToken"] is False, "not one for the API server"
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsUser"]


def test_audience_identity_and_key_of_the_example_agree(
    items: list[Object], tmp_path: Path
) -> None:
    (tmp_path / "relay").mkdir()
    pod, relay = relay_of(tmp_path / "relay")
    (container,) = containers_of(items)
    (source,) = pod["volumes"][0]["projected"]["sources"]
    audience = variables(items, container)[TOKEN_AUDIENCE.variable]
    assert source["serviceAccountToken"]["audience"] == audience
    told = {each["name"]: each.get("value") for each in relay["env"]}
    identity = f"sa:local/llm/{pod['serviceAccountName']}"
    rights = parse_policy(policy_of(items).encode()).rights(identity)
    key = PoolKey(str(told["DYN_CLUSTER_ID"]), "llm", "qwen")
    assert rights.register.holds(key)
    assert not rights.register.holds(key._replace(cluster_id="eu-2"))
    assert rights.read.empty
