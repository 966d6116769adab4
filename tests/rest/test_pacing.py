"""Requests that come in crumbs are read now and then, and still as a whole."""

import asyncio
import json

import pytest

from global_discovery.serving.rest import pacing
from global_discovery.serving.rest.pacing import (
    CRUMB_BYTES,
    FIRST_SECONDS,
    FREE_PIECES,
    LONGEST_SECONDS,
    Pacing,
)
from support.clock import FakeClock
from support.hand_loop import HandLoop
from support.rest import RestUnderTest, a_body, a_rest_face, parse_replies

BODY = json.dumps(a_body()).encode()
HEAD = (
    b"POST /pools HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n"
) % len(BODY)


class Reads:
    """A transport that is read from, or not."""

    def __init__(self) -> None:
        self.reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Paced:
    """The pacing of one connection, its transport, and the time it goes by."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.loop = HandLoop(self.clock)
        self.reads = Reads()
        self.has_room = True
        self.pacing = Pacing(self.reads, self.loop, lambda: self.has_room)  # type: ignore[arg-type]

    def crumbs(self, count: int) -> None:
        """So many come, each once it is read."""
        for _ in range(count):
            if not self.reads.reading:
                self.loop.advance(LONGEST_SECONDS)
            assert self.reads.reading
            self.pacing.got(1)

    def unread_for(self) -> float:
        """How long it is not read now, in seconds."""
        began = self.clock.monotonic()
        while not self.reads.reading:
            self.loop.advance(0.001)
        return self.clock.monotonic() - began


@pytest.fixture
def paced() -> Paced:
    return Paced()


def test_the_first_pieces_are_read_as_they_come(paced: Paced) -> None:
    for _ in range(FREE_PIECES):
        paced.pacing.got(1)
        assert paced.reads.reading
    paced.pacing.got(1)
    assert not paced.reads.reading


def test_it_is_left_unread_for_ever_longer_up_to_the_longest(
    paced: Paced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing.random, "uniform", lambda _, longest: longest)
    paced.crumbs(FREE_PIECES)
    waits = []
    for _ in range(12):
        paced.pacing.got(1)
        waits.append(paced.unread_for())
    assert waits == pytest.approx(
        [min(FIRST_SECONDS * 2**n, LONGEST_SECONDS) for n in range(1, 13)], abs=0.002
    )


def test_thousands_at_once_are_read_on_at_different_moments() -> None:
    clock = FakeClock()
    loop = HandLoop(clock)
    all_reads = [Reads() for _ in range(2_000)]
    for reads in all_reads:
        one = Pacing(reads, loop)  # type: ignore[arg-type]
        for _ in range(FREE_PIECES + 20):
            reads.reading or loop.advance(LONGEST_SECONDS)
            one.got(1)
    unread = sum(not reads.reading for reads in all_reads)
    most = 0
    while unread:
        loop.advance(LONGEST_SECONDS / 100)
        left = sum(not reads.reading for reads in all_reads)
        most, unread = max(most, unread - left), left
    assert most < 200


def test_large_pieces_and_new_requests_are_no_crumbs(paced: Paced) -> None:
    for _ in range(10 * FREE_PIECES):
        paced.pacing.got(CRUMB_BYTES)
        paced.pacing.got(1)
        paced.pacing.finished()
    assert paced.reads.reading


def test_it_does_not_read_on_when_there_is_no_room(paced: Paced) -> None:
    paced.crumbs(FREE_PIECES + 1)
    paced.has_room = False
    paced.loop.advance(LONGEST_SECONDS)
    assert not paced.reads.reading


def test_nothing_is_left_running_when_the_connection_is_gone(paced: Paced) -> None:
    paced.crumbs(FREE_PIECES + 1)
    paced.pacing.stop()
    paced.loop.advance(LONGEST_SECONDS)
    assert not paced.reads.reading


@pytest.mark.parametrize("begin", [b"", HEAD], ids=["head", "body"])
async def test_a_request_in_crumbs_is_read_late_and_as_a_whole(begin: bytes) -> None:
    """The connection is not read while the crumbs go on, and nothing of them is lost."""
    whole = HEAD + BODY
    async with a_rest_face() as rest:
        reader, writer = await asyncio.open_connection("127.0.0.1", rest.face.port)
        writer.write(begin)
        sent = len(begin)
        while sent < 60 + len(begin) and (sent < 2 or _is_read(rest)):
            writer.write(whole[sent : sent + 1])
            sent += 1
            await writer.drain()
            await asyncio.sleep(0.005)  # so that it is read as a piece of its own, or nearly
        assert not _is_read(rest)
        writer.write(whole[sent:])
        (reply,) = parse_replies(await reader.read())
        writer.close()
        assert reply.status == 200
        assert len(await rest.listed()) == 1


def _is_read(rest: RestUnderTest) -> bool:
    (connection,) = rest.connections
    assert connection._open is not None
    return connection._open.is_reading()
