"""A caller is not charged for the time in which the service itself stood still."""

import asyncio
import contextlib
import json
import selectors
import socket
from typing import Any

import pytest

from global_discovery.serving.rest.connection import Limits
from global_discovery.serving.rest.unread import UnreadAnswer
from support.rest import RestUnderTest, a_body, a_rest_face, parse_replies

BODY = json.dumps(a_body()).encode()
HEAD = (
    b"POST /pools HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n"
) % len(BODY)


def stand_still(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """What a loop finds after SIGSTOP and SIGCONT.

    The clock has jumped, and the select that was interrupted tells of nothing
    that came in, as its time was up when it could go on.
    """
    loop: Any = asyncio.get_running_loop()
    time, select = loop.time, loop._selector.select
    monkeypatch.setattr(loop, "time", lambda: time() + seconds)

    def interrupted(timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        del timeout
        monkeypatch.setattr(loop._selector, "select", select)
        return []

    monkeypatch.setattr(loop._selector, "select", interrupted)


async def connected(rest: RestUnderTest) -> socket.socket:
    """A socket on which sending takes no turn of the loop."""
    sock = socket.socket()
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", rest.face.port))
    await rest.until(lambda: rest.connections)
    return sock


async def received(sock: socket.socket) -> bytes:
    data = b""
    async with asyncio.timeout(20):
        while piece := await asyncio.get_running_loop().sock_recv(sock, 65536):
            data += piece
    return data


@pytest.mark.parametrize("seconds", [12.0, 100.0])
@pytest.mark.parametrize("sent", [len(HEAD), len(HEAD) + 10], ids=["headers", "half a body"])
async def test_a_body_that_came_while_we_stood_still_is_taken(
    monkeypatch: pytest.MonkeyPatch, seconds: float, sent: int
) -> None:
    async with a_rest_face() as rest:
        with await connected(rest) as sock:
            sock.send((HEAD + BODY)[:sent])
            await rest.until(lambda: rest.connections[0]._current_request)
            stand_still(monkeypatch, seconds)
            sock.send((HEAD + BODY)[sent:])
            [reply] = parse_replies(await received(sock))
            assert reply.status == 200


async def test_a_large_body_of_which_much_is_still_to_come_has_its_time_after_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = BODY.ljust(900_000)
    head = HEAD.replace(str(len(BODY)).encode(), str(len(body)).encode())
    async with a_rest_face() as rest:
        with await connected(rest) as sock:
            sock.send(head)
            await rest.until(lambda: rest.connections[0]._current_request)
            stand_still(monkeypatch, 100.0)
            sock.send(body[:1000])
            for _ in range(20):
                await asyncio.sleep(0)
            await asyncio.get_running_loop().sock_sendall(sock, body[1000:])
            [reply] = parse_replies(await received(sock))
            assert reply.status == 200


async def test_the_end_of_a_chunked_body_that_came_while_we_stood_still_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head = HEAD.partition(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n"
    async with a_rest_face() as rest:
        with await connected(rest) as sock:
            sock.send(head + b"%x\r\n%b\r\n" % (len(BODY), BODY))
            await rest.until(lambda: rest.connections[0]._current_request)
            for _ in range(20):
                await asyncio.sleep(0)
            stand_still(monkeypatch, 12.0)
            sock.send(b"0\r\n\r\n")
            [reply] = parse_replies(await received(sock))
            assert reply.status == 200


async def test_headers_that_came_while_we_stood_still_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    async with a_rest_face() as rest:
        with await connected(rest) as sock:
            sock.send(request[:10])
            await rest.until(lambda: rest.connections[0]._headers_timer)
            stand_still(monkeypatch, 31.0)
            sock.send(request[10:])
            [reply] = parse_replies(await received(sock))
            assert reply.status == 200


async def test_a_request_that_came_while_we_stood_still_finds_its_idle_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_rest_face() as rest:
        with await connected(rest) as sock:
            await rest.until(lambda: rest.connections[0]._waiter)
            stand_still(monkeypatch, 76.0)
            sock.send(HEAD + BODY)
            [reply] = parse_replies(await received(sock))
            assert reply.status == 200


async def test_a_caller_of_whom_nothing_came_meanwhile_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_rest_face(limits=Limits(linger_seconds=0.1)) as rest:
        with await connected(rest) as sock:
            sock.send(HEAD + BODY[:10])
            await rest.until(lambda: rest.connections[0]._current_request)
            stand_still(monkeypatch, 12.0)
            [reply] = parse_replies(await received(sock))
            assert reply.status == 408


async def test_a_caller_that_read_while_we_stood_still_is_not_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_rest_face() as rest:
        for number in range(200):
            frontends = [f"http://h{n}-{'x' * 50}.example:1234" for n in range(800)]
            await rest.post(a_body(number, frontends=frontends))
        await rest.session.close()
        await rest.until(lambda: not rest.connections)
        with await connected(rest) as sock:
            sock.send(b"GET /pools HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            await rest.until(lambda: _unread(rest).is_watched)
            stand_still(monkeypatch, 31.0)
            data = b""
            with contextlib.suppress(BlockingIOError):
                while piece := sock.recv(65536):
                    data += piece
            [reply] = parse_replies(data + await received(sock))
            assert len(reply.json["pools"]) == 200


def _unread(rest: RestUnderTest) -> UnreadAnswer:
    unread = rest.connections[0]._unread
    assert unread is not None
    return unread
