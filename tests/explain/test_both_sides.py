"""Why a pool is listed or not, where registrations and imported slices must agree."""

import pytest

from global_discovery.domain.pool import PoolKey
from global_discovery.v1 import explanation_pb2 as explained_pb
from support.explaining import World, a_world, code, codes, frontend_slice, key, relay_slice
from support.imported import a_slice, endpoint


def kinds(answer: object) -> list[tuple[str, str, bool, bool]]:
    return [
        (
            explained_pb.NearMissKind.Name(miss.kind).removeprefix("NEAR_MISS_KIND_"),
            f"{miss.key.cluster_id}/{miss.key.namespace}/{miss.key.dgd_name}",
            miss.registered,
            miss.imported,
        )
        for miss in answer.near_misses
    ]


# -- verdicts ------------------------------------------------------------------------


async def test_a_pool_of_both_sides_is_listed_with_its_slices(mcs: World) -> None:
    await mcs.register()
    mcs.show(relay_slice(), frontend_slice())
    answer = await mcs.explain()
    assert codes(answer) == ["LISTED"]
    assert [*answer.pool.frontends] == ["http://10.1.0.2:8000"]
    side = answer.slices
    assert (side.in_sync, side.watched, side.frontend_port_seen) == (True, True, True)
    assert (side.relays.name, side.frontends.name) == (
        "models/qwen-pool-relay",
        "models/qwen-frontend",
    )
    assert (side.relays.slice_count, side.relays.endpoints, side.relays.ready) == (1, 1, 1)
    (one,) = side.frontends.slices
    assert (one.name, one.family, one.endpoints, one.ready, [*one.ports]) == (
        "models/qwen-frontend-ipv4",
        "IPv4",
        1,
        1,
        ["http:8000/TCP"],
    )


async def test_a_registration_without_any_slice_is_not_imported(mcs: World) -> None:
    await mcs.register()
    answer = await mcs.explain()
    assert codes(answer)[0] == "NOT_IMPORTED"
    assert "models/qwen-pool-relay" in answer.verdict.detail
    assert len(answer.registration.shares) == 1
    assert answer.slices.relays.slice_count == 0


async def test_a_relay_that_is_not_ready_keeps_its_pool_out(mcs: World) -> None:
    await mcs.register()
    mcs.show(relay_slice(ready=False), frontend_slice())
    answer = await mcs.explain()
    assert codes(answer)[0] == "NO_READY_RELAY"
    assert "0 of 1 endpoints" in answer.verdict.detail


async def test_an_export_of_the_frontends_alone_is_told(mcs: World) -> None:
    await mcs.register()
    mcs.show(frontend_slice())
    answer = await mcs.explain()
    assert codes(answer)[0] == "RELAYS_NOT_IMPORTED"
    assert answer.slices.frontends.ready == 1


async def test_slices_without_a_registration_are_not_registered(mcs: World) -> None:
    mcs.show(relay_slice(), frontend_slice())
    answer = await mcs.explain()
    assert codes(answer)[0] == "NOT_REGISTERED"
    assert "NOT_IMPORTED" not in codes(answer)


async def test_a_lapse_of_a_pool_that_slices_still_show_is_a_lapse(mcs: World) -> None:
    mcs.run(40)
    await mcs.register()
    mcs.show(relay_slice(), frontend_slice())
    mcs.run(16)
    assert codes(await mcs.explain()) == ["LAPSED"]


async def test_what_neither_side_knows_lacks_both(mcs: World) -> None:
    mcs.run(40)
    assert codes(await mcs.explain()) == ["NOT_REGISTERED", "NOT_IMPORTED"]


async def test_before_the_slices_are_in_sync_nothing_is_concluded_from_them() -> None:
    async with a_world(slices=True) as world:
        await world.register()
        answer = await world.explain()
        assert codes(answer) == ["SOURCE_UNSYNCED", "NOT_IMPORTED", "VIEW_ESTIMATED"]
        assert not answer.slices.in_sync
        assert "SOURCE_UNSYNCED" in answer.findings[-1].detail


async def test_a_namespace_that_is_not_watched_is_the_reason() -> None:
    async with a_world(slices=True, watched=["prod"]) as world:
        world.watching.slices.in_sync()
        await world.register()
        answer = await world.explain()
        assert codes(answer)[0] == "NAMESPACE_NOT_WATCHED"
        assert not answer.slices.watched
        await world.register(namespace="prod")
        assert codes(await world.explain(namespace="prod"))[0] == "NOT_IMPORTED"


# -- what else is odd ------------------------------------------------------------------


async def test_a_listed_pool_without_the_frontend_service_says_so(mcs: World) -> None:
    await mcs.register()
    mcs.show(relay_slice())
    assert codes(await mcs.explain()) == ["LISTED", "FRONTENDS_NOT_IMPORTED"]


async def test_a_frontend_service_without_the_port_names_those_it_has(mcs: World) -> None:
    await mcs.register()
    mcs.show(relay_slice(), frontend_slice(port="metrics", number=9090))
    answer = await mcs.explain()
    assert codes(answer) == ["LISTED", "FRONTEND_PORT_MISSING"]
    assert "a TCP port named http; ports seen: metrics:9090/TCP" in answer.findings[0].detail
    assert not answer.slices.frontend_port_seen


async def test_one_slice_without_the_port_among_others_is_named(mcs: World) -> None:
    await mcs.register()
    odd = a_slice("qwen-frontend", endpoint("10.1.0.3"), name="odd", port="grpc")
    mcs.show(relay_slice(), frontend_slice(), odd)
    answer = await mcs.explain()
    assert codes(answer) == ["LISTED", "FRONTEND_PORT_MISSING"]
    assert answer.findings[0].detail == "slice models/odd has no TCP port named http"


async def test_an_export_without_the_port_is_told_of_a_key_that_nobody_registered(
    mcs: World,
) -> None:
    mcs.show(frontend_slice(port="metrics"))
    answer = await mcs.explain()
    assert codes(answer)[:2] == ["NOT_REGISTERED", "RELAYS_NOT_IMPORTED"]
    assert "FRONTEND_PORT_MISSING" in codes(answer)


async def test_frontends_that_are_not_ready_are_counted(mcs: World) -> None:
    await mcs.register()
    mcs.show(relay_slice(), frontend_slice(ready=False))
    answer = await mcs.explain()
    assert codes(answer) == ["LISTED", "NO_READY_FRONTEND"]
    assert "0 of 1 endpoints of models/qwen-frontend" in answer.findings[0].detail


async def test_a_refused_slice_of_its_service_is_the_pools(mcs: World) -> None:
    await mcs.register("qwen")
    mcs.show(relay_slice(cluster=""))
    answer = await mcs.explain()
    found = {code(finding): finding for finding in answer.findings}
    assert codes(answer)[0] == "NOT_IMPORTED"
    assert "no_source_cluster" in found["SLICE_REFUSED"].detail
    assert "SLICE_REFUSED" not in codes(await mcs.explain("llama"))
    mcs.watching.slices.deleted("models", "qwen-pool-relay-ipv4")
    assert codes(await mcs.explain())[0] == "NOT_IMPORTED"
    assert "SLICE_REFUSED" not in codes(await mcs.explain())


async def test_a_pool_that_is_held_and_one_that_is_one_sided_say_so(mcs: World) -> None:
    mcs.run(40)
    names = [f"pool-{number}" for number in range(6)]
    leases = {}
    for name in names:
        leases[name] = await mcs.register(name)
        mcs.show(relay_slice(name), frontend_slice(name))
    await mcs.explain()
    for name in names:
        mcs.watching.slices.deleted("models", f"{name}-pool-relay-ipv4")
    answer = await mcs.explain("pool-5")
    assert codes(answer)[:2] == ["LISTED", "DAMPED"]
    assert answer.slices.relays.slice_count == 0
    for _ in range(10):
        mcs.run(4)
        for name in names:
            await mcs.register(name, lease_id=leases[name])
    assert "ONE_SIDED" in codes(await mcs.explain("pool-0"))


async def test_damaged_slices_and_pods_in_two_clusters_are_found(mcs: World) -> None:
    await mcs.register()
    broken = endpoint("2001:db8::1", pod="broken")
    mcs.show(a_slice("qwen-pool-relay", endpoint("10.1.0.1", pod="relay"), broken))
    mcs.show(frontend_slice())
    mcs.show(a_slice("qwen-frontend", endpoint("10.1.0.2", pod="front"), cluster="oslo", name="b"))
    answer = await mcs.explain()
    assert codes(answer) == ["LISTED", "SLICE_DAMAGED", "POD_IN_TWO_CLUSTERS"]
    assert "oslo/models/qwen" in answer.findings[-1].detail
    own = await mcs.service.core.explain(PoolKey("rome", "models", "qwen"), "a", lambda _: False)
    assert "oslo" not in str(own)


async def test_more_frontends_than_are_listed_is_found(mcs: World) -> None:
    await mcs.register()
    many = [endpoint(f"10.{number // 250}.9.{number % 250}") for number in range(1025)]
    mcs.show(relay_slice(), a_slice("qwen-frontend", *many))
    answer = await mcs.explain()
    assert codes(answer) == ["LISTED", "TOO_MANY_ENDPOINTS"]
    assert answer.findings[0].detail == "1025 frontends are Ready, 1024 are listed"
    assert answer.ByteSize() < 256 * 1024


# -- near misses -----------------------------------------------------------------------


async def test_the_other_side_of_a_wrong_cluster_id_is_a_near_miss(mcs: World) -> None:
    await mcs.register(cluster="rome-1")
    mcs.show(relay_slice(cluster="rome"), frontend_slice(cluster="rome"))
    answer = await mcs.explain(cluster="rome-1")
    assert codes(answer)[0] == "NOT_IMPORTED"
    assert kinds(answer) == [("OTHER_CLUSTER", "rome/models/qwen", False, True)]
    answer = await mcs.explain(cluster="rome")
    assert codes(answer)[0] == "NOT_REGISTERED"
    assert kinds(answer) == [("OTHER_CLUSTER", "rome-1/models/qwen", True, False)]


async def test_a_service_with_another_suffix_is_told_with_its_ports(mcs: World) -> None:
    mcs.show(a_slice("qwen-relay", endpoint("10.1.0.1"), port="grpc", number=50051))
    mcs.show(a_slice("qwen", endpoint("10.1.0.1"), cluster="oslo"))
    mcs.show(a_slice("qwen-relay", endpoint("10.1.0.1"), namespace="prod", name="elsewhere"))
    mcs.show(a_slice("qwenty-relay", endpoint("10.1.0.1")))
    answer = await mcs.explain()
    assert kinds(answer) == [
        ("OTHER_SUFFIX", "oslo/models/qwen", False, True),
        ("OTHER_SUFFIX", "rome/models/qwen-relay", False, True),
    ]
    assert "grpc:50051/TCP" in answer.near_misses[1].detail
    assert "-pool-relay" in answer.near_misses[1].detail


@pytest.mark.parametrize(
    ("asked", "registered"), [("qwen-pool-relay", "qwen"), ("qwen", "qwen-frontend")]
)
async def test_a_name_that_kept_its_suffix_is_a_near_miss(
    mcs: World, asked: str, registered: str
) -> None:
    await mcs.register(registered)
    answer = await mcs.explain(asked)
    assert kinds(answer) == [("NAME_WITH_SUFFIX", f"rome/models/{registered}", True, False)]


async def test_services_that_the_caller_may_not_read_are_not_told(mcs: World) -> None:
    mcs.show(a_slice("qwen-relay", endpoint("10.1.0.1")), relay_slice(cluster="oslo"))
    asked = PoolKey("rome", "models", "qwen")
    assert len((await mcs.service.core.explain(asked, "a")).near_misses) == 2
    assert (await mcs.service.core.explain(asked, "a", lambda _: False)).near_misses == ()


# -- size ------------------------------------------------------------------------------


async def test_a_service_of_very_many_slices_is_told_in_bounds(mcs: World) -> None:
    mcs.show(
        *(
            a_slice(
                "qwen-pool-relay",
                endpoint(f"10.1.{number // 250}.{number % 250}"),
                name=f"s{number:04}",
            )
            for number in range(500)
        ),
        *(a_slice("qwen-pool-relay", cluster="", name=f"r{number}") for number in range(50)),
        *(
            a_slice("qwen-frontend", endpoint("10.2.0.1"), port="x", name=f"f{number}")
            for number in range(50)
        ),
    )
    answer = await mcs.explain()
    assert (answer.slices.relays.slice_count, len(answer.slices.relays.slices)) == (500, 10)
    assert len(answer.findings) < 30
    assert answer.ByteSize() < 64 * 1024


async def test_a_slice_with_odd_ports_is_shown_as_it_is(mcs: World) -> None:
    mcs.show(a_slice("qwen-frontend", port="", number=None))
    (one,) = (await mcs.explain()).slices.frontends.slices
    assert [*one.ports] == ["unnamed:no number/TCP"]
    assert key() == (await mcs.explain()).key
