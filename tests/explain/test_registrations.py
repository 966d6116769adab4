"""Why a pool is listed or not, where the registrations are the list."""

from typing import Any

import grpc
import pytest

from global_discovery.domain.explanation import ADVICE, Code, NearMissKind
from global_discovery.domain.pool import PoolKey
from global_discovery.serving.core import Core, CoreSettings
from global_discovery.storage.store import StoreState
from global_discovery.v1 import explanation_pb2 as explained_pb
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from support.clock import FakeClock
from support.explaining import World, codes, key
from support.failing_store import FailingStore
from support.grpc_calls import refused
from support.lease_world import a_seen_share

KEY = PoolKey("rome", "models", "qwen")

# -- verdicts --------------------------------------------------------------------


async def test_a_registered_pool_is_listed_with_its_shares(world: World) -> None:
    lease_id = await world.register()
    world.run(4)
    await world.register(lease_id=lease_id)
    world.run(2)
    answer = await world.explain()
    assert codes(answer) == ["LISTED"]
    assert answer.pool.model == "m"
    (share,) = answer.registration.shares
    assert share.holder.identity == explained_pb.SHARE_IDENTITY_RELAY_ID
    assert (share.holder.name, [*share.holder.relays]) == ("relay-0", ["ip:127.0.0.1"])
    assert (share.granted_secs, share.since_renewal_secs, share.remaining_secs) == (15, 2, 13)
    assert (share.content_number, share.decides, share.model) == (1, True, "m")
    assert not answer.HasField("slices")
    assert not answer.near_misses
    assert answer.server.registration_storage == "memory"
    assert answer.server.instance_id == world.service.core.settings.instance_id


async def test_a_key_that_nobody_registered_is_answered_and_not_an_error(world: World) -> None:
    answer = await world.explain()
    assert codes(answer) == ["NOT_REGISTERED", "VIEW_ESTIMATED"]
    assert "STARTING" in answer.findings[0].detail
    assert answer.key == key()
    assert (len(answer.registration.shares), len(answer.registration.ended)) == (0, 0)


async def test_in_an_exact_view_what_is_missing_is_missing(world: World) -> None:
    world.run(40)
    assert codes(await world.explain()) == ["NOT_REGISTERED"]


async def test_a_lapsed_pool_says_when_and_which_relay(world: World) -> None:
    world.run(40)
    await world.register()
    world.run(15)
    world.run(7)
    answer = await world.explain()
    assert codes(answer) == ["LAPSED"]
    assert "7 s ago" in answer.verdict.detail
    (ended,) = answer.registration.ended
    assert ended.ending == explained_pb.SHARE_ENDING_LAPSED
    assert (ended.holder.name, ended.ago_secs, ended.caller) == ("relay-0", 7, "")


async def test_a_withdrawn_pool_says_who_did_it(world: World) -> None:
    await world.register()
    await world.stub.DeregisterPool(pb.DeregisterPoolRequest(key=key(), all_shares=True))
    world.run(3)
    answer = await world.explain()
    assert codes(answer)[0] == "WITHDRAWN"
    assert "3 s ago, by 127.0.0.1" in answer.verdict.detail
    (ended,) = answer.registration.ended
    assert (ended.ending, ended.caller) == (explained_pb.SHARE_ENDING_WITHDRAWN, "127.0.0.1")


async def test_a_lapse_in_a_mass_lapse_is_told_as_in_doubt(world: World) -> None:
    world.run(40)
    for number in range(12):
        await world.register(f"pool-{number}")
    world.run(15.5)
    answer = await world.explain("pool-3")
    assert codes(answer)[0] == "LAPSED"
    assert "may have been missed" in answer.verdict.detail
    assert answer.registration.ended[0].ending == explained_pb.SHARE_ENDING_LAPSED_IN_DOUBT
    assert "MASS_LAPSE" in answer.findings[-1].detail


async def test_a_share_that_is_live_again_is_no_departure_any_more(world: World) -> None:
    world.run(40)
    await world.register()
    world.run(16)
    await world.register()
    answer = await world.explain()
    assert codes(answer) == ["LISTED"]
    assert not answer.registration.ended


async def test_a_lost_relay_of_a_live_pool_is_told(world: World) -> None:
    world.run(40)
    await world.register(relay_id="gone")
    world.run(10)
    await world.register(relay_id="stays")
    world.run(6)
    answer = await world.explain()
    assert codes(answer)[0] == "LISTED"
    assert [share.holder.name for share in answer.registration.shares] == ["stays"]
    assert [ended.holder.name for ended in answer.registration.ended] == ["gone"]


# -- what else is odd ----------------------------------------------------------------


async def test_what_is_odd_with_the_shares_is_found(world: World) -> None:
    world.run(40)
    await world.register(relay_id="a", model="one", frontends=[])
    await world.register(relay_id="b", model="two", frontends=[])
    world.run(11)
    answer = await world.explain()
    assert sorted(codes(answer)) == sorted(
        ["LISTED", "HEARTBEAT_OVERDUE", "RELAYS_DISAGREE", "NO_FRONTENDS_REGISTERED"]
    )
    decides = [share.holder.name for share in answer.registration.shares if share.decides]
    assert decides == ["b"]
    assert [share.content_number for share in answer.registration.shares] == [1, 2]


async def test_callers_that_look_like_one_need_a_relay_id(world: World) -> None:
    for model in ("one", "two", "one"):
        await world.register(relay_id="", model=model)
    answer = await world.explain()
    assert "RELAY_ID_NEEDED" in codes(answer)
    assert answer.registration.shares[0].holder.identity == explained_pb.SHARE_IDENTITY_ADDRESS
    assert answer.registration.shares[0].holder.name == "127.0.0.1"


async def test_relays_that_tell_a_share_apart_are_told_once(world: World) -> None:
    await world.register(relay_id="", relays=["ip:10.0.0.9", "ip:10.0.0.8"])
    holder = (await world.explain()).registration.shares[0].holder
    assert holder.identity == explained_pb.SHARE_IDENTITY_RELAYS
    assert (holder.name, [*holder.relays]) == ("", ["ip:10.0.0.8", "ip:10.0.0.9"])


async def test_a_lease_left_counts_the_extension_that_a_stall_will_give(world: World) -> None:
    world.run(40)
    await world.register()
    await world.register("other")
    world.run(5)
    world.clock.stop(7)
    world.service.core.tick()
    await world.register("other")  # the instance listens from here on
    answer = await world.explain()
    (share,) = answer.registration.shares
    assert (share.remaining_secs, share.extensions) == (15, 1)
    assert "LEASE_EXTENDED" in codes(answer)
    world.run(14.5)
    assert codes(await world.explain())[0] == "LISTED"
    world.run(1)
    assert codes(await world.explain())[0] == "LAPSED"


async def test_a_share_found_in_a_store_was_never_renewed_here(world: World) -> None:
    registrations = world.service.core.registrations
    seen = a_seen_share("a-stored-lease-id", key=KEY)
    world.lease_ids.append(seen.share.lease_id)
    registrations.restore([seen], world.clock.monotonic())
    (share,) = (await world.explain()).registration.shares
    assert not share.HasField("since_renewal_secs")


async def test_a_store_that_fails_is_a_finding_whatever_the_verdict() -> None:
    store = FailingStore()
    core = Core(CoreSettings(), store, clock=FakeClock())
    assert Code.STORE_FAILING not in {one.code for one in (await core.explain(KEY, "a")).findings}
    store.state_now = StoreState(failing=True)
    explanation = await core.explain(KEY, "a")
    assert explanation.verdict.code is Code.NOT_REGISTERED
    assert Code.STORE_FAILING in {one.code for one in explanation.findings}


# -- near misses -----------------------------------------------------------------------


async def near(world: World, name: str = "qwen", **where: str) -> list[tuple[str, str]]:
    answer = await world.explain(name, **where)
    return [
        (
            explained_pb.NearMissKind.Name(miss.kind).removeprefix("NEAR_MISS_KIND_"),
            f"{miss.key.cluster_id}/{miss.key.namespace}/{miss.key.dgd_name}",
        )
        for miss in answer.near_misses
    ]


async def test_what_resembles_an_unknown_key_is_told_the_most_telling_first(world: World) -> None:
    await world.register("qwen", cluster="oslo")
    await world.register("qwen", namespace="prod")
    await world.register("Qwen")
    await world.register("qwem")
    await world.register("llama")
    await world.register("qwen", cluster="oslo", namespace="prod")
    assert await near(world) == [
        ("OTHER_CLUSTER", "oslo/models/qwen"),
        ("OTHER_NAMESPACE", "rome/prod/qwen"),
        ("SIMILAR_NAME", "rome/models/Qwen"),
        ("SIMILAR_NAME", "rome/models/qwem"),
    ]


async def test_near_misses_are_few_and_say_when_there_are_more(world: World) -> None:
    for number in range(12):
        await world.register(cluster=f"cluster-{number:02}")
    answer = await world.explain()
    assert len(answer.near_misses) == 10
    assert answer.near_misses_cut


async def test_a_listed_pool_has_no_near_misses(world: World) -> None:
    await world.register(cluster="oslo")
    await world.register()
    assert await near(world) == []


async def test_what_the_caller_may_not_read_is_no_near_miss(world: World) -> None:
    await world.register(cluster="oslo")
    await world.register(cluster="bern")
    explanation = await world.service.core.explain(
        KEY, "a", lambda other: other.cluster_id != "oslo"
    )
    assert [miss.key.cluster_id for miss in explanation.near_misses] == ["bern"]


# -- the call --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (pool_pb2.PoolKey(namespace="n", dgd_name="d"), "cluster_id"),
        (pool_pb2.PoolKey(cluster_id="c", namespace="a/b", dgd_name="d"), "namespace"),
        (None, "dgd_name"),
    ],
)
async def test_a_key_that_breaks_a_rule_is_refused(world: World, bad: Any, field: str) -> None:
    refusal = await refused(world.stub.ExplainPool(pb.ExplainPoolRequest(key=bad)))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert field in refusal.fields


async def test_the_largest_answer_is_below_a_mebibyte(world: World) -> None:
    for number in range(64):
        await world.register(
            relay_id=f"{number:02}" + "r" * 126,
            model=f"{number:02}" + "m" * 1022,
            frontends=[f"http://h{number}/" + "f" * 480 for number in range(100)],
            relays=[f"ip:2001:db8::{number:x}:{other:x}" for other in range(256)],
        )
    for number in range(12):
        await world.register(cluster=f"{number:02}" + "c" * 251, namespace="models")
    answer = await world.explain()
    assert len(answer.registration.shares) == 64
    holder = answer.registration.shares[0].holder
    assert (holder.relay_count, len(holder.relays)) == (256, 8)
    assert answer.ByteSize() < 1024 * 1024


def test_every_code_has_advice_and_a_value_of_its_own_in_the_protocol() -> None:
    assert {*ADVICE} == {*Code}
    assert all(advice.endswith((".", "?")) for advice in ADVICE.values())
    for prefix, enum, values in (
        ("FINDING_CODE_", explained_pb.FindingCode, Code),
        ("NEAR_MISS_KIND_", explained_pb.NearMissKind, NearMissKind),
    ):
        names = {name.removeprefix(prefix) for name in enum.keys()} - {"UNSPECIFIED"}  # noqa: SIM118 - a protobuf enum
        assert names == {value.name for value in values}
