"""A mark is told of the moment in which it is told, also after the loop stood still."""

from collections.abc import Callable

import pytest

from global_discovery.serving import wire
from global_discovery.view.fanout import FanOut
from global_discovery.view.view import FRESH_SECONDS, View
from support.clock import FakeClock
from support.hand_loop import HandLoop
from support.hand_source import ESTIMATED, HandSource, a_pool
from support.pools import pool_key
from support.watching import HandStream

STOPS = [FakeClock.stop, FakeClock.suspend]
"""The process alone, and the machine."""


class Room:
    def __init__(self) -> None:
        self.source = HandSource()
        self.clock = FakeClock()
        self.loop = HandLoop(self.clock)
        self.fanout = FanOut(
            View(self.source, boottime=self.clock.boottime),
            wire.POOLS,
            loop=self.loop,  # type: ignore[arg-type]  # as much of one as it uses
        )

    def stream(self) -> HandStream:
        return HandStream(self.fanout, self.loop)

    def moves(self, stream: HandStream, number: int) -> None:
        self.source.put(a_pool(pool_key(number)))
        self.loop.advance(0.1)
        stream.step()


@pytest.mark.parametrize("stop", STOPS)
def test_what_waited_for_a_write_is_not_exact_any_more_after_a_stop(
    stop: Callable[[FakeClock, float], None],
) -> None:
    room = Room()
    stream = room.stream()
    stream.step()
    assert stream.client.exact
    stream.stop_reading()
    room.moves(stream, 1)
    room.moves(stream, 2)
    stop(room.clock, 10.0)
    room.source.mark = ESTIMATED  # by time alone: nobody woke anybody
    stream.read()
    assert set(stream.client.fold) == {tuple(pool_key(1)), tuple(pool_key(2))}
    assert not stream.client.exact


@pytest.mark.parametrize("stop", STOPS)
def test_a_snapshot_is_of_the_moment_after_a_stop(
    stop: Callable[[FakeClock, float], None],
) -> None:
    room = Room()
    stream = room.stream()
    stop(room.clock, 10.0)
    room.source.mark = ESTIMATED
    stream.step()
    assert not stream.client.exact


def test_who_was_woken_together_is_told_the_same_without_another_look() -> None:
    room = Room()
    stream = room.stream()
    stream.step()
    stream.stop_reading()
    room.moves(stream, 1)
    room.moves(stream, 2)
    room.clock.stop(FRESH_SECONDS / 2)
    room.source.mark = ESTIMATED
    stream.read()
    assert stream.client.exact
    room.source.say(ESTIMATED)
    room.loop.advance(0.1)
    stream.step()
    assert not stream.client.exact
