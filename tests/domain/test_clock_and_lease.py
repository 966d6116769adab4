import time

import pytest

from global_discovery.domain.clock import Clock, SystemClock
from global_discovery.domain.lease import LeaseTerms
from global_discovery.domain.pool import PoolKey, Router
from support.clock import FakeClock


def test_the_system_clock_reads_the_clocks_of_the_machine() -> None:
    clock: Clock = SystemClock()
    assert abs(clock.monotonic() - time.monotonic()) < 60
    assert abs(clock.boottime() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60
    assert abs(clock.wall() - time.time()) < 60
    assert clock.boottime() >= clock.monotonic() - 1


def test_the_three_readings_of_the_fake_clock_move_as_a_machine_moves_them() -> None:
    clock = FakeClock()

    def moved() -> tuple[float, ...]:
        after = (clock.monotonic(), clock.boottime(), clock.wall())
        return tuple(now - then for now, then in zip(after, before, strict=True))

    before = (clock.monotonic(), clock.boottime(), clock.wall())
    clock.advance(1.0)
    assert moved() == (1.0, 1.0, 1.0)
    clock.stop(2.0)
    assert moved() == (3.0, 3.0, 3.0)
    clock.suspend(4.0)
    assert moved() == (3.0, 7.0, 7.0)
    clock.step_wall(-100.0)
    assert moved() == (3.0, 7.0, -93.0)


@pytest.mark.parametrize(
    ("terms", "overdue", "remembered"),
    [(LeaseTerms(), 10.0, 150.0), (LeaseTerms(1, 4), 2.5, 40.0)],
)
def test_what_follows_from_the_terms_of_a_lease(
    terms: LeaseTerms, overdue: float, remembered: float
) -> None:
    assert (terms.overdue_after, terms.withdrawn_memory) == (overdue, remembered)


def test_keys_sort_by_cluster_then_namespace_then_name() -> None:
    keys = [PoolKey("b", "a", "a"), PoolKey("a", "b", "a"), PoolKey("a", "a", "b")]
    assert sorted(keys) == list(reversed(keys))
    assert str(keys[0]) == "b/a/a"


def test_a_router_is_known_by_its_id() -> None:
    assert Router("r", "http://r").key == "r"
