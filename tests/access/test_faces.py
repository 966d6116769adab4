"""Who may do what, on both faces by the same rules: certificates and a policy."""

from pathlib import Path

import pytest
import trustme
from cryptography import x509

from global_discovery.domain.access import EVERY_KEY, NO_KEY, Rights
from global_discovery.domain.events import Event
from support.access import EAST, NOTHING, READER, WEST, certified, in_file
from support.access_world import FACES, AccessWorld, an_access_world

READ_ONLY = Rights(EVERY_KEY, NO_KEY)
OWN, OTHERS = "east/ns/pool-00000", "west/ns/pool-00000"
STRANGER = "dns:stranger.example"


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[EVERY_KEY, NO_KEY], ids=["read", "none"])
def anonymous(request: pytest.FixtureRequest) -> Rights:
    return Rights(request.param, NO_KEY)


async def test_without_flags_everybody_may_do_all(face: str) -> None:
    async with an_access_world() as world:
        caller = await world.caller(face)
        assert (await caller.register("east")).code == "OK"
        assert (await caller.listed()).value == [OWN]
        assert (await caller.withdraw("east", all_shares=True)).code == "OK"
        assert world.denials() == []


async def test_anonymous_read_closes_registration_to_callers_without_an_identity(
    face: str,
) -> None:
    async with an_access_world(anonymous=READ_ONLY) as world:
        caller = await world.caller(face)
        for refused in (
            await caller.register("east"),
            await caller.withdraw("east"),
            await caller.withdraw("east", lease_id="abc"),
            await caller.withdraw("east", all_shares=True),
        ):
            assert (refused.code, refused.reason) == ("UNAUTHENTICATED", "UNAUTHENTICATED")
        assert (await caller.listed()).value == []
        assert (await caller.routers()).code == "OK"


async def test_anonymous_none_closes_everything_but_the_probes(face: str) -> None:
    async with an_access_world(anonymous=NOTHING) as world:
        caller = await world.caller(face)
        for refused in (await caller.register("east"), await caller.listed()):
            assert refused.code == "UNAUTHENTICATED"
        assert (await caller.routers()).code == "UNAUTHENTICATED"
        for path in ("/livez", "/readyz", "/healthz", "/metrics", "/openapi.json"):
            assert (await caller.reply("GET", path)).status in {200, 503}


async def test_a_certificate_without_names_is_no_identity(
    tmp_path: Path, ca: trustme.CA, face: str
) -> None:
    nameless = certified(ca, common_name="relay.west.example")
    two = certified(
        ca, *(x509.UniformResourceIdentifier(f"spiffe://{name}/relay") for name in "ab")
    )
    async with an_access_world(tmp_path, ca, anonymous=READ_ONLY) as world:
        for pair in (nameless, two):
            caller = await world.caller(face, pair)
            assert (await caller.register("east")).code == "UNAUTHENTICATED"
            assert (await caller.listed()).code == "OK"
        known = await world.caller(face, STRANGER)
        assert (await known.register("east")).code == "OK"


async def test_an_owner_registers_its_cluster_and_no_other(world: AccessWorld, face: str) -> None:
    east = await world.caller(face, EAST)
    assert (await east.register("east")).code == "OK"
    refused = await east.register("west")
    assert (refused.code, refused.reason) == ("PERMISSION_DENIED", "PERMISSION_DENIED")
    assert len(world.service.core.registrations) == 1


async def test_an_owner_cannot_touch_the_pool_of_another_by_key_or_by_lease_id(
    world: AccessWorld, face: str
) -> None:
    east, west = await world.caller(face, EAST), await world.caller("grpc", WEST)
    lease_id = (await west.register("west")).value
    for refused in (
        await east.register("west"),
        await east.register("west", lease_id=lease_id),
        await east.withdraw("west"),
        await east.withdraw("west", lease_id=lease_id),
        await east.withdraw("west", all_shares=True),
    ):
        assert refused.code == "PERMISSION_DENIED"
        assert lease_id not in refused.text
    own = await east.register("east", lease_id=lease_id)
    assert own.code == "OK"
    assert own.value != lease_id, "the id is simply unknown for this key"
    not_there = await east.withdraw("east", lease_id=lease_id)
    assert not_there.code == "NOT_FOUND"
    assert (await west.register("west", lease_id=lease_id)).value == lease_id
    assert (await west.listed()).value == [OTHERS]


async def test_the_answer_for_a_pool_that_exists_and_one_that_does_not_is_the_same(
    world: AccessWorld, face: str
) -> None:
    east, west = await world.caller(face, EAST), await world.caller(face, WEST)
    await west.register("west", 0)
    for all_shares in (False, True):
        there = await east.withdraw("west", 0, all_shares=all_shares)
        absent = await east.withdraw("west", 1, all_shares=all_shares)
        assert (there.code, there.reason) == (absent.code, absent.reason)
        assert _without_date(there.text) == _without_date(absent.text)
    assert (await east.listed("west")).value == []


async def test_each_reader_sees_its_scope_only(world: AccessWorld, face: str) -> None:
    east, west = await world.caller(face, EAST), await world.caller(face, WEST)
    await east.register("east")
    await west.register("west")
    reader = await world.caller(face, READER)
    assert (await east.listed()).value == [OWN]
    assert (await west.listed()).value == [OTHERS]
    assert (await reader.listed()).value == [OWN, OTHERS]
    assert (await east.routers()).value == ["r"]


async def test_no_cache_may_keep_for_others_what_one_may_read(
    tmp_path: Path, ca: trustme.CA
) -> None:
    async with an_access_world(tmp_path, ca, policy=in_file(tmp_path), anonymous=NOTHING) as world:
        told = {
            name: (await (await world.caller("rest", name)).listed()).text
            for name in (EAST, READER)
        }
    assert "'cache-control': 'private, no-cache'" in told[EAST]
    assert "'cache-control': 'no-cache'" in told[READER]


async def test_a_reader_may_not_register_and_a_stranger_may_nothing(
    world: AccessWorld, face: str
) -> None:
    reader, stranger = await world.caller(face, READER), await world.caller(face, STRANGER)
    assert (await reader.register("east")).code == "PERMISSION_DENIED"
    for refused in (
        await stranger.register("east"),
        await stranger.listed(),
        await stranger.routers(),
    ):
        assert refused.code == "PERMISSION_DENIED"


async def test_everybody_may_at_least_what_callers_without_an_identity_may(
    tmp_path: Path, ca: trustme.CA, face: str
) -> None:
    async with an_access_world(
        tmp_path, ca, policy=in_file(tmp_path), anonymous=READ_ONLY
    ) as world:
        east, stranger = await world.caller(face, EAST), await world.caller(face, STRANGER)
        await east.register("east")
        assert (await stranger.listed()).value == [OWN]
        assert (await stranger.register("east")).code == "PERMISSION_DENIED"
        assert (await east.register("west")).code == "PERMISSION_DENIED"


async def test_denials_are_told_with_who_and_what_and_not_for_ever(
    world: AccessWorld, face: str
) -> None:
    east = await world.caller(face, EAST)
    for _ in range(20):
        await east.register("west")
    assert len(world.denials()) == 5
    told = world.denials()[0]
    assert told | {"method": "", "caller": ""} == {
        "identity": EAST,
        "caller": "",
        "face": face,
        "method": "",
        "what": OTHERS,
        "reason": "PERMISSION_DENIED",
    }
    world.clock.advance(60)
    await east.register("west")
    assert world.denials()[-1]["suppressed"] == 15
    value = world.service.registry.get_sample_value
    reason = {"reason": "PERMISSION_DENIED"}
    assert value("global_discovery_access_denied_total", reason) == 21
    assert value("global_discovery_access_denied_untold_total") == 15


async def test_who_registered_and_withdrew_is_told_with_the_identity(
    world: AccessWorld, face: str
) -> None:
    east = await world.caller(face, EAST)
    await east.register("east")
    await east.withdraw("east", all_shares=True)
    told = {event: fields.get("identity") for event, fields in world.events}
    for event in (Event.POOL_REGISTERED, Event.POOL_WITHDRAWN, Event.ALL_SHARES_WITHDRAWN):
        assert told[event] == EAST


async def test_a_refused_body_is_not_even_read(world: AccessWorld) -> None:
    stranger = await world.caller("rest", STRANGER)
    reply = await stranger.reply("POST", "/pools", data=b"no JSON at all")
    assert reply.status == 403
    nobody = await world.caller("rest", STRANGER)
    assert (await nobody.reply("HEAD", "/pools")).status == 403
    assert (await nobody.reply("OPTIONS", "/pools")).status == 204


def _without_date(text: str) -> str:
    return text.partition("'date': ")[0] + text.partition("GMT'")[2]
