"""A caller that ends its own side of the connection and waits for the answers, or all of it."""

import asyncio
import contextlib
import itertools
import json
import random
import socket
import struct
from collections.abc import Awaitable, Callable

import pytest
import structlog

from global_discovery.serving.rest import representation
from global_discovery.serving.rest.connection import Limits
from support.gated_store import GatedStore
from support.rest import Reply, RestUnderTest, a_body, a_rest_face, parse_replies

PATIENT = Limits(headers_seconds=3600.0, body_stall_seconds=3600.0, linger_seconds=3600.0)
"""Nothing ends because of a timer while a test waits."""
BODY = json.dumps(a_body()).encode()
HEAD = (
    b"POST /pools HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n"
) % len(BODY)
CHUNKED = HEAD.partition(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n"
POST = HEAD + BODY
GET = b"GET /pools HTTP/1.1\r\nHost: a\r\n\r\n"


async def half_closed(
    rest: RestUnderTest,
    *pieces: bytes,
    turns: int = 0,
    before_end: Callable[[], Awaitable[object]] | None = None,
) -> list[Reply]:
    """Sends, with turns of the loop after each piece, and reads until the server ends its side."""
    reader, writer = await asyncio.open_connection("127.0.0.1", rest.face.port)
    try:
        async with asyncio.timeout(20):
            for piece in pieces:
                writer.write(piece)
                for _ in range(turns):
                    await asyncio.sleep(0)
            if before_end is not None:
                await before_end()
            writer.write_eof()
            replies = parse_replies(await reader.read())
            await rest.until(lambda: not rest.connections)
            return replies
    finally:
        writer.close()


@pytest.mark.parametrize("request_bytes", [POST, GET, GET.replace(b"1.1", b"1.0")])
async def test_a_caller_that_ends_its_side_gets_its_answer(request_bytes: bytes) -> None:
    async with a_rest_face(limits=PATIENT) as rest:
        [reply] = await half_closed(rest, request_bytes)
        assert reply.status == 200
        assert reply.headers.get("connection", "close") == "close"


async def test_a_side_that_ends_while_its_call_is_under_way_changes_nothing() -> None:
    store = GatedStore()
    async with a_rest_face(store=store, limits=PATIENT) as rest:

        async def once_the_end_was_seen() -> None:
            await rest.until(lambda: any(each._sends_no_more for each in rest.connections))
            store.open_gate.set()

        opening = asyncio.create_task(once_the_end_was_seen())
        [reply] = await half_closed(rest, POST, before_end=store.reached.wait)
        await opening
        assert (reply.status, reply.headers["connection"]) == (200, "close")


@pytest.mark.parametrize("count", [3, 50, 200])
async def test_every_pipelined_request_is_answered_and_only_the_last_closes(count: int) -> None:
    async with a_rest_face(limits=PATIENT) as rest:
        replies = await half_closed(rest, POST * count)
        assert [reply.status for reply in replies] == [200] * count
        closing = ["connection" in reply.headers for reply in replies]
        assert closing == [False] * (count - 1) + [True]


async def test_a_request_behind_a_declined_upgrade_is_answered_too() -> None:
    upgrade = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    async with a_rest_face(limits=PATIENT) as rest:
        assert [reply.status for reply in await half_closed(rest, upgrade + GET)] == [200, 200]
        assert [reply.status for reply in await half_closed(rest, upgrade + HEAD)] == [200]


async def test_a_list_that_is_compressed_in_a_thread_arrives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(representation, "MAX_INLINE_BYTES", 0)
    async with a_rest_face(limits=PATIENT) as rest:
        await rest.post(a_body(frontends=[f"http://h{n}.example" for n in range(1000)]))
        await rest.session.close()
        request = b"GET /pools HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"
        [reply] = await half_closed(rest, request)
        assert (reply.status, reply.headers["content-encoding"]) == (200, "gzip")
        assert len(reply.body) == int(reply.headers["content-length"])


@pytest.mark.parametrize("turns", range(12))
async def test_it_does_not_matter_when_the_end_is_seen(turns: int) -> None:
    async with a_rest_face(limits=PATIENT) as rest:
        replies = await half_closed(rest, GET, POST, turns=turns)
        assert [reply.status for reply in replies] == [200, 200]


BROKEN_OFF = {
    "nothing": b"",
    "half a line": b"GET /po",
    "half of the headers": b"GET /pools HTTP/1.1\r\nHost: a\r\n",
    "headers without their body": HEAD,
    "half a body": HEAD + BODY[:10],
    "half a chunk": CHUNKED + b"5\r\n{",
    "a promise of a body": HEAD[:-2] + b"Expect: 100-continue\r\n\r\n",
}


@pytest.mark.parametrize("what", BROKEN_OFF)
async def test_what_breaks_off_gets_no_answer_and_its_connection_ends_at_once(
    caplog: pytest.LogCaptureFixture, what: str
) -> None:
    async with a_rest_face(limits=PATIENT) as rest:
        replies = await half_closed(rest, BROKEN_OFF[what])
        assert [reply.status for reply in replies if reply.status != 100] == []
        assert await rest.listed() == []
    assert caplog.records == []


@pytest.mark.parametrize("what", BROKEN_OFF)
async def test_the_requests_before_one_that_breaks_off_are_answered(what: str) -> None:
    async with a_rest_face(limits=PATIENT) as rest:
        replies = await half_closed(rest, GET + POST + BROKEN_OFF[what])
        assert [reply.status for reply in replies[:2]] == [200, 200]
        assert len(replies) == 2


async def test_wherever_a_stream_of_requests_breaks_off_the_whole_ones_are_answered() -> None:
    rng = random.Random(23)
    chunked = CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    async with a_rest_face(limits=PATIENT) as rest:
        for _ in range(60):
            requests = rng.choices([GET, POST, chunked], k=rng.randint(1, 40))
            stream = b"".join(requests)
            stream = stream[: rng.randint(0, len(stream))]
            ends = itertools.accumulate(map(len, requests))
            whole = sum(end <= len(stream) for end in ends)
            cuts = sorted(rng.randint(0, len(stream)) for _ in range(2))
            pieces = [stream[i:j] for i, j in itertools.pairwise([0, *cuts, len(stream)])]
            replies = await half_closed(rest, *pieces, turns=rng.randint(0, 4))
            assert [reply.status for reply in replies] == [200] * whole


async def test_an_idle_connection_ends_at_once() -> None:
    async with a_rest_face(limits=PATIENT) as rest:
        reader, writer = await asyncio.open_connection("127.0.0.1", rest.face.port)
        async with asyncio.timeout(20):
            writer.write(GET)
            await reader.readuntil(b"\r\n\r\n")
            writer.write_eof()
            await reader.read()
            await rest.until(lambda: not rest.connections)
        writer.close()


async def test_what_is_no_http_is_told_so_without_waiting_for_more() -> None:
    async with a_rest_face(limits=PATIENT) as rest:
        [reply] = await half_closed(rest, b"BREW / HTTP/1.1\r\n\r\n")
        assert (reply.status, reply.json["code"]) == (400, "MALFORMED_REQUEST")


async def test_the_end_of_the_service_waits_for_such_a_call_too() -> None:
    store = GatedStore()
    async with a_rest_face(store=store) as rest:

        async def stop_once_the_end_was_seen() -> None:
            await rest.until(lambda: any(each._sends_no_more for each in rest.connections))
            stopping = asyncio.create_task(rest.face.stop(grace=3600.0))
            await rest.until(lambda: rest.face._main._gateway.draining)
            assert not stopping.done()
            store.open_gate.set()
            await stopping

        async with asyncio.timeout(20):
            stopping = asyncio.create_task(stop_once_the_end_was_seen())
            [reply] = await half_closed(rest, POST, before_end=store.reached.wait)
            await stopping
        assert (reply.status, reply.headers["connection"]) == (200, "close")
        assert rest.connections == []


async def test_the_end_of_the_service_cuts_such_a_call_when_its_grace_is_over() -> None:
    store = GatedStore()
    async with a_rest_face(store=store) as rest:

        async def stop_once_the_end_was_seen() -> None:
            await rest.until(lambda: any(each._sends_no_more for each in rest.connections))
            await rest.face.stop(grace=0.0)

        stopping = asyncio.create_task(stop_once_the_end_was_seen())
        with contextlib.suppress(ConnectionError):
            assert await half_closed(rest, POST, before_end=store.reached.wait) == []
        await stopping
        assert rest.connections == []


class HeldTurns:
    """The turn of every call, taken when the test says so."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.given = asyncio.Event()
        self.went_on = asyncio.Event()

    async def take(self, account: str) -> None:
        del account
        self.asked.set()
        await self.given.wait()
        self.went_on.set()


async def test_a_caller_that_breaks_off_before_its_turn_is_no_fault_of_ours(
    rest: RestUnderTest,
) -> None:
    """Its whole body had come; reading it then raised what no handler expects."""
    rest.core.turns = turns = HeldTurns()  # type: ignore[assignment] # no other is at hand
    _, writer = await asyncio.open_connection("127.0.0.1", rest.face.port)
    writer.write(POST)
    with structlog.testing.capture_logs() as log:
        async with asyncio.timeout(20):
            await turns.asked.wait()
            at_once = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            writer.transport.abort()
            await rest.until(lambda: not rest.connections)
            turns.given.set()
            await turns.went_on.wait()
            assert await rest.listed() == []
    assert not log
