"""Requests that come in crumbs are read now and then, and still as a whole."""

import asyncio
import json

import pytest

from global_discovery.serving.rest import pacing
from global_discovery.serving.rest.pacing import (
    CRUMB_BYTES,
    LONGEST_SECONDS,
    SHORTEST_SECONDS,
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

    def crumbs(self, count: int, *, every: float) -> None:
        """So many come, each so many seconds after the last one and once it is read."""
        for _ in range(count):
            self.loop.advance(every)
            self.unread_for()
            self.pacing.unfinished(1)

    def unread_for(self) -> float:
        """How long it is not read now, in seconds."""
        began = self.clock.monotonic()
        while not self.reads.reading:
            self.loop.advance(0.001)
        return self.clock.monotonic() - began


@pytest.fixture
def paced() -> Paced:
    return Paced()


def test_pieces_that_follow_each_other_are_read_as_they_come(paced: Paced) -> None:
    for _ in range(1_000):
        paced.loop.advance(SHORTEST_SECONDS * 0.9)
        paced.pacing.unfinished(1)
        assert paced.reads.reading


@pytest.mark.parametrize(
    ("pause", "least", "most"), [(0.05, 0.05, 0.1), (1.0, 1.0, 2.0), (9.0, 1.25, 2.5)]
)
def test_after_a_pause_it_is_not_read_for_up_to_twice_as_long(
    pause: float, least: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    unread = []
    for chosen in (lambda low, _: low, lambda _, high: high):
        monkeypatch.setattr(pacing.random, "uniform", chosen)
        paced = Paced()
        paced.crumbs(2, every=pause)
        unread.append(paced.unread_for())
    assert unread == pytest.approx([least, most], abs=0.002)


def test_what_waited_while_nobody_read_makes_it_wait_no_longer(
    paced: Paced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing.random, "uniform", lambda _, high: high)
    paced.crumbs(2, every=0.5)
    for _ in range(10):
        assert paced.unread_for() == pytest.approx(1.0, abs=0.002)
        paced.pacing.unfinished(1)


def test_large_pieces_are_no_crumbs(paced: Paced) -> None:
    for _ in range(10):
        paced.loop.advance(1.0)
        paced.pacing.unfinished(CRUMB_BYTES)
        assert paced.reads.reading


def test_thousands_at_once_are_read_on_at_different_moments() -> None:
    paced = Paced()
    all_reads = [Reads() for _ in range(2_000)]
    all_pacing = [Pacing(reads, paced.loop) for reads in all_reads]  # type: ignore[arg-type]
    for one in all_pacing:
        one.unfinished(1)
    paced.loop.advance(1.0)
    for one in all_pacing:
        one.unfinished(1)
    unread, most = len(all_reads), 0
    while unread:
        paced.loop.advance(LONGEST_SECONDS / 100)
        left = sum(not reads.reading for reads in all_reads)
        most, unread = max(most, unread - left), left
    assert most < 200


def test_a_new_request_is_not_held_back_for_the_pause_before_it(paced: Paced) -> None:
    paced.crumbs(1, every=1.0)
    paced.pacing.begin_anew()
    paced.crumbs(1, every=60.0)
    assert paced.reads.reading


def test_it_does_not_read_on_when_there_is_no_room(paced: Paced) -> None:
    paced.crumbs(2, every=1.0)
    paced.has_room = False
    paced.loop.advance(LONGEST_SECONDS)
    assert not paced.reads.reading


def test_nothing_is_left_running_when_the_connection_is_gone(paced: Paced) -> None:
    paced.crumbs(2, every=1.0)
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
        while sent < len(begin) + 2 or _is_read(rest):
            writer.write(whole[sent : sent + 1])
            sent += 1
            assert sent < len(begin) + 60
            await asyncio.sleep(4 * SHORTEST_SECONDS)  # or longer: either is a pause
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
