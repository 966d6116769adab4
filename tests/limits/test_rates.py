"""Token buckets for many names."""

import pytest

from global_discovery.domain import rate
from global_discovery.domain.rate import Rates
from support.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_a_whole_bucket_is_there_at_once_and_then_what_comes_in(clock: FakeClock) -> None:
    rates = Rates(10, clock.monotonic, burst_seconds=2.0)
    assert [rates.take("a") for _ in range(20)] == [0.0] * 20
    assert rates.take("a") == pytest.approx(0.1)
    clock.advance(0.5)
    assert [rates.take("a") for _ in range(5)] == [0.0] * 5
    assert rates.take("a") > 0.0


def test_what_is_refused_takes_nothing(clock: FakeClock) -> None:
    rates = Rates(1, clock.monotonic)
    assert rates.take("a") == 0.0
    waits = {rates.take("a") for _ in range(100)}
    assert waits == {1.0}
    clock.advance(1.0)
    assert rates.take("a") == 0.0


def test_one_name_leaves_the_others_alone(clock: FakeClock) -> None:
    rates = Rates(1, clock.monotonic)
    assert rates.take("a") == 0.0
    assert rates.take("a") > 0.0
    assert rates.take("b") == 0.0


def test_asking_takes_nothing(clock: FakeClock) -> None:
    rates = Rates(1, clock.monotonic)
    assert [rates.wait("a") for _ in range(3)] == [0.0] * 3
    assert len(rates) == 0
    rates.take("a")
    assert rates.wait("a") == 1.0


def test_more_than_a_whole_bucket_is_there_when_it_is_full(clock: FakeClock) -> None:
    rates = Rates(10, clock.monotonic)
    assert rates.take("a", 1_000) == 0.0
    assert rates.take("a", 1_000) == pytest.approx(1.0)
    clock.advance(1.0)
    assert rates.take("a", 1_000) == 0.0


def test_a_full_bucket_is_forgotten(clock: FakeClock) -> None:
    rates = Rates(1, clock.monotonic)
    for number in range(100):
        rates.take(f"caller {number}")
    assert len(rates) == 100
    clock.advance(1.0)
    for number in range(100):
        rates.take(f"other {number}")
    assert len(rates) <= 101


def test_very_many_names_are_not_all_remembered(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate, "MAX_REMEMBERED", 50)
    rates = Rates(1, clock.monotonic)
    for number in range(1_000):
        assert rates.take(f"caller {number}") == 0.0
    assert len(rates) == 50
    assert rates.take("caller 999") > 0.0, "the newest is remembered"
