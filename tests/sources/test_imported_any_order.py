"""Whatever the order of events and relists, only the final set of slices counts."""

from collections import deque
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from global_discovery.domain.pool import PoolKey
from global_discovery.slices.imported import ImportedPool
from global_discovery.slices.interpret import interpret_pool, interpret_routers
from global_discovery.slices.model import EndpointSlice
from global_discovery.slices.naming import Naming
from global_discovery.slices.recognise import Refusal, Service, recognise
from support.imported import MCS, ROUTERS, SlicesWorld, a_slice, endpoint

NAMES = ["s0", "s1", "s2", "s3"]
SERVICES = ["a-pool-relay", "a-frontend", "a-pool-relay-frontend", "global-router", "other"]
TIMES = ["", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"]

condition = st.sampled_from([None, True, False])


@st.composite
def endpoints(draw: st.DrawFn, family: str) -> dict[str, Any]:
    address = draw(st.sampled_from(["10.0.0.1", "10.0.0.2", "bad"]))
    if family == "IPv6":
        address = f"fd00::{address[-1]}"
    return endpoint(
        address,
        pod=draw(st.sampled_from(["", "p", "q", "fake-pod-x"])),
        kind=draw(st.sampled_from(["Pod", "Service"])),
        ready=draw(condition),
        terminating=draw(condition),
    )


@st.composite
def slices(draw: st.DrawFn) -> EndpointSlice:
    family = draw(st.sampled_from(["IPv4", "IPv6", "FQDN"]))
    service = draw(st.sampled_from(SERVICES))
    return a_slice(
        service,
        *draw(st.lists(endpoints(family), max_size=3)),
        name=draw(st.sampled_from(NAMES)),
        cluster=draw(st.sampled_from(["east", "west", ""])),
        namespace=ROUTERS.namespace,
        family=family,
        port=draw(st.sampled_from(["http", "grpc"])),
        number=draw(st.sampled_from([8000, 80, None])),
        told=draw(st.sampled_from(TIMES)),
    )


put = st.tuples(st.just("put"), slices())
deleted = st.tuples(st.just("deleted"), st.sampled_from(NAMES))
relist = st.tuples(
    st.just("replaced"), st.lists(slices(), max_size=4, unique_by=lambda one: one.key)
)
sync = st.tuples(st.sampled_from(["in_sync", "out_of_sync"]), st.none())
turn = st.tuples(st.just("turn"), st.none())
drain = st.tuples(st.just("drain"), st.none())
operations = st.lists(st.one_of(put, put, deleted, relist, sync, turn, drain), max_size=25)


def as_a_whole(final: list[EndpointSlice]) -> tuple[dict[PoolKey, ImportedPool], dict[str, str]]:
    """What the final set means, interpreted at once and in no other way."""
    of: dict[Service, list[EndpointSlice]] = {}
    for one in final:
        found = recognise(MCS, one)
        if not isinstance(found, Refusal):
            of.setdefault(found, []).append(one)
    naming = Naming()
    pools = {}
    for key in {naming.pool_of(service) for service in of} - {None}:
        assert key is not None
        relays, frontends = naming.relays_of(key), naming.frontends_of(key)
        pools[key] = interpret_pool(naming, key, of.get(relays, []), of.get(frontends, [])).pool
    routers = {}
    for service, some in of.items():
        if (service.namespace, service.name) == (ROUTERS.namespace, ROUTERS.name):
            for router in interpret_routers(service.cluster_id, some, ROUTERS.port)[0]:
                routers[router.id] = router.url
    return pools, routers


def apply(world: SlicesWorld, final: dict[str, EndpointSlice], what: str, about: Any) -> None:
    """One operation, on the world and on the set that counts."""
    if what == "put":
        final[about.metadata.name] = about
        world.slices.put(about)
    elif what == "deleted":
        final.pop(about, None)
        world.slices.deleted(ROUTERS.namespace, about)
    elif what == "replaced":
        final.clear()
        final.update((one.metadata.name, one) for one in about)
        world.slices.replaced(about)
    elif what == "turn":
        if world.turns:
            world.turn()
    elif what == "drain":
        world.changes()
        assert world.routers is not None
    else:
        getattr(world.slices, what)()


@given(operations, st.sampled_from([1, 3, 1_000]), st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_any_interleaving_gives_what_the_final_set_gives(
    steps: list[tuple[str, Any]], endpoints_a_turn: int, shuffle: Any
) -> None:
    world = SlicesWorld(by_hand=True, endpoints_a_turn=endpoints_a_turn)
    final: dict[str, EndpointSlice] = {}
    for what, about in steps:
        apply(world, final, what, about)
    world.run_turns()
    rest = [*final.values()]
    shuffle.shuffle(rest)
    assert (world.pools, world.routers) == as_a_whole(rest)
    assert (len(world.source), len(world.router_source)) == (len(world.pools), len(world.routers))
    refused = sum(world.slices.refused.values())
    assert len(world.slices) == len(final)
    assert refused == sum(isinstance(recognise(MCS, one), Refusal) for one in rest)
    assert world.turns == deque()
