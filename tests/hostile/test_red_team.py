"""What somebody tries who knows the contract: its edges, on both faces of a real service."""

import asyncio
import base64
from collections.abc import AsyncIterator
from ipaddress import ip_network
from typing import Any
from urllib.parse import quote

import grpc
import pytest
from google.protobuf import json_format

from global_discovery.serving.access.reviews import TokenCluster
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from support.access import AUDIENCE, HandReviewer, a_token
from support.access_world import FACES, AccessCaller, AccessWorld, Told, an_access_world
from support.fold import key_of
from support.grpc_calls import Watch
from support.hostile_http2 import call_fields, call_with, talk
from support.pools import a_registration

PROXIES = (
    ip_network("127.0.0.0/8"),
    ip_network("fd00::/8"),
    ip_network("10.9.0.0/16"),
    ip_network("::2"),
)


@pytest.fixture
async def world() -> AsyncIterator[AccessWorld]:
    async with an_access_world() as made:
        yield made


# -- who calls ----------------------------------------------------------------

FORWARDED = {
    "": "127.0.0.1",
    ",": "127.0.0.1",
    "10.1.1.1": "10.1.1.1",
    "6.6.6.6, 10.1.1.1": "10.1.1.1",
    "10.1.1.1, ": "127.0.0.1",
    "10.1.1.1,,127.0.0.1": "127.0.0.1",
    "10.1.1.1 , 127.0.0.2 ": "10.1.1.1",
    "10.1.1.1:443": "10.1.1.1",
    "[2001:db8::1]:443": "2001:db8::1",
    "[2001:db8::1]": "2001:db8::1",
    "2001:DB8:0::0001": "2001:db8::1",
    "::ffff:10.1.1.1": "10.1.1.1",
    "[::ffff:10.1.1.1]:1": "10.1.1.1",
    "::ffff:127.0.0.1": "127.0.0.1",
    "6.6.6.6, ::ffff:10.9.1.1, fd00::1": "6.6.6.6",
    "fe80::1%eth0": "127.0.0.1",
    "6.6.6.6, fe80::1%eth0": "127.0.0.1",
    "6.6.6.6, unknown": "127.0.0.1",
    "6.6.6.6, _hidden": "127.0.0.1",
    "6.6.6.6, 010.1.1.1": "127.0.0.1",
    "6.6.6.6, 10.1": "127.0.0.1",
    "6.6.6.6, 0x0a010101": "127.0.0.1",
    "6.6.6.6, 167837953": "127.0.0.1",
    "6.6.6.6, ::1::": "127.0.0.1",
    "6.6.6.6, 10.1.1.1/8": "127.0.0.1",
    '6.6.6.6, "10.1.1.1"': "127.0.0.1",
    ",".join(["6.6.6.6", *["::2"] * 1000]): "6.6.6.6",
    ",".join(["6.6.6.6"] * 900): "6.6.6.6",
    ",".join([""] * 1001): "127.0.0.1",
}
"""Who a caller on the loopback is that says this, where the loopback is a proxy."""


async def registered_by(world: AccessWorld, face: str, forwarded: str) -> str:
    caller = await world.caller(face, metadata=[("x-forwarded-for", forwarded)])
    told = await caller.register("c1")
    assert told.code == "OK", forwarded
    (pool,) = (await caller.stub.ListPools(pb.ListPoolsRequest())).pools
    assert (await caller.withdraw("c1")).code == "OK", forwarded
    (relay,) = pool.relays
    return relay


@pytest.mark.parametrize("face", FACES)
async def test_a_trusted_proxy_is_believed_as_far_as_it_is_one(face: str) -> None:
    async with an_access_world(trusted_proxies=PROXIES) as world:
        found = {each: await registered_by(world, face, each) for each in FORWARDED}
    assert found == {each: f"ip:{address}" for each, address in FORWARDED.items()}


@pytest.mark.parametrize("face", FACES)
async def test_nobody_else_names_another_caller(face: str) -> None:
    async with an_access_world(trusted_proxies=PROXIES[1:]) as world:
        found = {await registered_by(world, face, each) for each in FORWARDED}
    assert found == {"ip:127.0.0.1"}


# -- who it is ----------------------------------------------------------------

GOOD = a_token()
AUTHORIZATIONS: dict[bytes, bool] = {
    b"Bearer %s": True,
    b"bearer    %s  ": True,
    b"BEARER %s": True,
    b"Bearer%s": False,
    b"Bearer\t%s": False,
    b"Bearer: %s": False,
    b"Bearer %s,": False,
    b"Bearer %s, Bearer %s": False,
    b"Bearer %s %s": False,
    b'Bearer "%s"': False,
    b"Bearer token=%s": False,
    b"Token %s": False,
    b"%s": False,
    b"Basic " + base64.b64encode(b"a:b"): False,
    b"Bearer ": False,
    b"Bearer \xff%s": False,
    b"Bearer %s\xc2\xa0": False,
    b"Bearer \xe2\x80\xae%s": False,
    b"Bearer %s%%00": False,
    b"Bearer " + b"x" * 7000: False,
    b"Bearer " + b"." * 7000: False,
    b"Bearer " + b"e30." * 1500: False,
}
"""Whether a value shows a good token, which stands for `%s`."""


def shown(value: bytes) -> bytes:
    return value.replace(b"%s", GOOD.encode())


@pytest.fixture
async def token_world() -> AsyncIterator[tuple[AccessWorld, HandReviewer]]:
    reviewer = HandReviewer()
    reviewer.accept(GOOD)
    async with an_access_world(
        token_audience=AUDIENCE, token_clusters=[TokenCluster("c", "", reviewer)]
    ) as made:
        yield made, reviewer


async def test_only_a_good_token_in_its_one_form_is_shown_to_an_api_server(
    token_world: tuple[AccessWorld, HandReviewer],
) -> None:
    world, reviewer = token_world
    for value, good in AUTHORIZATIONS.items():
        said = [
            await over_http(world, shown(value)),
            await asyncio.to_thread(over_grpc, world.service.grpc.port, shown(value)),
        ]
        assert [OK[0] in said[0], OK[1] in said[1]] == [good, good], value
        for answer in said:
            assert GOOD.split(".")[1].encode() not in answer
    assert set(reviewer.asked) == {GOOD}
    assert GOOD.split(".")[1] not in repr(world.events)


OK = (b"HTTP/1.1 200 OK", b"grpc-status\x010")


async def over_http(world: AccessWorld, value: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", world.service.rest.port)
    head = b"GET /pools HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: "
    try:
        async with asyncio.timeout(60):
            writer.write(head + value + b"\r\n\r\n")
            return await reader.read()
    finally:
        writer.close()


def over_grpc(port: int, value: bytes) -> bytes:
    path = b"/global_discovery.v1.PoolDiscoveryService/ListPools"
    return talk(port, [call_with(call_fields(path, (b"authorization", value)))])


# -- what is registered ---------------------------------------------------------

LONGEST = "\u00e9" * 126 + "x"
"""253 bytes."""


def largest() -> list[pool_pb2.PoolRegistration]:
    """Every field as long as it may be, and every list."""
    key = pool_pb2.PoolKey(cluster_id="c" * 253, namespace="n" * 253, dgd_name="~" * 253)
    location = pool_pb2.Location(region=LONGEST, availability_zone=LONGEST, datacenter=LONGEST)
    long = pool_pb2.PoolRegistration(
        key=key,
        model="\U0001f680" * 256,
        location=location,
        capabilities=[f"{number:02}" + LONGEST[1:] for number in range(20)],
        capacity=[pool_pb2.Capacity(gpu_sku=LONGEST, gpu_count=1_000_000)],
        frontends=["https://h:65535/" + f"{number:02}" + "p" * 494 for number in range(20)],
        relays=["ip:2001:db8:1111:2222:3333:4444:5555:6666"],
    )
    many = pool_pb2.PoolRegistration(
        key=pool_pb2.PoolKey(cluster_id="c", namespace="n", dgd_name="many"),
        model="m",
        location=pool_pb2.Location(region="r"),
        capabilities=[f"{number:03}" for number in range(256)],
        capacity=[pool_pb2.Capacity(gpu_sku=f"{n:03}", gpu_count=n + 1) for n in range(256)],
        frontends=[f"http://h:{number + 1000}" for number in range(1024)],
        relays=sorted(f"ip:10.0.0.{number}" for number in range(256)),
    )
    return [long, many]


@pytest.mark.parametrize("face", FACES)
async def test_the_largest_registrations_are_listed_as_they_were_given(
    world: AccessWorld, face: str
) -> None:
    caller = await world.caller(face)
    given = largest()
    for registration in given:
        assert (await register(caller, registration, relay_id="~" * 128)).code == "OK"
    await all_sides_list(world, caller, given)


TEXTS = [
    "evil\u202etxt.exe\u2066",
    "e\u0301",
    "\u00e9",
    "in\u200bvis\u2060ible\ufeff",
    "\U0010fffd",
    "\u0378",
    "\ufffe",
    "\U0001f468\u200d\U0001f469",
    "\u0600" * 120,
    "\ufdfa" * 80,
    "a" + "\u0316" * 126,
    "a\u2028b",
    "%00%0a",
    "\\u0000",
]
REFUSED = ["a\0b", "a\x1bb", "a\x7fb", "a\x85b", "\u00a0a", "a\u3000", "a\nb"]


@pytest.mark.parametrize("face", FACES)
async def test_texts_of_any_script_are_listed_byte_by_byte_or_refused(
    world: AccessWorld, face: str
) -> None:
    caller = await world.caller(face)
    given = []
    for number, text in enumerate(TEXTS + REFUSED):
        registration = a_registration(number, model=text, region=text)
        registration.capabilities.append(text)
        told = await register(caller, registration)
        assert told.code == ("OK" if text in TEXTS else "INVALID_ARGUMENT"), repr(text)
        if told.code == "OK":
            given.append(registration)
    await all_sides_list(world, caller, given)


async def register(
    caller: AccessCaller, registration: pool_pb2.PoolRegistration, relay_id: str = ""
) -> Told:
    if caller.face == "grpc":
        request = pb.RegisterPoolRequest(registration=registration, relay_id=relay_id)
        return await caller._grpc(caller.stub.RegisterPool, request, lambda a: a.lease_id)
    body: dict[str, Any] = json_format.MessageToDict(registration, preserving_proto_field_name=True)
    body |= body.pop("key")
    body |= {"relay_id": relay_id} if relay_id else {}
    return await caller._rest("POST", "/pools", lambda told: told["lease_id"], json=body)


async def all_sides_list(
    world: AccessWorld, caller: AccessCaller, given: list[pool_pb2.PoolRegistration]
) -> None:
    """ListPools, a watch, GET /pools and the status page show these pools, and no others."""
    listed = (await caller.stub.ListPools(pb.ListPoolsRequest())).pools
    wanted = sorted(given, key=lambda pool: key_of(pool.key))
    assert [as_given(pool, wanted[at]) for at, pool in enumerate(listed)] == wanted
    watch = Watch(caller.stub)
    client = await watch.begun()
    assert [client.fold[key_of(pool.key)] for pool in listed] == listed
    watch.call.cancel()
    rest = await world.caller("rest")
    told = (await rest.reply("GET", "/pools")).json["pools"]
    assert [pool["model"] for pool in told] == [pool.model for pool in wanted]
    assert [pool["frontends"] for pool in told] == [list(pool.frontends) for pool in wanted]
    page = await rest.reply("GET", "/")
    assert page.status == 200
    page.body.decode()
    assert (await rest.reply("GET", f"/pools?model={quote(wanted[0].model)}")).status == 200


def as_given(pool: pool_pb2.Pool, given: pool_pb2.PoolRegistration) -> pool_pb2.PoolRegistration:
    """A listed pool as it was registered; the caller's address stands for no relays."""
    pool = pool_pb2.Pool.FromString(pool.SerializeToString())
    pool.ClearField("registered_time")
    pool.ClearField("changed_time")
    if not given.relays:
        pool.ClearField("relays")
    return pool_pb2.PoolRegistration.FromString(pool.SerializeToString())


# -- what is asked for ----------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "idle", "fields"),
    [
        (256, 1, []),
        (256, 25, []),
        (257, 1, ["filter.models", "filter.regions", "filter.cluster_ids", "filter.namespaces"]),
        (1, 26, ["idle_interval_secs"]),
        (1, 2**31 - 1, ["idle_interval_secs"]),
        (257, 26, ["filter.models", "idle_interval_secs"]),
    ],
)
async def test_a_watch_with_everything_at_its_limit_is_served_and_beyond_it_refused(
    world: AccessWorld, values: int, idle: int, fields: list[str]
) -> None:
    caller = await world.caller("grpc")
    many = [f"{number:03}" + "x" * 250 for number in range(values)]
    wanted = pb.PoolFilter(models=many, regions=many, cluster_ids=many, namespaces=many)
    request = pb.WatchPoolsRequest(filter=wanted, idle_interval_secs=idle)
    watch = Watch(caller.stub, request)
    if not fields:
        assert (await watch.begun()).fold == {}
        watch.call.cancel()
        return
    ended = await watch.end()
    assert ended is not None
    assert ended.code is grpc.StatusCode.INVALID_ARGUMENT
    assert set(fields) <= set(ended.fields)
