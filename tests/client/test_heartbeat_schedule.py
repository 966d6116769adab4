"""The heartbeat's rules, on a clock that is moved."""

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.client.heartbeat_schedule import Send
from support.heartbeat_driver import INTERNAL, UNAVAILABLE, Driver
from support.pools import a_registration


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


@pytest.mark.parametrize(("told", "kept"), [(15, 5), (8, 5), (7, 7), (5, 5)])
def test_an_interval_that_leaves_no_room_for_a_second_try_is_shortened(
    told: int, kept: int
) -> None:
    driver = Driver().registered(lease=15, heartbeat=told)
    began = driver.now
    driver.next_send()
    assert driver.now == began + kept


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
