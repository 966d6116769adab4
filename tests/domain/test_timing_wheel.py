"""Items come out when they are due, whatever happened to their deadlines."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from global_discovery.domain.timing_wheel import SLOT_SECONDS, TimingWheel

EVERYTHING = 10**9


class Counting:
    """Deadlines by name, and how often the wheel asked for one."""

    def __init__(self, *, now: float = 0.0) -> None:
        self.deadlines: dict[str, float] = {}
        self.asked = 0
        self.wheel: TimingWheel[str] = TimingWheel(now=now, deadline_of=self._deadline)

    def _deadline(self, item: str) -> float:
        self.asked += 1
        return self.deadlines[item]

    def add(self, item: str, deadline: float) -> None:
        self.deadlines[item] = deadline
        self.wheel.add(item)


def test_an_item_comes_out_at_its_deadline_at_the_earliest_and_one_slot_late_at_most() -> None:
    wheel = Counting()
    wheel.add("a", 1.0)
    assert wheel.wheel.take_due(0.999, EVERYTHING) == []
    assert wheel.wheel.take_due(1.0 + SLOT_SECONDS + 1e-9, EVERYTHING) == ["a"]
    assert wheel.wheel.take_due(5.0, EVERYTHING) == []
    assert len(wheel.wheel) == 0


def test_an_item_that_is_already_due_comes_out_within_a_slot() -> None:
    wheel = Counting(now=100.0)
    wheel.add("a", 3.0)
    assert wheel.wheel.take_due(100.0 + SLOT_SECONDS, EVERYTHING) == ["a"]


def test_moving_a_deadline_costs_the_wheel_nothing_until_the_old_one_comes() -> None:
    wheel = Counting()
    wheel.add("a", 1.0)
    asked = wheel.asked
    for step in range(1000):
        wheel.deadlines["a"] = 1.0 + step
    assert wheel.asked == asked
    assert wheel.wheel.take_due(2.0, EVERYTHING) == []
    assert wheel.asked <= asked + 2, "asked once whether it is due and once where it belongs"
    assert len(wheel.wheel) == 1


def test_a_discarded_item_never_comes_out_and_discarding_it_again_is_nothing() -> None:
    wheel = Counting()
    wheel.add("a", 1.0)
    wheel.add("b", 1.0)
    wheel.wheel.discard("a")
    wheel.wheel.discard("a")
    wheel.wheel.discard("never")
    assert wheel.wheel.take_due(2.0, EVERYTHING) == ["b"]


def test_one_call_looks_at_no_more_than_its_limit() -> None:
    wheel = Counting()
    for number in range(100):
        wheel.add(str(number), 1.0)
    asked = wheel.asked
    taken = wheel.wheel.take_due(2.0, 30)
    assert len(taken) <= 30
    assert wheel.asked - asked <= 30
    assert wheel.wheel.behind(2.0)
    while wheel.wheel.behind(2.0):
        portion = wheel.wheel.take_due(2.0, 30)
        assert len(portion) <= 30
        taken += portion
    assert sorted(taken, key=int) == [str(number) for number in range(100)]


def test_items_that_are_only_looked_at_count_towards_the_limit() -> None:
    wheel = Counting()
    for number in range(100):
        wheel.add(str(number), 1.0)
        wheel.deadlines[str(number)] = 50.0
    asked = wheel.asked
    assert wheel.wheel.take_due(2.0, 30) == []
    assert wheel.asked - asked <= 60
    assert wheel.wheel.behind(2.0)


def test_a_jump_of_a_day_is_worked_off_in_bounded_portions_too() -> None:
    wheel = Counting()
    wheel.add("a", 86_400.0)
    calls = 1
    taken = wheel.wheel.take_due(86_401.0, 5000)
    while wheel.wheel.behind(86_401.0):
        taken += wheel.wheel.take_due(86_401.0, 5000)
        calls += 1
    assert taken == ["a"]
    assert calls > 100


def test_an_empty_wheel_passes_over_any_time_at_once() -> None:
    wheel = Counting()
    assert wheel.wheel.take_due(86_401.0, 1) == []
    assert not wheel.wheel.behind(86_401.0)
    wheel.add("a", 86_402.0)
    assert wheel.wheel.take_due(86_403.0, 100) == ["a"]


@given(st.floats(0, 1e7), st.floats(0, 1e5))
def test_no_deadline_comes_early_or_a_slot_late(now: float, lease: float) -> None:
    wheel = Counting(now=now)
    wheel.add("a", now + lease)
    before = now + lease - 1e-6
    if before > now:
        assert wheel.wheel.take_due(before, EVERYTHING) == []
    assert wheel.wheel.take_due(now + lease + SLOT_SECONDS + 1e-6, EVERYTHING) == ["a"]


class Wheel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.counting = Counting(now=self.now)
        self.inside: set[str] = set()

    items = st.sampled_from([f"item-{number}" for number in range(8)])
    times = st.floats(0, 40) | st.sampled_from([0.0, 0.1, 0.2, 15.0])

    @rule(item=items, lease=times)
    def add_or_move_later(self, item: str, lease: float) -> None:
        deadline = self.now + lease
        if item not in self.inside:
            self.counting.add(item, deadline)
            self.inside.add(item)
        else:
            deadlines = self.counting.deadlines
            deadlines[item] = max(deadlines[item], deadline)

    @rule(item=items)
    def discard(self, item: str) -> None:
        self.counting.wheel.discard(item)
        self.inside.discard(item)

    @rule(seconds=times | st.just(5000.0), limit=st.integers(1, 5))
    def pass_time(self, seconds: float, limit: int) -> None:
        self.now += seconds
        wheel, deadlines = self.counting.wheel, self.counting.deadlines
        taken: list[str] = []
        more = True
        while more:
            portion = wheel.take_due(self.now, limit)
            assert len(portion) <= limit
            taken += portion
            more = wheel.behind(self.now)
        assert len(set(taken)) == len(taken)
        assert all(deadlines[item] <= self.now for item in taken)
        self.inside -= set(taken)
        assert all(deadlines[item] > self.now - SLOT_SECONDS - 1e-9 for item in self.inside)

    @invariant()
    def it_holds_what_was_put_in(self) -> None:
        assert len(self.counting.wheel) == len(self.inside)


TestWheel = Wheel.TestCase
TestWheel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
