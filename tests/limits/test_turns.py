"""Whose call goes on next, whose answer is held back, and the lane of large calls."""

import asyncio
from collections.abc import Callable

import pytest

from global_discovery.domain.lease import Lease, LeaseTerms
from global_discovery.domain.limits import Limit, LimitReached
from global_discovery.serving import turns
from global_discovery.serving.turns import (
    BURST_SECONDS,
    HURRIED_RENEWAL,
    MAX_LARGE_WAITING_OF_ONE,
    MISTAKE,
    NEW_SHARE,
    SHARE_OF_ONE,
    Budget,
    LargeCalls,
    Turns,
    cost_of,
    in_one_piece,
)
from support.clock import FakeClock

LONGEST = 2.5


async def test_a_call_passes_the_many_of_another_caller() -> None:
    order: list[str] = []
    taking = Turns()

    async def call(account: str) -> None:
        await taking.take(account)
        order.append(account)

    many = [asyncio.create_task(call("many")) for _ in range(100)]
    await asyncio.sleep(0)
    one = asyncio.create_task(call("one"))
    await asyncio.gather(one, *many)
    assert order.index("one") <= 2
    assert order.count("many") == 100


async def test_callers_with_many_calls_alternate() -> None:
    order: list[str] = []
    taking = Turns()

    async def call(account: str) -> None:
        await taking.take(account)
        order.append(account)

    calls = [call("a") for _ in range(50)] + [call("b") for _ in range(50)]
    await asyncio.gather(*calls)
    first = order[:40]
    assert abs(first.count("a") - first.count("b")) <= 2


async def test_a_call_that_was_cancelled_gives_its_turn_away() -> None:
    taking = Turns()
    await taking.take("a")
    waiting = [asyncio.create_task(taking.take("a")) for _ in range(10)]
    await asyncio.sleep(0)
    for task in waiting[:9]:
        task.cancel()
    async with asyncio.timeout(20):
        await waiting[9]
    assert len(taking) == 0


async def test_beyond_what_may_wait_calls_go_on_and_are_not_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "MAX_WAITING", 5)
    taking = Turns()
    await taking.take("a")
    tasks = [asyncio.create_task(taking.take("a")) for _ in range(20)]
    await asyncio.sleep(0)
    assert len(taking) <= 5
    await asyncio.gather(*tasks)


async def test_nothing_is_kept_of_callers_that_are_through() -> None:
    taking = Turns()
    await asyncio.gather(*(taking.take(f"caller {number}") for number in range(500)))
    async with asyncio.timeout(20):
        while taking._waiting:  # noqa: ASYNC110 - a few turns of the loop, which nothing tells
            await asyncio.sleep(0)
    assert not taking._scheduled


async def test_turns_may_be_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is worked off in portions leaves turns of the loop in between."""
    loop, waited = asyncio.get_running_loop(), []

    def call_later(seconds: float, callback: Callable[[], None]) -> asyncio.Handle:
        waited.append(seconds)
        return loop.call_soon(callback)

    monkeypatch.setattr(loop, "call_later", call_later)
    taking = Turns(0.001)
    for _ in range(20):
        await taking.take("a")
    assert waited == [0.001] * 20


# -- the budget ----------------------------------------------------------------


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def budget(clock: FakeClock) -> Budget:
    """Of a service that two callers call."""
    budget = Budget(clock.monotonic, longest=LONGEST)
    budget.seen("good")
    budget.seen("bad")
    return budget


def use_up(budget: Budget, account: str) -> None:
    for _ in range(round(BURST_SECONDS / MISTAKE)):
        assert budget.charge(account, MISTAKE) <= 1e-9


def test_a_caller_has_its_part_of_the_loop_and_then_waits(budget: Budget, clock: FakeClock) -> None:
    use_up(budget, "bad")
    assert budget.charge("bad", MISTAKE) == pytest.approx(MISTAKE / SHARE_OF_ONE)
    clock.advance(10 * MISTAKE / SHARE_OF_ONE)
    assert budget.charge("bad", MISTAKE) <= 0.0


def test_what_takes_the_loop_in_one_piece_is_charged_by_its_square() -> None:
    short, long = turns.PIECE_SECONDS, 10 * turns.PIECE_SECONDS
    assert in_one_piece(short / 10) == short / 10
    assert in_one_piece(short) == pytest.approx(short)
    assert in_one_piece(long) == pytest.approx(10 * long)


def test_nobody_waits_for_what_another_one_used(budget: Budget) -> None:
    for _ in range(10_000):
        budget.charge("bad", MISTAKE)
    assert budget.charge("good", MISTAKE) <= 0.0


def test_no_answer_is_held_back_for_longer_than_the_longest_time(
    budget: Budget, clock: FakeClock
) -> None:
    for _ in range(10_000):
        assert budget.charge("bad", 1.0) <= LONGEST
    clock.advance(LONGEST + BURST_SECONDS / SHARE_OF_ONE)
    assert budget.charge("bad", MISTAKE) <= 0.0, "what it did long ago is forgotten"


def test_those_that_wait_longest_do_not_come_back_in_the_same_moment(budget: Budget) -> None:
    for _ in range(10_000):
        budget.charge("bad", MISTAKE)
    waits = {budget.charge("bad", MISTAKE) for _ in range(20)}
    assert len(waits) > 10
    assert min(waits) >= LONGEST / 2


def test_a_caller_that_is_alone_never_waits(clock: FakeClock) -> None:
    budget = Budget(clock.monotonic, longest=LONGEST)
    for _ in range(10_000):
        budget.seen("only")
        assert budget.charge("only", MISTAKE) <= 0.0


def test_who_is_never_seen_waits_while_one_other_caller_calls(clock: FakeClock) -> None:
    """Scrapes and probes are not seen, so that they do not take a relay for two callers."""
    budget = Budget(clock.monotonic, longest=LONGEST)
    budget.seen("relay")
    use_up(budget, "scraper")
    assert budget.charge("scraper", MISTAKE) > 0.0
    assert budget.charge("relay", 1.0) <= 0.0
    clock.advance(turns.ALONE_AFTER_SECONDS + 0.1)
    assert budget.charge("scraper", 10.0) <= 0.0


def test_a_caller_that_was_left_alone_waits_no_more(budget: Budget, clock: FakeClock) -> None:
    for _ in range(10_000):
        budget.charge("bad", MISTAKE)
    assert budget.charge("bad", MISTAKE) > 0.0
    clock.advance(turns.ALONE_AFTER_SECONDS + 0.1)
    budget.seen("bad")
    assert budget.charge("bad", MISTAKE) <= 0.0


def test_what_is_kept_of_callers_is_bounded(
    budget: Budget, monkeypatch: pytest.MonkeyPatch, clock: FakeClock
) -> None:
    monkeypatch.setattr(turns, "MAX_ACCOUNTS", 50)
    for number in range(1_000):
        budget.charge(f"caller {number}", MISTAKE)
    assert len(budget) <= 50
    clock.advance(100.0)
    for number in range(100):
        budget.charge(f"later {number}", 0.0)
    assert len(budget) <= 2


async def test_what_is_held_back_goes_out_when_the_service_goes(budget: Budget) -> None:
    for _ in range(10_000):
        budget.charge("bad", MISTAKE)
    held = [asyncio.create_task(budget.spend("bad", MISTAKE)) for _ in range(5)]
    await asyncio.sleep(0)
    held[0].cancel()
    await asyncio.sleep(0)
    budget.release()
    async with asyncio.timeout(20):
        await asyncio.gather(*held[1:])
        await budget.spend("bad", MISTAKE)
    assert not budget._held


TERMS = LeaseTerms(heartbeat_interval=5, lease_duration=15)


@pytest.mark.parametrize(
    ("since_last", "cost"),
    [
        (None, NEW_SHARE),
        (0.0, HURRIED_RENEWAL),
        (0.9, HURRIED_RENEWAL),
        (1.0, 0.0),
        (5.0, 0.0),
        (14.0, 0.0),
    ],
)
def test_a_heartbeat_is_charged_only_when_it_comes_too_early(
    since_last: float | None, cost: float
) -> None:
    assert cost_of(Lease("id", TERMS, since_last)) == cost


# -- the lane ------------------------------------------------------------------


class HandTime:
    """The lane's clock, and its sleep."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        self._sleep: Callable[[float], object] = asyncio.sleep
        monkeypatch.setattr(turns.asyncio, "sleep", self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(max(0.0, seconds))
        self.now += max(0.0, seconds)


@pytest.fixture
def hand_time(monkeypatch: pytest.MonkeyPatch) -> HandTime:
    return HandTime(monkeypatch)


async def test_the_lane_rests_for_two_hundred_times_what_a_call_took(hand_time: HandTime) -> None:
    lane = LargeCalls(lambda: hand_time.now)
    async with lane.one("a", 70_000):
        hand_time.now += 0.05
    async with lane.one("b", 70_000):
        pass
    assert hand_time.slept == [0.0, pytest.approx(10.0)]


async def test_the_lane_rests_for_what_a_size_may_take(hand_time: HandTime) -> None:
    """Also when it was read quickly: much of the work comes after."""
    lane = LargeCalls(lambda: hand_time.now)
    async with lane.one("a", 1_000_000):
        pass
    async with lane.one("a", 1_000_000):
        pass
    assert hand_time.slept[1] == pytest.approx(6.0)


async def test_a_caller_may_have_few_large_calls_waiting() -> None:
    lane = LargeCalls(lambda: 0.0)
    inside, leave = asyncio.Event(), asyncio.Event()

    async def one(account: str) -> None:
        async with lane.one(account, 1):
            inside.set()
            await leave.wait()

    tasks = [asyncio.create_task(one("a")) for _ in range(MAX_LARGE_WAITING_OF_ONE)]
    await inside.wait()
    with pytest.raises(LimitReached) as refused:
        await one("a")
    assert refused.value.limit is Limit.LARGE_CALLS
    other = asyncio.create_task(one("b"))
    leave.set()
    await asyncio.gather(other, *tasks)
    assert lane._of == {}


async def test_all_callers_together_may_have_so_many_large_calls_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "MAX_LARGE_WAITING", 3)
    lane = LargeCalls(lambda: 0.0)
    leave = asyncio.Event()

    async def one(account: str) -> None:
        async with lane.one(account, 1):
            await leave.wait()

    tasks = [asyncio.create_task(one(f"caller {number}")) for number in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(LimitReached):
        await one("one more")
    leave.set()
    await asyncio.gather(*tasks)
