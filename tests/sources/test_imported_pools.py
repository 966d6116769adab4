"""Pools as imported slices show them, through lists, events, moves and relists."""

import copy
import itertools

import pytest

from global_discovery.domain.change import Change, Departure
from global_discovery.domain.events import Event
from global_discovery.domain.pool import PoolKey
from global_discovery.slices.imported import ImportedPool
from global_discovery.slices.model import EndpointSlice
from global_discovery.slices.recognise import Discovery
from support.imported import (
    KARMADA,
    SAMPLES,
    SlicesWorld,
    a_slice,
    endpoint,
    mode_of,
    read,
    sample,
    without_each_key,
)

KEY = PoolKey("rome", "models", "qwen")
OTHER = PoolKey("rome", "models", "llama")


@pytest.fixture
def world() -> SlicesWorld:
    world = SlicesWorld()
    world.slices.replaced([])
    world.slices.in_sync()
    world.changes()
    return world


def relays(*addresses: str, pool: str = "qwen", name: str = "r", told: str = "") -> EndpointSlice:
    endpoints = [endpoint(address, pod=f"{pool}-{address}") for address in addresses]
    return a_slice(f"{pool}-pool-relay", *endpoints, name=name, told=told)


def frontends(*addresses: str, pool: str = "qwen", name: str = "f") -> EndpointSlice:
    endpoints = [endpoint(address, pod=f"{pool}-{address}") for address in addresses]
    return a_slice(f"{pool}-frontend", *endpoints, name=name)


# -- samples ------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_means_the_same_in_a_list_and_in_every_kind_of_event(name: str) -> None:
    one = sample(name)
    listed, added, modified = (SlicesWorld(mode_of(name)) for _ in range(3))
    listed.slices.replaced([one])
    added.slices.put(one)
    emptied = {**SAMPLES[name], "endpoints": None, "ports": None}
    modified.slices.put(read(emptied))
    modified.slices.put(one)
    assert listed.pools == added.pools == modified.pools
    assert listed.routers == added.routers == modified.routers
    for world in (listed, added, modified):
        world.slices.deleted(*one.key)
        assert world.pools == {}
        assert len(world.slices) == 0


def a_slice_of_nobody_else(discovery: Discovery) -> EndpointSlice:
    if discovery is not KARMADA:
        return a_slice("x-frontend", endpoint("10.0.0.1"), cluster="far", name="beside")
    raw = copy.deepcopy(SAMPLES["karmada/dispatched"])
    raw["metadata"]["name"] = "far-beside"
    raw["metadata"]["annotations"]["endpointslice.karmada.io/provision-cluster"] = "far"
    return read(raw)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_slice_without_any_one_of_its_keys_harms_no_other(name: str) -> None:
    world = SlicesWorld(mode_of(name))
    beside = a_slice_of_nobody_else(mode_of(name))
    world.slices.put(beside)
    [(key, pool)] = world.pools.items()
    for smaller in map(read, without_each_key(SAMPLES[name])):
        world.slices.put(smaller)
        assert world.pools[key] == pool
        world.slices.replaced([smaller, beside])
        assert world.pools[key] == pool
        world.slices.deleted(*smaller.key)
        assert world.pools == {key: pool}


@pytest.mark.parametrize(
    ("names", "relays"),
    [
        (["karmada/hub-v4", "karmada/hub-v6"], ("ip:10.81.0.5",)),
        (["mcs/cilium-remote-v4", "mcs/cilium-remote-v6"], ("ip:10.32.0.9",)),
        (["odd/moving-old", "odd/moving-new"], ()),
    ],
)
def test_a_pair_means_the_same_in_both_orders(names: list[str], relays: tuple[str, ...]) -> None:
    for order in itertools.permutations(map(sample, names)):
        world = SlicesWorld(mode_of(names[0]))
        for one in order:
            world.slices.put(one)
        [pool] = world.pools.values()
        assert pool.relays == relays


# -- what a pool is -----------------------------------------------------------


def test_the_slices_of_both_services_are_one_pool(world: SlicesWorld) -> None:
    world.slices.put(relays("10.0.0.1"))
    world.slices.put(frontends("10.0.0.2"))
    assert world.pools == {
        KEY: ImportedPool(
            KEY,
            relays=("ip:10.0.0.1",),
            frontends=("http://10.0.0.2:8000",),
            frontend_slices=1,
            frontend_port_seen=True,
        )
    }


def test_one_service_exported_by_several_clusters_is_several_pools(world: SlicesWorld) -> None:
    for cluster in ("a", "b"):
        shown = endpoint("10.0.0.1", pod=f"relay-of-{cluster}")
        world.slices.put(a_slice("qwen-pool-relay", shown, cluster=cluster, name=cluster))
    assert {key.cluster_id for key in world.pools} == {"a", "b"}
    assert {pool.relays for pool in world.pools.values()} == {("ip:10.0.0.1",)}
    assert world.events == []


def test_a_name_with_two_suffixes_is_of_one_pool(world: SlicesWorld) -> None:
    world.slices.put(sample("odd/named-like-two-pools"))
    key = PoolKey("rome", "models", "qwen-pool-relay")
    assert [*world.pools] == [key]
    assert world.pools[key].frontends == ("http://10.91.0.6:8000",)
    assert world.pools[key].relays == ()


def test_other_services_are_no_pools(world: SlicesWorld) -> None:
    world.slices.put(a_slice("database", endpoint("10.0.0.1")))
    assert world.changes() == 0
    assert len(world.slices) == 1


# -- differences --------------------------------------------------------------


def test_a_relist_without_differences_is_no_change(world: SlicesWorld) -> None:
    world.slices.replaced([relays("10.0.0.1"), frontends("10.0.0.2")])
    assert world.changes() == 1
    world.slices.replaced([frontends("10.0.0.2"), relays("10.0.0.1")])
    assert world.changes() == 0


def test_a_relist_brings_its_differences_and_nothing_else(world: SlicesWorld) -> None:
    stays, goes = relays("10.0.0.1"), relays("10.0.0.2", pool="llama", name="goes")
    world.slices.replaced([stays, goes])
    world.changes()
    world.slices.replaced([stays, frontends("10.0.0.3")])
    changes = world.source.drain().changes
    assert {change.key for change in changes} == {KEY, OTHER}
    assert Change(OTHER, None, Departure.REMOVED) in changes


def test_a_slice_that_says_the_same_is_no_change(world: SlicesWorld) -> None:
    world.slices.put(relays("10.0.0.1"))
    world.changes()
    again = a_slice("qwen-pool-relay", endpoint("10.0.0.1", pod="other-pod"), name="r", told="x")
    world.slices.put(again)
    assert world.changes() == 0


def test_changes_of_one_pool_are_merged(world: SlicesWorld) -> None:
    world.slices.put(relays("10.0.0.1"))
    world.slices.put(relays("10.0.0.1", "10.0.0.2"))
    [change] = world.source.drain().changes
    assert change.value is not None
    assert change.value.relays == ("ip:10.0.0.1", "ip:10.0.0.2")
    world.slices.deleted("models", "r")
    world.slices.put(relays("10.0.0.3"))
    [change] = world.source.drain().changes
    assert change.value is not None


def test_a_pool_is_gone_with_its_last_slice_only(world: SlicesWorld) -> None:
    world.slices.replaced([relays(), frontends()])
    world.slices.deleted("models", "r")
    assert KEY in world.pools
    world.slices.deleted("models", "f")
    assert world.source.drain().changes == [Change(KEY, None, Departure.REMOVED)]


# -- moves --------------------------------------------------------------------


def test_a_slice_relabelled_to_another_service_leaves_one_pool_for_another(
    world: SlicesWorld,
) -> None:
    world.slices.put(relays("10.0.0.1"))
    world.slices.put(relays("10.0.0.1", pool="llama"))
    assert [*world.pools] == [OTHER]


def test_a_slice_relabelled_to_another_cluster_leaves_one_pool_for_another(
    world: SlicesWorld,
) -> None:
    one = endpoint("10.0.0.1", pod="r")
    world.slices.put(a_slice("qwen-pool-relay", one, name="r"))
    world.slices.put(a_slice("qwen-pool-relay", one, name="r", cluster="milan"))
    assert [*world.pools] == [PoolKey("milan", "models", "qwen")]


def test_a_slice_that_turns_from_relays_to_frontends_changes_its_role(world: SlicesWorld) -> None:
    world.slices.put(relays("10.0.0.1", name="one"))
    world.slices.put(frontends("10.0.0.1", name="one"))
    assert world.pools[KEY].relays == ()
    assert world.pools[KEY].frontends == ("http://10.0.0.1:8000",)


def test_a_slice_that_leaves_the_selector_and_comes_back_is_there_again(world: SlicesWorld) -> None:
    world.slices.put(relays("10.0.0.1"))
    before = dict(world.pools)
    world.slices.deleted("models", "r")
    assert world.pools == {}
    world.slices.put(relays("10.0.0.1"))
    assert world.pools == before


def test_a_slice_is_deleted_by_its_name_whatever_labels_it_had_last(world: SlicesWorld) -> None:
    world.slices.put(relays("10.0.0.1"))
    world.slices.put(relays("10.0.0.1", pool="llama"))
    world.slices.deleted("models", "r")
    assert world.pools == {}


def test_slices_of_one_name_in_two_namespaces_are_two(world: SlicesWorld) -> None:
    world.slices.put(relays("10.0.0.1"))
    world.slices.put(a_slice("qwen-pool-relay", endpoint("10.0.0.2"), name="r", namespace="other"))
    world.slices.deleted("other", "r")
    assert [*world.pools] == [KEY]


@pytest.mark.parametrize("added_first", [True, False])
def test_a_rebalance_ends_the_same_in_both_orders(world: SlicesWorld, *, added_first: bool) -> None:
    world.slices.replaced([relays("10.0.0.1", "10.0.0.2", name="a"), relays(name="b")])
    before = dict(world.pools)
    steps = [relays("10.0.0.1", name="a"), relays("10.0.0.2", name="b")]
    for step in reversed(steps) if added_first else steps:
        world.slices.put(step)
        assert world.pools[KEY].relays
        if added_first:
            assert world.pools == before
    assert world.pools == before


def test_a_split_over_two_slices_changes_nothing(world: SlicesWorld) -> None:
    world.slices.replaced([frontends("10.0.0.1", "10.0.0.2")])
    [pool] = world.pools.values()
    world.slices.replaced([frontends("10.0.0.1"), frontends("10.0.0.2", name="g")])
    [split] = world.pools.values()
    assert split.frontends == pool.frontends
    assert split.frontend_slices == 2


def test_the_family_changes_only_with_the_slices(world: SlicesWorld) -> None:
    def v4(**conditions: bool) -> EndpointSlice:
        return a_slice("qwen-frontend", endpoint("10.0.0.1", pod="f", **conditions), name="v4")

    v6 = a_slice("qwen-frontend", endpoint("fd00::1", pod="f"), name="v6", family="IPv6")
    world.slices.put(v6)
    assert world.pools[KEY].frontends == ("http://[fd00::1]:8000",)
    world.slices.put(v4(ready=True))
    assert world.pools[KEY].frontends == ("http://10.0.0.1:8000",)
    world.slices.put(v4(ready=False))
    assert world.pools[KEY].frontends == ()
    world.slices.deleted("models", "v4")
    assert world.pools[KEY].frontends == ("http://[fd00::1]:8000",)


# -- warnings -----------------------------------------------------------------


def test_a_missing_port_is_told_once_until_it_was_there_again(world: SlicesWorld) -> None:
    def without_port(address: str) -> EndpointSlice:
        return a_slice("qwen-frontend", endpoint(address), name="f", port="grpc")

    for _ in range(3):
        world.slices.put(without_port("10.0.0.1"))
        world.slices.put(without_port("10.0.0.2"))
        world.slices.replaced([without_port("10.0.0.1"), relays("10.0.0.9")])
        world.slices.put(relays("10.0.0.8"))
    assert len(world.told(Event.FRONTEND_PORT_MISSING)) == 1
    world.slices.put(frontends("10.0.0.1"))
    world.slices.put(without_port("10.0.0.1"))
    assert len(world.told(Event.FRONTEND_PORT_MISSING)) == 2
    assert world.pools[KEY].frontend_slices == 1
    assert not world.pools[KEY].frontend_port_seen


def test_warnings_go_with_the_pool_and_come_back_with_it(world: SlicesWorld) -> None:
    portless = a_slice("qwen-frontend", endpoint("10.0.0.1"), port="grpc", name="f")
    for _ in range(2):
        world.slices.put(portless)
        world.slices.deleted("models", "f")
    assert len(world.told(Event.FRONTEND_PORT_MISSING)) == 2


def test_too_many_frontends_are_told_once_while_there_are_too_many(world: SlicesWorld) -> None:
    for count in (1_025, 1_030, 1_026):
        made = [endpoint(f"10.1.{n // 250}.{n % 250}") for n in range(count)]
        world.slices.put(a_slice("qwen-frontend", *made))
    [told] = world.told(Event.TOO_MANY_ENDPOINTS)
    assert told["found"] == 1_025
    assert len(world.pools[KEY].frontends) == 1_024


def test_a_pod_that_two_clusters_show_is_told_once_for_both() -> None:
    world = SlicesWorld(KARMADA)
    twice, original = sample("karmada/hub-collected-twice"), sample("karmada/hub-v4")
    for _ in range(3):
        world.slices.replaced([original, twice])
        world.slices.put(twice)
    assert world.told(Event.POD_IN_TWO_CLUSTERS) == [
        {"pool": "bergen/models/qwen", "other": "oslo/models/qwen"}
    ]
    assert len(world.pools) == 2
    world.slices.deleted(*twice.key)
    world.slices.put(twice)
    assert len(world.told(Event.POD_IN_TWO_CLUSTERS)) == 2


def shows(pool: str, cluster: str, *pods: str) -> EndpointSlice:
    endpoints = [endpoint(f"10.0.0.{n}", pod=pod) for n, pod in enumerate(pods, 1)]
    return a_slice(f"{pool}-pool-relay", *endpoints, cluster=cluster, name=f"{pool}-{cluster}")


def test_pods_that_two_clusters_show_are_one_notice_while_any_is(world: SlicesWorld) -> None:
    world.slices.put(shows("qwen", "a", "p"))
    for pods in (["p"], ["p", "q"], ["p"], ["q", "p", "r"]):
        world.slices.put(shows("qwen", "a", *pods))
        world.slices.put(shows("qwen", "b", *reversed(pods)))
    assert len(world.told(Event.POD_IN_TWO_CLUSTERS)) == 1
    world.slices.put(shows("qwen", "c", "r"))
    told = world.told(Event.POD_IN_TWO_CLUSTERS)
    pairs = [(one["pool"][0], one["other"][0]) for one in told]
    assert pairs == [("a", "b"), ("a", "c"), ("b", "c")]


@pytest.mark.parametrize("first", ["a", "b", "c"])
def test_a_pod_that_one_cluster_showed_before_is_nothing_odd(
    world: SlicesWorld, first: str
) -> None:
    for cluster in "abc":
        world.slices.put(shows("qwen", cluster, "p"))
    for cluster in sorted("abc", key=lambda cluster: cluster != first):
        world.slices.put(shows("qwen", cluster))
    world.events.clear()
    for cluster in "abc":
        world.slices.put(shows("qwen", cluster, "p"))
        world.slices.put(shows("qwen", cluster))
    assert world.events == []


def test_clusters_that_share_a_pod_again_are_told_again(world: SlicesWorld) -> None:
    world.slices.put(shows("qwen", "a", "p"))
    world.slices.put(shows("qwen", "b", "p"))
    world.slices.put(shows("qwen", "b", "q"))
    world.slices.put(shows("qwen", "a", "p", "q"))
    assert len(world.told(Event.POD_IN_TWO_CLUSTERS)) == 2


def test_a_pod_that_two_pools_of_one_cluster_show_is_nothing_odd(world: SlicesWorld) -> None:
    for pool in ("qwen", "llama"):
        world.slices.put(a_slice(f"{pool}-frontend", endpoint("10.0.0.1", pod="shared")))
    assert world.events == []
