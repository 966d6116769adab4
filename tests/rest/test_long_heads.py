"""The head of a request is bounded as a whole, whatever is under way on its connection."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from global_discovery.serving.rest.connection import HEAD_LINES
from support.event_stream import following
from support.page_world import a_call
from support.rest import PATIENCE_SECONDS, RestUnderTest, a_body, a_rest_face, parse_replies

LINE = 8 * 1024
HEAD = b"GET /livez HTTP/1.1\r\nHost: a\r\n"


def fields(size: int) -> bytes:
    """So many bytes of short header lines."""
    line = b"x: " + b"a" * 995 + b"\r\n"
    return line * (size // len(line) + 1)


@pytest.fixture
async def rest() -> AsyncIterator[RestUnderTest]:
    async with a_rest_face() as under_test:
        yield under_test


async def test_a_head_without_end_is_refused_before_it_is_kept(rest: RestUnderTest) -> None:
    (reply,) = await rest.send(HEAD + fields(HEAD_LINES * LINE))
    assert (reply.status, reply.json["code"]) == (400, "MALFORMED_REQUEST")


async def test_a_head_in_many_pieces_is_refused_too(rest: RestUnderTest) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", rest.face.port)
    async with asyncio.timeout(PATIENCE_SECONDS):
        writer.write(HEAD)  # and nothing that ends it
        for _ in range(HEAD_LINES * LINE // 1_000 + 1):
            writer.write(fields(1))
            await writer.drain()
        (reply,) = parse_replies(await reader.read())
    writer.close()
    assert reply.status == 400


@pytest.mark.parametrize("lines", [6, 9, 12])
async def test_so_is_one_of_long_lines_that_comes_at_once(rest: RestUnderTest, lines: int) -> None:
    long = b"x: " + b"a" * 7_900 + b"\r\n"
    (reply,) = await rest.send(HEAD + long * lines + b"\r\n")
    assert (reply.status, reply.json["code"]) == (400, "MALFORMED_REQUEST")


async def test_a_head_as_long_as_may_be_is_read(rest: RestUnderTest) -> None:
    last = b"Connection: close\r\n\r\n"
    (reply,) = await rest.send(HEAD + fields((HEAD_LINES - 1) * LINE) + last)
    assert reply.status == 200


async def test_bodies_and_the_heads_behind_them_are_no_part_of_a_head(rest: RestUnderTest) -> None:
    body = json.dumps(a_body(0, capabilities=[f"{n:0200}" for n in range(250)])).encode()
    assert len(body) > HEAD_LINES * LINE
    post = (
        b"POST /pools HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body)
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", rest.face.port)
    async with asyncio.timeout(PATIENCE_SECONDS):
        for part in (post, body[:100], body[100:40_000], body[40_000:] + post + body):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(HEAD + b"Connection: close\r\n\r\n")
        replies = parse_replies(await reader.read())
    assert [reply.status for reply in replies] == [200, 200, 200]
    writer.close()


async def test_behind_a_stream_that_is_open_no_endless_head_is_kept(rest: RestUnderTest) -> None:
    async with following(rest) as stream:
        await stream.next()
        stream.writer.write(HEAD + fields(HEAD_LINES * LINE))
        server: Any = rest.face._main._connections
        (connection,) = server._all
        await rest.until(lambda: connection._close)
        await rest.core.registrar.register(a_call())
        rest.face.events.look()
        while (await stream.next()).name != "pools":
            pass
