from typing import Any

import pytest

from global_discovery.slices.recognise import (
    SELECTORS,
    Discovery,
    Refusal,
    Service,
    recognise,
)
from support.imported import KARMADA, MCS, SAMPLES, mode_of, read, sample, without_each_key

RELAYS, FRONTENDS = "qwen-pool-relay", "qwen-frontend"
EXPECTED = {
    "mcs/kep-labels-and-nothing-else": Service("paris", "models", FRONTENDS),
    "mcs/reference-demo-without-cluster": Refusal.NO_SOURCE_CLUSTER,
    "mcs/cluster-label-empty": Refusal.NO_SOURCE_CLUSTER,
    "mcs/cluster-id-with-a-dot": Service("paris.b", "models", RELAYS),
    "mcs/lighthouse-service-address": Service("lyon", "models", FRONTENDS),
    "mcs/lighthouse-headless": Service("lyon", "models", RELAYS),
    "mcs/lighthouse-broker-copy": Refusal.BROKER_COPY,
    "mcs/lighthouse-before-0.16": Refusal.LEGACY,
    "mcs/cilium-local-mirror": Service("nice", "models", RELAYS),
    "mcs/cilium-remote-v4": Service("toulon", "models", RELAYS),
    "mcs/cilium-remote-v6": Service("toulon", "models", RELAYS),
    "mcs/aws-cloud-map": Service("dublin", "models", RELAYS),
    "mcs/ovn-user-defined-network": Service("nantes", "models", FRONTENDS),
    "mcs/antrea-mirror": Refusal.MIRROR,
    "mcs/gke-mirror": Refusal.MIRROR,
    "karmada/hub-v4": Service("oslo", "models", RELAYS),
    "karmada/hub-v6": Service("oslo", "models", RELAYS),
    "karmada/hub-before-1.11": Refusal.NO_SOURCE_CLUSTER,
    "karmada/hub-annotation-of-another-cluster": Refusal.AMBIGUOUS_CLUSTER,
    "karmada/hub-service-named-derived": Service("oslo", "models", "derived-x-frontend"),
    "karmada/hub-collected-twice": Service("bergen", "models", RELAYS),
    "karmada/member-copy": Refusal.MEMBER_COPY,
    "karmada/dispatched": Service("oslo", "models", FRONTENDS),
    "odd/host-names": Refusal.ADDRESS_TYPE,
    "odd/named-like-two-pools": Service("rome", "models", "qwen-pool-relay-frontend"),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_each_sample_is_recognised_or_refused_for_a_fixed_reason(name: str) -> None:
    found = recognise(mode_of(name), sample(name))
    assert found == EXPECTED.get(name, found)
    assert isinstance(found, Service) or name in EXPECTED


@pytest.mark.parametrize("name", SAMPLES)
def test_no_slice_of_one_kind_is_read_as_the_other(name: str) -> None:
    other = MCS if mode_of(name) is KARMADA else KARMADA
    assert isinstance(recognise(other, sample(name)), Refusal)


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("discovery", Discovery)
def test_no_key_is_needed_to_get_an_answer(name: str, discovery: Discovery) -> None:
    for smaller in without_each_key(SAMPLES[name]):
        assert isinstance(recognise(discovery, read(smaller)), Service | Refusal)


def changed(name: str, /, **metadata: Any) -> dict[str, Any]:
    raw = SAMPLES[name]
    merged = dict(raw["metadata"])
    for field, value in metadata.items():
        old = merged.get(field)
        merged[field] = {**(old or {}), **value} if isinstance(value, dict) else value
    return {**raw, "metadata": merged}


def test_both_labels_make_a_slice_imported_whoever_manages_it() -> None:
    labels = {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
    raw = changed("mcs/cilium-local-mirror", labels=labels)
    assert recognise(MCS, read(raw)) == Service("nice", "models", RELAYS)


def test_the_older_form_that_also_names_its_cluster_is_read() -> None:
    labels = {"multicluster.kubernetes.io/source-cluster": "lyon"}
    raw = changed("mcs/lighthouse-before-0.16", labels=labels)
    assert isinstance(recognise(MCS, read(raw)), Service)


@pytest.mark.parametrize("name", ["karmada/hub-before-1.11", "karmada/hub-v4"])
def test_a_known_cluster_that_alone_fits_the_name_is_the_source(name: str) -> None:
    raw = changed(name, annotations={"work.karmada.io/namespace": ""})
    clusters = frozenset({"oslo", "bergen", "os"})
    found = recognise(KARMADA, read(raw), clusters)
    assert isinstance(found, Service)
    assert found.cluster_id == "oslo"


def test_two_known_clusters_that_fit_the_name_decide_nothing() -> None:
    raw = changed("karmada/hub-before-1.11", name="imported-a-b-x")
    clusters = frozenset({"a", "a-b"})
    assert recognise(KARMADA, read(raw), clusters) is Refusal.AMBIGUOUS_CLUSTER
    assert recognise(KARMADA, read(raw), frozenset({"a"})) == Service("a", "models", FRONTENDS)


def test_the_annotation_decides_between_clusters_that_both_fit_the_name() -> None:
    annotations = {"work.karmada.io/namespace": "karmada-es-a-b"}
    raw = changed("karmada/hub-before-1.11", name="imported-a-b-x", annotations=annotations)
    assert recognise(KARMADA, read(raw)) == Service("a-b", "models", FRONTENDS)


@pytest.mark.parametrize(
    "space", ["karmada-es-", "karmada-es", "oslo", "karmada-es-osl", "karmada-es-oslo-qwen-x"]
)
def test_an_annotation_that_the_name_does_not_confirm_is_not_believed(space: str) -> None:
    raw = changed("karmada/hub-v4", annotations={"work.karmada.io/namespace": space})
    assert recognise(KARMADA, read(raw)) is Refusal.AMBIGUOUS_CLUSTER


def test_a_name_with_nothing_after_the_cluster_confirms_nothing() -> None:
    raw = changed("karmada/hub-v4", name="imported-oslo-")
    assert recognise(KARMADA, read(raw)) is Refusal.AMBIGUOUS_CLUSTER


def test_a_copy_on_a_member_is_refused_even_when_the_clusters_are_known() -> None:
    found = recognise(KARMADA, sample("karmada/member-copy"), frozenset({"oslo"}))
    assert found is Refusal.MEMBER_COPY


@pytest.mark.parametrize("service", ["qwen", "derived-", ""])
def test_an_exported_service_without_its_prefix_is_none(service: str) -> None:
    raw = changed("karmada/hub-v4", labels={"kubernetes.io/service-name": service})
    assert recognise(KARMADA, read(raw)) is Refusal.NOT_IMPORTED


def test_a_dispatched_slice_needs_a_name_and_a_provider() -> None:
    nameless = changed("karmada/dispatched", labels={"kubernetes.io/service-name": ""})
    assert recognise(KARMADA, read(nameless)) is Refusal.NOT_IMPORTED
    annotations = {"endpointslice.karmada.io/provision-cluster": ""}
    homeless = changed("karmada/dispatched", annotations=annotations)
    assert recognise(KARMADA, read(homeless)) is Refusal.NO_SOURCE_CLUSTER


@pytest.mark.parametrize("service", [".-frontend", "..-frontend", "a b-frontend", "ü-frontend"])
def test_a_service_that_could_not_name_a_pool_is_refused(service: str) -> None:
    labels = {"multicluster.kubernetes.io/service-name": service}
    raw = changed("mcs/kep-labels-and-nothing-else", labels=labels)
    assert recognise(MCS, read(raw)) is Refusal.BAD_NAME


@pytest.mark.parametrize("cluster", ["a/b", "..", " a", "a\n", "ü"])
def test_a_cluster_that_could_not_be_in_a_key_is_refused(cluster: str) -> None:
    labels = {"multicluster.kubernetes.io/source-cluster": cluster}
    raw = changed("mcs/kep-labels-and-nothing-else", labels=labels)
    assert recognise(MCS, read(raw)) is Refusal.BAD_NAME


def test_a_slice_without_a_namespace_is_refused() -> None:
    raw = changed("mcs/kep-labels-and-nothing-else", namespace=None)
    assert recognise(MCS, read(raw)) is Refusal.BAD_NAME


def selected(selector: str, labels: dict[str, str]) -> bool:
    """As the API server selects, for the two forms that are used."""
    key, within, values = selector.partition(" in ")
    return key in labels and (not within or labels[key] in values.strip("()").split(","))


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_that_can_be_read_is_selected(name: str) -> None:
    discovery = mode_of(name)
    labels = SAMPLES[name]["metadata"].get("labels") or {}
    if isinstance(recognise(discovery, sample(name)), Service):
        assert selected(SELECTORS[discovery], labels)


def test_a_slice_without_a_cluster_is_selected_so_that_it_can_be_warned_about() -> None:
    labels = SAMPLES["mcs/reference-demo-without-cluster"]["metadata"]["labels"]
    assert selected(SELECTORS[MCS], labels)
