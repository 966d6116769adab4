"""How the fan-out shares the loop: what else is to run waits for a few watchers, not for all."""

import pytest

from global_discovery.domain.pool import Pool
from global_discovery.serving import wire
from global_discovery.view.fanout import OFFERS_A_TURN, TICK_SECONDS, FanOut
from global_discovery.view.view import View
from support.clock import FakeClock
from support.hand_loop import HandLoop
from support.hand_source import HandSource, a_pool
from support.pools import pool_key
from support.watching import HandStream

WATCHERS = 5 * OFFERS_A_TURN + 1


class Room:
    """Many watchers of one view, all waiting."""

    def __init__(self) -> None:
        self.source = HandSource()
        self.loop = HandLoop(FakeClock())
        view: View[Pool] = View(self.source)
        fanout = FanOut(view, wire.POOLS, loop=self.loop)  # type: ignore[arg-type]  # enough of one
        self.streams = [HandStream(fanout, self.loop) for _ in range(WATCHERS)]
        self.loop.run_due()
        self.step()
        self.loop.advance(2 * TICK_SECONDS)

    def step(self) -> None:
        for stream in self.streams:
            stream.step()

    def told(self, model: str) -> int:
        """How many watchers were told of a pool with this model, once each."""
        self.step()
        models = [
            [pool.model for message in stream.client.messages for pool in message.changes.pools]
            for stream in self.streams
        ]
        times = [told.count(model) for told in models]
        assert max(times) <= 1
        return sum(times)


@pytest.fixture
def room() -> Room:
    return Room()


def test_what_is_to_run_meanwhile_waits_for_few_watchers(room: Room) -> None:
    room.source.put(a_pool(pool_key(1), model="new"))
    told_before: list[int] = []
    room.loop.call_soon(lambda: told_before.append(room.told("new")))
    room.loop.run_due()
    assert told_before == [OFFERS_A_TURN]
    assert room.told("new") == WATCHERS


def test_a_change_that_comes_meanwhile_reaches_every_watcher_a_tick_later(room: Room) -> None:
    room.source.put(a_pool(pool_key(1), model="first"))
    room.loop.call_soon(lambda: room.source.put(a_pool(pool_key(2), model="second")))
    room.loop.run_due()
    assert (room.told("first"), room.told("second")) == (WATCHERS, 0)
    room.loop.advance(TICK_SECONDS)
    assert room.told("second") == WATCHERS
