"""What the store says of itself: its bound, its doubts, and what it tells of failures."""

from global_discovery.domain.completeness import Reason
from global_discovery.domain.events import Event, ignore
from global_discovery.storage.dynamodb.api import Unreachable
from global_discovery.storage.dynamodb.health import STEADY_SECONDS, Health
from support.clock import FakeClock


def test_the_bound_rises_with_a_slow_read_at_once_and_falls_after_a_minute() -> None:
    clock = FakeClock()
    health = Health(clock=clock, refresh_period=1.0, report=ignore)

    def read(seconds: float) -> float:
        began = clock.monotonic()
        clock.advance(seconds)
        health.read_completed(began=began)
        return health.bound

    assert read(0.1) == 2.5
    assert read(1.2) == 3.5
    assert read(0.1) == 3.5
    clock.advance(61)
    assert read(0.1) == 2.5


def test_a_newest_read_that_began_longer_ago_than_the_bound_makes_it_unreadable() -> None:
    clock = FakeClock()
    health = Health(clock=clock, refresh_period=1.0, report=ignore)
    assert health.state().reasons == frozenset()
    health.read_completed(began=clock.monotonic())
    clock.advance(2.0)
    assert health.state().reasons == frozenset()
    clock.advance(0.1)
    assert health.state().reasons == {Reason.STORE_UNREADABLE}


def test_one_failure_is_told_once_and_so_is_its_end() -> None:
    events: list[Event] = []
    clock = FakeClock()
    health = Health(clock=clock, refresh_period=1.0, report=lambda event, **_: events.append(event))
    for what in ("read", "write", "read"):
        health.fails(what, Unreachable("cut"))
    assert health.state().failures == 1
    health.works("read")
    assert health.state().failing
    health.works("write")
    assert not health.state().failing
    assert events == [Event.STORE_FAILING] * 2
    clock.advance(STEADY_SECONDS)
    health.works("read")
    health.works("read")
    assert events == [Event.STORE_FAILING] * 2 + [Event.STORE_WORKS_AGAIN]
    health.fails("write", Unreachable("cut"))
    assert health.state().failures == 2


def test_writes_that_fail_and_work_in_turn_are_one_failure() -> None:
    events: list[Event] = []
    clock = FakeClock()
    health = Health(clock=clock, refresh_period=1.0, report=lambda event, **_: events.append(event))
    for _ in range(100):
        health.fails("write", Unreachable("throttled"))
        assert health.state().failing
        clock.advance(STEADY_SECONDS / 2)
        health.works("write")
        assert not health.state().failing
    assert events == [Event.STORE_FAILING]
    assert health.state().failures == 1
    clock.advance(STEADY_SECONDS)
    health.works("write")
    assert events == [Event.STORE_FAILING, Event.STORE_WORKS_AGAIN]
