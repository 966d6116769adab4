"""Service-account tokens on both faces: who is let in, and what becomes of hostile ones."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from global_discovery.domain.access import EVERY_KEY, NO_KEY, Rights
from global_discovery.serving.access.reviews import TokenCluster
from support.access import AUDIENCE, EAST, ISSUER, NOTHING, HandReviewer, a_token, in_file
from support.access_world import FACES, AccessCaller, AccessWorld, an_access_world

READ_ONLY = Rights(EVERY_KEY, NO_KEY)


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def reviewer() -> HandReviewer:
    return HandReviewer()


@pytest.fixture
async def world(tmp_path: Path, reviewer: HandReviewer) -> AsyncIterator[AccessWorld]:
    async with an_access_world(
        policy=in_file(tmp_path),
        anonymous=READ_ONLY,
        token_audience=AUDIENCE,
        token_clusters=[TokenCluster("east", ISSUER, reviewer)],
    ) as made:
        yield made


async def showing(world: AccessWorld, face: str, *tokens: str) -> AccessCaller:
    metadata = [("authorization", f"Bearer {token}") for token in tokens]
    return await world.caller(face, metadata=metadata)


async def test_a_good_token_is_an_identity(
    world: AccessWorld, face: str, reviewer: HandReviewer
) -> None:
    caller = await showing(world, face, reviewer.accept(a_token()))
    assert (await caller.register("east")).code == "OK"
    assert (await caller.register("west")).code == "PERMISSION_DENIED"
    assert world.denials()[0]["identity"] == "sa:east/dynamo/relay"
    assert len(reviewer.asked) == 1


async def test_a_bad_token_is_refused_also_where_none_is_needed(
    world: AccessWorld, face: str
) -> None:
    caller = await showing(world, face, a_token())
    for answer in (await caller.register("east"), await caller.listed()):
        assert (answer.code, answer.reason) == ("UNAUTHENTICATED", "UNAUTHENTICATED")
    assert world.denials()[0]["reason"] == "TOKEN_REFUSED"
    assert (await (await world.caller(face)).listed()).code == "OK"


async def test_a_challenge_says_that_the_token_is_bad_only_when_there_was_one(
    world: AccessWorld,
) -> None:
    anonymous = await (await world.caller("rest")).reply("POST", "/pools")
    bad = await (await showing(world, "rest", a_token())).reply("GET", "/pools")
    assert anonymous.headers["www-authenticate"] == 'Bearer realm="global-discovery"'
    assert bad.headers["www-authenticate"].endswith('error="invalid_token"')
    assert (anonymous.status, bad.status) == (401, 401)


async def test_while_the_api_server_is_away_new_tokens_are_told_to_come_back(
    world: AccessWorld, face: str, reviewer: HandReviewer
) -> None:
    known = await showing(world, face, reviewer.accept(a_token()))
    await known.register("east")
    reviewer.away = True
    fresh = await showing(world, face, reviewer.accept(a_token("fresh")))
    answer = await fresh.register("east")
    assert (answer.code, answer.reason) == ("UNAVAILABLE", "AUTHENTICATION_UNAVAILABLE")
    assert (await known.register("east")).code == "OK"
    if face == "rest":
        assert "retry-after" in (await fresh.reply("GET", "/pools")).headers


async def test_hostile_headers_reach_no_api_server_and_are_refused(
    world: AccessWorld, face: str, reviewer: HandReviewer
) -> None:
    good = reviewer.accept(a_token())
    hostile: list[list[str]] = [
        [good, good],
        ["a" * 6000],
        [".".join(["e30"] * 3)],
        [good + "="],
        ["%s%n" * 10],
        [good.replace(".", "..")],
    ]
    for tokens in hostile:
        # An HTTP client of Python's cannot send one name twice from a dictionary.
        if face == "rest" and len(tokens) > 1:
            continue
        caller = await showing(world, face, *tokens)
        assert (await caller.register("east")).code == "UNAUTHENTICATED"
    assert reviewer.asked == []


async def test_two_authorization_headers_are_refused_over_http(
    world: AccessWorld, reviewer: HandReviewer
) -> None:
    line = f"Authorization: Bearer {reviewer.accept(a_token())}\r\n"
    request = f"GET /pools HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{line}{line}\r\n"
    assert await _status_of(world, request.encode()) == 401
    assert world.denials()[-1]["reason"] == "TOKEN_SEVERAL_HEADERS"


async def test_bytes_that_are_no_ascii_are_refused_over_http(world: AccessWorld) -> None:
    for value in ("Bearer tökén".encode(), b"Bearer \xff\xfe", b"Bearer a.b\xc3.c"):
        request = (
            b"GET /pools HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: %b\r\n\r\n"
        )
        assert await _status_of(world, request % value) in {400, 401}


async def _status_of(world: AccessWorld, request: bytes) -> int:
    """What these bytes are answered with."""
    reader, writer = await asyncio.open_connection("127.0.0.1", world.service.rest.port)
    try:
        writer.write(request)
        async with asyncio.timeout(30):
            return int((await reader.read()).split()[1])
    finally:
        writer.close()


async def test_no_part_of_a_token_is_said_anywhere(
    world: AccessWorld, face: str, reviewer: HandReviewer
) -> None:
    good, bad = reviewer.accept(a_token()), a_token("somebody", signature="QmFkU2lnbmF0dXJl")
    texts = [
        (await (await showing(world, face, token)).register(cluster)).text
        for token in (good, bad)
        for cluster in ("east", "west")
    ]
    metrics = await (await world.caller("rest")).reply("GET", "/metrics")
    guard = world.service.guard
    said = [*texts, metrics.body.decode(), repr(world.events), repr(guard.tokens), repr(guard)]
    for token in (good, bad):
        for part in token.split(".")[1:]:
            assert all(part not in text for text in said)


async def test_a_token_goes_before_the_certificate_of_its_connection(
    tmp_path: Path, ca: trustme.CA, face: str, reviewer: HandReviewer
) -> None:
    async with an_access_world(
        tmp_path,
        ca,
        policy=in_file(tmp_path),
        anonymous=NOTHING,
        token_audience=AUDIENCE,
        token_clusters=[TokenCluster("west", "", reviewer)],
    ) as world:
        token = reviewer.accept(a_token())
        metadata = [("authorization", f"Bearer {token}")]
        both = await world.caller(face, EAST, metadata=metadata)
        assert (await both.register("east")).code == "PERMISSION_DENIED"
        assert (await both.register("west")).code == "OK"
        bad = await world.caller(face, EAST, metadata=[("authorization", "Bearer x")])
        assert (await bad.register("east")).code == "UNAUTHENTICATED"


async def test_without_an_audience_the_header_is_ignored(face: str) -> None:
    async with an_access_world() as world:
        caller = await world.caller(face, metadata=[("authorization", "Basic eDp5")])
        assert (await caller.register("east")).code == "OK"
