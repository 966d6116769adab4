"""The ports: how they open, and how they close with callers on them."""

import asyncio
import contextlib
import json
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from global_discovery.serving.rest.connection import Limits
from support.gated_store import GatedStore
from support.rest import Reply, RestUnderTest, a_body, a_rest_face, parse_replies

BODY = json.dumps(a_body()).encode()
POST = (
    b"POST /pools HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n"
) % len(BODY)
GET = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"


@contextlib.asynccontextmanager
async def connected(
    rest: RestUnderTest, port: int | None = None, *, host: str = "127.0.0.1"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(host, port or rest.face.port)
    try:
        async with asyncio.timeout(20):
            yield reader, writer
    finally:
        writer.close()


async def one_reply(reader: asyncio.StreamReader) -> Reply:
    head = await reader.readuntil(b"\r\n\r\n")
    [reply] = parse_replies(head)
    body = await reader.readexactly(int(reply.headers["content-length"]))
    return Reply(reply.status, reply.headers, body)


async def test_both_families_are_heard_on_the_unspecified_ipv6_address() -> None:
    async with a_rest_face(listen="[::]:0") as rest:
        for host in ("127.0.0.1", "::1"):
            async with connected(rest, host=host) as (reader, writer):
                writer.write(GET)
                assert (await one_reply(reader)).status == 200


async def test_a_used_port_is_refused_with_a_sentence(rest: RestUnderTest) -> None:
    used = f"127.0.0.1:{rest.face.port}"
    sentence = f"cannot listen on {used} for HTTP: address already in use"
    with pytest.raises(OSError, match=re.escape(sentence)):
        await a_rest_face(listen=used).__aenter__()


@pytest.mark.parametrize("listen", ["192.0.2.1:80", "[2001:db8::1]:80"])
async def test_an_address_that_is_not_ours_is_refused_with_a_sentence(listen: str) -> None:
    with pytest.raises(OSError, match=re.escape(f"cannot listen on {listen} for HTTP: ")):
        await a_rest_face(listen=listen).__aenter__()


async def test_a_used_health_port_leaves_no_port_open(rest: RestUnderTest) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = f"127.0.0.1:{probe.getsockname()[1]}"
    used = f"127.0.0.1:{rest.face.port}"
    with pytest.raises(OSError, match="address already in use"):
        await a_rest_face(listen=free, health_listen=used).__aenter__()
    async with a_rest_face(listen=free):
        pass


async def test_a_second_process_cannot_share_the_port(rest: RestUnderTest) -> None:
    program = (
        "import socket, sys; s = socket.socket();"
        "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1);"
        f"s.bind(('127.0.0.1', {rest.face.port})); s.listen()"
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], capture_output=True, check=False
    )
    assert b"Address already in use" in done.stderr


async def test_ipv6_addresses_are_written_in_brackets() -> None:
    async with a_rest_face(listen="[::1]:0") as rest, connected(rest, host="::1") as streams:
        reader, writer = streams
        writer.write(POST + BODY)
        assert (await one_reply(reader)).status == 200
        writer.write(GET.replace(b"/livez", b"/pools"))
        assert (await one_reply(reader)).json["pools"][0]["relays"] == ["ip:::1"]


# -- the end ------------------------------------------------------------------


async def test_idle_connections_end_at_once_however_much_grace_there_is() -> None:
    async with (
        a_rest_face(health_listen="127.0.0.1:0") as rest,
        contextlib.AsyncExitStack() as stack,
    ):
        readers = []
        for port in (rest.face.port, rest.face.health_port):
            for first in (b"", GET):
                reader, writer = await stack.enter_async_context(connected(rest, port))
                writer.write(first)
                if first:
                    await one_reply(reader)
                readers.append(reader)
        await rest.until(lambda: len(rest.connections) == 2)
        async with asyncio.timeout(20):
            await rest.face.stop(grace=3600.0)
            assert [await reader.read() for reader in readers] == [b""] * 4


async def test_a_call_under_way_is_answered_and_its_connection_closed() -> None:
    store = GatedStore()
    async with a_rest_face(store=store) as rest:
        posting = asyncio.create_task(rest.post(a_body()))
        await store.reached.wait()
        stopping = asyncio.create_task(rest.face.stop(grace=3600.0))
        await rest.until(lambda: rest.face._main._gateway.draining)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", rest.face.port)
        assert not stopping.done()
        store.open_gate.set()
        reply = await posting
        assert reply.status == 200
        assert reply.headers["connection"] == "close"
        async with asyncio.timeout(20):
            await stopping


async def test_a_call_that_does_not_end_is_cut_when_the_grace_is_over() -> None:
    store = GatedStore()
    async with a_rest_face(store=store) as rest:
        async with connected(rest) as (reader, writer):
            writer.write(POST + BODY)
            await store.reached.wait()
            await rest.face.stop(grace=0.05)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        assert rest.connections == []


async def test_a_body_that_is_still_being_sent_gets_its_answer() -> None:
    async with a_rest_face() as rest, connected(rest) as (reader, writer):
        writer.write(POST + BODY[:10])
        await rest.until(lambda: any(each._current_request for each in rest.connections))
        stopping = asyncio.create_task(rest.face.stop(grace=20.0))
        await rest.until(lambda: rest.face._main._gateway.draining)
        writer.write(BODY[10:])
        reply = await one_reply(reader)
        assert (reply.status, reply.headers["connection"]) == (200, "close")
        await stopping


async def test_a_refused_caller_that_lingers_does_not_hold_up_the_end() -> None:
    limits = Limits(linger_seconds=3600.0)
    async with a_rest_face(limits=limits) as rest, connected(rest) as (reader, writer):
        writer.write(b"BREW / HTTP/1.1\r\n\r\n")
        await one_reply(reader)
        async with asyncio.timeout(20):
            await rest.face.stop(grace=3600.0)


async def test_a_large_answer_reaches_a_caller_that_reads_slowly_before_the_end() -> None:
    async with a_rest_face() as rest:
        for number in range(200):
            frontends = [f"http://h{n}-{'x' * 50}.example:1234" for n in range(300)]
            await rest.post(a_body(number, frontends=frontends))
        async with connected(rest) as (reader, writer):
            writer.write(b"GET /pools HTTP/1.1\r\nHost: a\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            stopping = asyncio.create_task(rest.face.stop(grace=20.0))
            await rest.until(lambda: rest.face._main._gateway.draining)
            [reply] = parse_replies(head + await reader.read())
            assert len(reply.json["pools"]) == 200
            await stopping


async def test_stopping_twice_is_no_error() -> None:
    async with a_rest_face() as rest:
        await rest.face.stop(0.0)
        await rest.face.stop(0.0)
