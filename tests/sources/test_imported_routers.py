"""Routers as the imported slices of the router Service show them."""

import pytest

from global_discovery.domain.change import Change, Departure
from global_discovery.domain.completeness import Reason
from global_discovery.domain.events import Event
from global_discovery.domain.pool import Router
from global_discovery.slices.model import EndpointSlice
from support.imported import SlicesWorld, a_slice, endpoint


@pytest.fixture
def world() -> SlicesWorld:
    return SlicesWorld()


def routers(*pods: str, cluster: str = "rome", name: str = "", ready: bool = True) -> EndpointSlice:
    endpoints = [endpoint(f"10.0.0.{n}", pod=pod, ready=ready) for n, pod in enumerate(pods, 1)]
    return a_slice(
        "global-router", *endpoints, namespace="routing", cluster=cluster, name=name or cluster
    )


def test_each_cluster_has_routers_of_its_own(world: SlicesWorld) -> None:
    world.slices.put(routers("r-0"))
    world.slices.put(routers("r-0", "r-1", cluster="milan"))
    assert world.routers == {
        "rome/r-0": "http://10.0.0.1:8000",
        "milan/r-0": "http://10.0.0.1:8000",
        "milan/r-1": "http://10.0.0.2:8000",
    }
    world.slices.deleted("routing", "milan")
    assert [*world.routers] == ["rome/r-0"]


def test_a_router_is_listed_before_it_is_ready(world: SlicesWorld) -> None:
    world.slices.put(routers("r-0", ready=False))
    assert [*world.routers] == ["rome/r-0"]


def test_only_the_router_service_of_its_namespace_counts(world: SlicesWorld) -> None:
    world.slices.put(a_slice("global-router", endpoint("10.0.0.1")))
    world.slices.put(a_slice("other", endpoint("10.0.0.1"), namespace="routing"))
    assert world.routers == {}


def test_routers_are_exact_while_the_watch_is_in_sync(world: SlicesWorld) -> None:
    assert world.router_source.drain().mark.reasons == {Reason.SOURCE_UNSYNCED}
    world.slices.replaced([routers("r-0")])
    world.slices.in_sync()
    update = world.router_source.drain()
    assert (update.mark.exact, update.synced) == (True, True)
    assert update.mark.slices_bound == 90.0
    world.slices.out_of_sync()
    update = world.router_source.drain()
    assert (update.mark.exact, update.synced) == (False, True)
    assert update.changes == []


def test_only_differences_come_out(world: SlicesWorld) -> None:
    world.slices.replaced([routers("a", "b")])
    world.router_source.drain()
    world.slices.replaced([routers("a", "b", name="renamed")])
    assert world.router_source.drain().changes == []
    world.slices.replaced([routers("a", "c", name="renamed")])
    assert sorted(world.router_source.drain().changes, key=lambda change: change.key) == [
        Change("rome/b", None, Departure.REMOVED),
        Change("rome/c", Router("rome/c", "http://10.0.0.2:8000")),
    ]


def test_changes_wake_the_reader(world: SlicesWorld) -> None:
    woken = []
    world.router_source.on_change(lambda: woken.append(1))
    world.slices.put(routers("a"))
    world.slices.in_sync()
    world.slices.out_of_sync()
    assert len(woken) == 3
    assert len(world.router_source) == 1


def test_damage_is_told_once(world: SlicesWorld) -> None:
    for address in ("nowhere", "elsewhere"):
        bad = endpoint(address)
        world.slices.put(a_slice("global-router", bad, namespace="routing", name="one"))
    assert len(world.told(Event.SLICE_DAMAGED)) == 1
