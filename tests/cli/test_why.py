"""`global-discovery why` as a process against a real server, and how an answer is shown."""

import json
import math

import pytest

from global_discovery.cli.explanation import document, lines
from global_discovery.v1 import explanation_pb2 as explained_pb
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from support.client_process import ran
from support.explaining import a_world, frontend_slice, relay_slice
from support.running import target
from support.scripted_server import scripted_server

HOSTILE = "x\u202e[bold]\\y"
KEY = "rome/models/qwen"


async def test_a_listed_pool_is_explained_with_status_zero() -> None:
    async with a_world() as world:
        await world.register()
        result = await ran("why", KEY, "--server", target(world.service))
        world.assert_no_lease_id(result.out)
    assert (result.status, result.err) == (0, "")
    shown = result.out.splitlines()
    assert shown[:2] == [f"{KEY} is listed", "  it is in the list"]
    assert "registrations: 1 live share" in shown
    holder = "  relay_id relay-0 (ip:127.0.0.1): renewed 0 s ago, 15 s of 15 s left"
    assert f"{holder}, content 1 (m, decides)" in shown
    assert shown[-1].startswith(f"said by {target(world.service)} (instance ")
    assert "Nothing needs to be done" not in result.out


async def test_a_pool_that_is_not_listed_is_explained_with_status_one_and_advice() -> None:
    async with a_world(slices=True) as world:
        world.watching.slices.in_sync()
        await world.register(cluster="rome-1")
        world.show(relay_slice(), frontend_slice(port="grpc"))
        world.run(40)
        result = await ran("why", KEY, "--server", target(world.service))
        world.assert_no_lease_id(result.out)
    assert (result.status, result.err) == (1, "")
    shown = result.out.splitlines()
    assert shown[0] == f"{KEY} is not listed: NOT_REGISTERED"
    assert shown[2].startswith("  -> Look at the relay")
    assert any(line.startswith("FRONTEND_PORT_MISSING: no slice of") for line in shown)
    assert "slices: in sync" in shown
    assert "  relays models/qwen-pool-relay: 1 slice, 1 of 1 endpoint Ready" in shown
    assert "    models/qwen-pool-relay-ipv4: IPv4, 1 of 1 endpoint Ready, http:8000/TCP" in shown
    assert (
        "  frontends models/qwen-frontend: 1 slice, 0 of 0 endpoints Ready, port http not seen"
        in shown
    )
    assert "the list is EXACT (bound 1 s, slices 90 s)" in shown


async def test_a_near_miss_is_shown_with_the_side_that_has_it() -> None:
    async with a_world() as world:
        await world.register(cluster="oslo")
        result = await ran("why", KEY, "--server", target(world.service))
    assert "  oslo/models/qwen (OTHER_CLUSTER, registered)" in result.out.splitlines()


async def test_the_document_has_the_same_for_programs() -> None:
    async with a_world(slices=True) as world:
        world.watching.slices.in_sync()
        world.run(40)
        await world.register()
        world.show(relay_slice(), frontend_slice())
        listed = await ran("why", KEY, "-o", "json", "--server", target(world.service))
        world.run(16)
        lapsed = await ran("why", KEY, "-o", "json", "--server", target(world.service))
        world.assert_no_lease_id(listed.out + lapsed.out)
    made = json.loads(listed.out)
    assert (listed.status, made["listed"], made["verdict"]["code"]) == (0, True, "LISTED")
    assert made["pool"]["frontends"] == ["http://10.1.0.2:8000"]
    assert made["registration"]["shares"][0]["holder"] == {
        "identity": "relay_id",
        "name": "relay-0",
        "relays": ["ip:127.0.0.1"],
        "relay_count": 1,
    }
    assert made["slices"]["frontends"]["slices"][0]["ports"] == ["http:8000/TCP"]
    made = json.loads(lapsed.out)
    assert (lapsed.status, made["listed"], made["verdict"]["code"]) == (1, False, "LAPSED")
    assert "pool" not in made
    assert made["registration"]["ended"][0]["ending"] == "LAPSED"
    assert (made["complete"], made["reasons"]) == (True, [])


@pytest.mark.parametrize("key", ["rome/models", "rome/models/qwen/x", "rome//qwen", "../a/b", ""])
async def test_what_is_no_key_is_wrong_usage(key: str) -> None:
    result = await ran("why", key)
    assert (result.status, result.out) == (2, "")
    assert "CLUSTER/NAMESPACE/NAME" in result.err


async def test_an_older_release_is_named_in_one_sentence() -> None:
    async with scripted_server() as server:
        result = await ran("why", KEY, "--server", server.target)
    assert (result.status, result.out) == (1, "")
    assert f"{server.target} is of a release that cannot explain pools" in result.err
    assert "Traceback" not in result.err


async def test_no_server_is_status_one_with_a_sentence_and_no_answer() -> None:
    result = await ran("why", KEY, "--server", "127.0.0.1:1")
    assert (result.status, result.out) == (1, "")
    assert "127.0.0.1:1 is unavailable" in result.err


async def test_the_next_server_is_asked_when_one_is_away() -> None:
    async with a_world() as world:
        await world.register()
        result = await ran("why", KEY, "--server=127.0.0.1:1", "--server", target(world.service))
    assert result.status == 0


def an_answer() -> pb.ExplainPoolResponse:
    """What a newer or a hostile server may say."""
    holder = explained_pb.ShareHolder(identity=9, name=HOSTILE, relays=[HOSTILE], relay_count=9)
    return pb.ExplainPoolResponse(
        key=pool_pb2.PoolKey(cluster_id=HOSTILE, namespace="n", dgd_name="d"),
        verdict=explained_pb.Finding(code=99, detail=HOSTILE, advice=HOSTILE),
        registration=explained_pb.RegistrationSide(
            shares=[
                explained_pb.ShareState(
                    holder=holder,
                    model=HOSTILE,
                    granted_secs=math.inf,
                    remaining_secs=math.nan,
                    since_renewal_secs=math.inf,
                )
            ],
            ended=[explained_pb.EndedShare(holder=holder, ending=9, ago_secs=math.inf)],
        ),
        slices=explained_pb.SlicesSide(
            relays=explained_pb.ServiceState(
                name=HOSTILE, slice_count=2, slices=[explained_pb.SliceState(name=HOSTILE)]
            )
        ),
        near_misses=[explained_pb.NearMiss(kind=9, detail=HOSTILE)],
        near_misses_cut=True,
    )


def test_whatever_a_server_says_is_escaped_and_unknown_codes_are_numbers() -> None:
    shown = list(lines(an_answer(), "s"))
    assert "\u202e" not in "".join(shown)
    assert shown[0] == "x\\u202e[bold]\\\\y/n/d is not listed: UNKNOWN_99"
    assert "  and perhaps more" in shown
    assert "    and 1 more" in shown
    made = document(an_answer())
    assert made["verdict"]["code"] == "UNKNOWN_99"
    json.dumps(made, allow_nan=False)


@pytest.mark.parametrize(
    ("extensions", "told"),
    [(0, "9 s of 15 s left, content"), (1, "extended 1 time, "), (3, "extended 3 times, ")],
)
def test_how_often_a_lease_was_extended_is_told_in_words(extensions: int, told: str) -> None:
    share = explained_pb.ShareState(
        granted_secs=15, remaining_secs=9, since_renewal_secs=6, extensions=extensions
    )
    side = explained_pb.RegistrationSide(shares=[share])
    shown = lines(pb.ExplainPoolResponse(registration=side), "s")
    (line,) = [each for each in shown if "left" in each]
    assert told in line


async def test_an_answer_without_anything_is_shown() -> None:
    assert next(lines(pb.ExplainPoolResponse(), "s")) == "// is not listed: UNSPECIFIED"
    assert not document(pb.ExplainPoolResponse())["listed"]
