"""The heartbeat's rules, on a clock that is moved."""

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.client.errors import CallFailed, ErrorDetails
from global_discovery.client.heartbeat_schedule import HeartbeatSchedule, Send, Wait
from global_discovery.v1 import pool_pb2
from support.pools import a_registration
from support.scripted_server import granted

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
INTERNAL = grpc.StatusCode.INTERNAL


class Driver:
    """Plays the server and the clock for one schedule."""

    def __init__(self, *servers: str, relay_id: str = "") -> None:
        self.now = 1000.0
        self.schedule = HeartbeatSchedule(servers or ("a",), relay_id=relay_id)

    def set(self, registration: pool_pb2.PoolRegistration | None) -> None:
        self.schedule.set(registration, self.now)

    def next_send(self) -> Send:
        """Moves the clock to the next call."""
        step = self.schedule.poll(self.now)
        if isinstance(step, Wait):
            assert step.until is not None, "nothing will ever be sent"
            self.now = step.until
            step = self.schedule.poll(self.now)
        assert isinstance(step, Send)
        return step

    def answer(
        self,
        lease: int = 15,
        heartbeat: int = 5,
        lease_id: str = "id-1",
        *,
        after: float = 0.0,
        instance: str = "",
    ) -> None:
        self.now += after
        answer = granted(lease, heartbeat, lease_id)
        self.schedule.answered(answer, self.now, instance=instance)

    def fail(
        self, code: grpc.StatusCode = INTERNAL, *, after: float = 0.0, retry_after: float = 0.0
    ) -> None:
        self.now += after
        details = ErrorDetails(retry_after=retry_after)
        self.schedule.failed(CallFailed("a", code, "as the test says", details), self.now)

    def registered(self, lease: int = 15, heartbeat: int = 5) -> "Driver":
        self.set(a_registration())
        self.next_send()
        self.answer(lease, heartbeat)
        return self

    def idle(self) -> bool:
        return self.schedule.poll(self.now) == Wait(None)


def test_without_a_registration_nothing_is_sent() -> None:
    assert Driver().idle()


def test_a_registration_goes_out_at_once_without_a_lease_id_and_with_the_relay_id() -> None:
    driver = Driver(relay_id="relay-7")
    driver.set(a_registration())
    send = driver.schedule.poll(driver.now)
    assert isinstance(send, Send)
    assert send.request.registration == a_registration()
    assert (send.request.lease_id, send.request.relay_id) == ("", "relay-7")


def test_one_call_is_under_way_at_a_time() -> None:
    driver = Driver()
    driver.set(a_registration())
    driver.next_send()
    driver.now += 100
    assert driver.idle()


def test_it_renews_at_the_leases_interval_with_the_lease_id() -> None:
    driver = Driver().registered(lease=30, heartbeat=7)
    began = driver.now
    for beat in range(1, 4):
        send = driver.next_send()
        assert driver.now == began + 7 * beat
        assert send.request.lease_id == "id-1"
        driver.answer(30, 7)


def test_a_slow_answer_does_not_move_the_rhythm() -> None:
    driver = Driver().registered()
    driver.next_send()
    sent_at = driver.now
    driver.answer(after=3)
    driver.next_send()
    assert driver.now == sent_at + 5


def test_the_id_of_the_newest_answer_is_carried() -> None:
    driver = Driver().registered()
    driver.next_send()
    driver.answer(lease_id="id-2")
    assert driver.next_send().request.lease_id == "id-2"


def test_the_sequence_grows_with_every_call() -> None:
    driver = Driver().registered()
    numbers = []
    for outcome in (driver.answer, driver.fail, driver.answer):
        numbers.append(driver.next_send().request.sequence)
        outcome()
    assert numbers == sorted(set(numbers))
    assert numbers[0] > 0


def test_a_changed_registration_goes_out_at_once_with_the_lease_id() -> None:
    driver = Driver().registered()
    driver.now += 1.5
    driver.set(a_registration(model="other"))
    send = driver.schedule.poll(driver.now)
    assert isinstance(send, Send)
    assert (send.request.registration.model, send.request.lease_id) == ("other", "id-1")


def test_an_equal_registration_is_no_change() -> None:
    driver = Driver().registered()
    due = driver.schedule.poll(driver.now)
    driver.set(a_registration())
    assert driver.schedule.poll(driver.now) == due


def test_what_the_caller_does_to_its_message_later_is_not_seen() -> None:
    driver = Driver()
    mine = a_registration()
    driver.set(mine)
    mine.model = "changed behind the back"
    assert driver.next_send().request.registration == a_registration()


@pytest.mark.parametrize("outcome", ["answer", "fail"])
def test_a_change_during_a_call_goes_out_as_soon_as_that_has_ended(outcome: str) -> None:
    driver = Driver().registered()
    driver.next_send()
    driver.set(a_registration(model="newest"))
    assert driver.idle()
    getattr(driver, outcome)(after=0.5)
    send = driver.schedule.poll(driver.now)
    assert isinstance(send, Send)
    assert send.request.registration.model == "newest"


def test_a_change_during_back_off_goes_out_at_once() -> None:
    driver = Driver().registered()
    driver.next_send()
    driver.fail()
    driver.set(a_registration(model="newest"))
    assert isinstance(driver.schedule.poll(driver.now), Send)


def test_none_sends_nothing_and_the_next_one_goes_out_at_once_with_the_lease() -> None:
    driver = Driver().registered()
    driver.set(None)
    driver.now += 8
    assert driver.idle()
    driver.set(a_registration())
    send = driver.schedule.poll(driver.now)
    assert isinstance(send, Send)
    assert send.request.lease_id == "id-1"


def test_another_key_is_another_pool_and_does_not_carry_the_lease() -> None:
    driver = Driver().registered()
    driver.set(a_registration(2))
    assert driver.next_send().request.lease_id == ""


def test_the_answer_for_an_earlier_key_grants_the_new_one_nothing() -> None:
    driver = Driver()
    driver.set(a_registration(1))
    driver.next_send()
    driver.set(a_registration(2))
    driver.answer(lease_id="of-the-first")
    assert driver.schedule.state().lease is None
    assert driver.next_send().request.lease_id == ""


@pytest.mark.parametrize(
    "code", [code for code in grpc.StatusCode if code.name not in {"OK", "FAILED_PRECONDITION"}]
)
def test_every_kind_of_failure_is_retried(code: grpc.StatusCode) -> None:
    driver = Driver()
    driver.set(a_registration())
    for _ in range(20):
        driver.next_send()
        driver.fail(code)
    assert driver.now <= 1000 + 20 * 5
    assert isinstance(driver.schedule.poll(driver.now + 5), Send)


def test_a_failed_call_is_tried_again_after_one_second_doubling_up_to_the_interval() -> None:
    driver = Driver()
    driver.set(a_registration())
    driver.next_send()
    pauses = []
    for _ in range(5):
        driver.fail()
        failed_at = driver.now
        driver.next_send()
        pauses.append(driver.now - failed_at)
    assert pauses == [1, 2, 4, 5, 5]


def test_a_success_makes_the_pauses_start_over() -> None:
    driver = Driver().registered()
    for _ in range(2):
        driver.next_send()
        driver.fail()
    driver.next_send()
    driver.answer()
    driver.next_send()
    driver.fail()
    failed_at = driver.now
    driver.next_send()
    assert driver.now - failed_at == 1


def test_once_more_one_second_before_the_lease_ends() -> None:
    driver = Driver().registered(lease=15, heartbeat=5)
    began = driver.now
    tries = []
    for _ in range(6):
        driver.next_send()
        tries.append(driver.now - began)
        driver.fail()
    assert tries == [5, 6, 8, 12, 14, 19]


def test_a_call_that_hangs_does_not_outlast_the_last_chance() -> None:
    driver = Driver().registered(lease=15, heartbeat=5)
    began = driver.now
    tries = []
    for _ in range(4):
        send = driver.next_send()
        tries.append(driver.now - began)
        driver.fail(grpc.StatusCode.DEADLINE_EXCEEDED, after=send.timeout)
    assert 14 in tries


@given(st.integers(3, 600), st.data())
def test_no_call_is_given_longer_than_a_third_of_the_lease_or_five_seconds(
    lease: int, data: st.DataObject
) -> None:
    interval = data.draw(st.integers(1, lease // 3))
    driver = Driver().registered(lease, interval)
    for code in data.draw(st.lists(st.sampled_from([None, UNAVAILABLE, INTERNAL]), max_size=30)):
        send = driver.next_send()
        assert 0 < send.timeout <= min(5, lease / 3)
        if code is None:
            driver.answer(lease, interval)
        else:
            driver.fail(code, after=data.draw(st.floats(0, send.timeout)))


@given(st.integers(3, 60), st.data())
def test_while_a_lease_runs_some_call_is_always_tried_before_it_ends(
    lease: int, data: st.DataObject
) -> None:
    """Whatever fails and however long it hangs, the last second is tried."""
    interval = data.draw(st.integers(1, lease // 3))
    driver = Driver().registered(lease, interval)
    held = driver.schedule.state().lease
    assert held is not None
    while True:
        send = driver.next_send()
        if driver.now >= held.ends_at - 1:
            break
        driver.fail(
            INTERNAL,
            after=data.draw(st.floats(0, send.timeout)),
            retry_after=data.draw(st.sampled_from([0, 3, 1e9])),
        )
    assert driver.now < held.ends_at


def test_the_lease_is_counted_from_before_the_call_was_sent() -> None:
    driver = Driver()
    driver.set(a_registration())
    driver.next_send()
    sent_at = driver.now
    driver.answer(after=4)
    lease = driver.schedule.state().lease
    assert lease is not None
    assert lease.ends_at == sent_at + 15
    assert driver.schedule.holds_lease(sent_at + 14.9)
    assert not driver.schedule.holds_lease(sent_at + 15)


def test_unavailable_is_repeated_at_each_other_instance_at_once_over_a_new_connection() -> None:
    driver = Driver("a", "b", "c").registered()
    assert driver.next_send().server == "a"
    began = driver.now
    seen = []
    for _ in range(2):
        driver.fail(UNAVAILABLE)
        send = driver.next_send()
        seen.append(send.server)
        assert send.new_connection
        assert driver.now == began
    assert seen == ["b", "c"]
    driver.fail(UNAVAILABLE)
    assert driver.next_send().server == "a"
    assert driver.now == began + 1


def test_one_server_alone_is_called_once_more_over_a_new_connection() -> None:
    driver = Driver("a").registered()
    driver.next_send()
    began = driver.now
    driver.fail(UNAVAILABLE)
    assert driver.next_send().new_connection
    assert driver.now == began
    driver.fail(UNAVAILABLE)
    driver.next_send()
    assert driver.now == began + 1


def test_it_stays_at_the_instance_that_answered() -> None:
    driver = Driver("a", "b").registered()
    driver.next_send()
    driver.fail(UNAVAILABLE)
    driver.next_send()
    driver.answer()
    send = driver.next_send()
    assert (send.server, send.new_connection) == ("b", False)


def test_a_refusal_of_the_content_is_no_reason_to_leave_the_instance() -> None:
    driver = Driver("a", "b")
    driver.set(a_registration())
    driver.next_send()
    driver.fail(grpc.StatusCode.INVALID_ARGUMENT)
    send = driver.next_send()
    assert (send.server, send.new_connection) == ("a", False)


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNIMPLEMENTED,
    ],
)
def test_a_refusal_that_may_be_the_servers_own_is_taken_to_the_next_one_after_the_pause(
    code: grpc.StatusCode,
) -> None:
    driver = Driver("a", "b")
    driver.set(a_registration())
    driver.next_send()
    began = driver.now
    driver.fail(code)
    assert driver.next_send().server == "b"
    assert driver.now == began + 1


def test_a_server_that_asks_for_time_gets_it() -> None:
    driver = Driver()
    driver.set(a_registration())
    driver.next_send()
    began = driver.now
    driver.fail(grpc.StatusCode.RESOURCE_EXHAUSTED, retry_after=7)
    driver.next_send()
    assert driver.now == began + 7


def test_a_server_that_asks_for_time_does_not_hold_up_another_one() -> None:
    driver = Driver("a", "b", "c")
    driver.set(a_registration())
    driver.next_send()
    began = driver.now
    seen = []
    for retry_after in (9, 0, 0, 0, 0):
        driver.fail(retry_after=retry_after)
        seen.append((driver.next_send().server, driver.now - began))
    assert seen == [("b", 1), ("c", 3), ("b", 7), ("c", 12), ("a", 17)]


def test_where_all_ask_for_time_the_first_that_may_be_called_is() -> None:
    driver = Driver("a", "b")
    driver.set(a_registration())
    driver.next_send()
    began = driver.now
    driver.fail(retry_after=12)
    driver.next_send()
    driver.fail(retry_after=8)
    assert driver.next_send().server == "b"
    assert driver.now == began + 9


def test_no_server_may_ask_for_so_much_time_that_the_lease_ends() -> None:
    driver = Driver().registered(lease=15, heartbeat=5)
    began = driver.now
    driver.next_send()
    driver.fail(retry_after=60)
    driver.next_send()
    assert driver.now == began + 14


def test_no_server_may_ask_for_more_time_than_one_lease() -> None:
    driver = Driver()
    driver.set(a_registration())
    driver.next_send()
    began = driver.now
    driver.fail(retry_after=1e9)
    driver.next_send()
    assert driver.now == began + 15


@pytest.mark.parametrize(("told", "kept"), [(15, 5), (8, 5), (7, 7), (5, 5)])
def test_an_interval_that_leaves_no_room_for_a_second_try_is_shortened(
    told: int, kept: int
) -> None:
    driver = Driver().registered(lease=15, heartbeat=told)
    began = driver.now
    driver.next_send()
    assert driver.now == began + kept


def test_a_withdrawn_lease_is_dropped_and_the_pool_registered_anew_one_lease_later() -> None:
    driver = Driver().registered(lease=15)
    driver.next_send()
    refused_at = driver.now
    driver.fail(grpc.StatusCode.FAILED_PRECONDITION)
    state = driver.schedule.state()
    assert (state.lease, state.next_attempt) == (None, refused_at + 15)
    send = driver.next_send()
    assert driver.now == refused_at + 15
    assert send.request.lease_id == ""


def test_a_change_does_not_bring_a_withdrawn_pool_back_earlier() -> None:
    driver = Driver().registered(lease=15)
    driver.next_send()
    refused_at = driver.now
    driver.fail(grpc.StatusCode.FAILED_PRECONDITION)
    driver.set(a_registration(model="other"))
    driver.next_send()
    assert driver.now == refused_at + 15


def test_another_pool_does_not_wait_for_the_withdrawn_one() -> None:
    driver = Driver().registered(lease=15)
    driver.next_send()
    driver.fail(grpc.StatusCode.FAILED_PRECONDITION)
    driver.set(a_registration(2))
    assert isinstance(driver.schedule.poll(driver.now), Send)


def test_a_withdrawal_names_the_lease_and_nothing_is_sent_after_it() -> None:
    driver = Driver().registered()
    request = driver.schedule.withdrawal()
    assert request is not None
    assert (request.key, request.lease_id) == (a_registration().key, "id-1")
    driver.schedule.withdrew()
    driver.now += 1000
    assert driver.idle()
    assert driver.schedule.withdrawal() is None
    assert driver.schedule.state().withdrawn


def not_found(instance: str) -> CallFailed:
    return CallFailed("a", grpc.StatusCode.NOT_FOUND, "gone", ErrorDetails(instance=instance))


def test_every_instance_that_renewed_the_lease_may_say_that_it_has_ended() -> None:
    driver = Driver()
    driver.set(a_registration())
    for instance in ("x", "y", ""):
        driver.next_send()
        driver.answer(instance=instance)
    ended = {name: driver.schedule.has_ended(not_found(name)) for name in ("x", "y", "z", "")}
    assert ended == {"x": True, "y": True, "z": False, "": False}


def test_an_instance_that_held_an_earlier_lease_knows_nothing_of_the_present_one() -> None:
    driver = Driver()
    driver.set(a_registration())
    for instance, lease_id in (("x", "id-1"), ("y", "id-2")):
        driver.next_send()
        driver.answer(instance=instance, lease_id=lease_id)
    assert not driver.schedule.has_ended(not_found("x"))
    assert driver.schedule.has_ended(not_found("y"))


def test_only_not_found_says_that_a_lease_has_ended() -> None:
    driver = Driver()
    driver.set(a_registration())
    driver.next_send()
    driver.answer(instance="x")
    details = ErrorDetails(instance="x")
    for code in (UNAVAILABLE, INTERNAL, grpc.StatusCode.UNIMPLEMENTED):
        assert not driver.schedule.has_ended(CallFailed("a", code, "", details))


def test_without_a_lease_there_is_nothing_to_withdraw() -> None:
    driver = Driver()
    driver.set(a_registration())
    driver.next_send()
    driver.fail(UNAVAILABLE)
    assert driver.schedule.withdrawal() is None


def test_the_state_tells_lease_success_error_and_next_attempt() -> None:
    driver = Driver().registered()
    assert driver.schedule.state().next_attempt == driver.now + 5
    assert driver.schedule.state().last_success == driver.now
    driver.next_send()
    assert driver.schedule.state().next_attempt is None
    driver.fail(INTERNAL)
    state = driver.schedule.state()
    assert state.failing
    assert state.last_error is not None
    assert state.last_error.code is INTERNAL
    assert state.next_attempt == driver.now + 1
    driver.next_send()
    driver.answer()
    assert not driver.schedule.state().failing
    assert driver.schedule.state().last_error is state.last_error


def test_a_server_that_grants_nothing_is_not_called_in_a_loop() -> None:
    driver = Driver()
    driver.set(a_registration())
    driver.next_send()
    began = driver.now
    driver.answer(0, 0)
    driver.next_send()
    assert driver.now >= began + 0.3
