"""Which server a heartbeat calls when one fails, and which one it believes; the clock is moved."""

import grpc
import pytest

from global_discovery.client.errors import CallFailed, ErrorDetails
from global_discovery.client.heartbeat_schedule import Send
from support.heartbeat_driver import INTERNAL, UNAVAILABLE, Driver
from support.pools import a_registration


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


def test_one_server_that_asks_for_time_is_not_called_again_at_once() -> None:
    driver = Driver("a")
    driver.set(a_registration())
    driver.next_send()
    began = driver.now
    driver.fail(UNAVAILABLE, retry_after=7)
    driver.next_send()
    assert driver.now == began + 7


def test_a_round_of_repeats_passes_over_a_server_that_asked_for_time() -> None:
    driver = Driver("a", "b", "c")
    driver.set(a_registration())
    driver.next_send()
    began = driver.now
    seen = []
    for retry_after in (60, 60, 0, 0):
        driver.fail(UNAVAILABLE, retry_after=retry_after)
        seen.append((driver.next_send().server, driver.now - began))
    assert seen == [("b", 0), ("c", 0), ("c", 1), ("c", 3)]


def test_a_changed_registration_does_not_go_to_a_server_that_asked_for_time() -> None:
    driver = Driver("a")
    driver.set(a_registration())
    driver.next_send()
    began = driver.now
    driver.fail(UNAVAILABLE, retry_after=7)
    driver.set(a_registration(model="other"))
    assert driver.next_send().request.registration.model == "other"
    assert driver.now == began + 7


def test_a_registration_that_changed_under_way_waits_as_well_and_goes_elsewhere_at_once() -> None:
    for servers, expected in ((("a",), ("a", 7)), (("a", "b"), ("b", 0))):
        driver = Driver(*servers)
        driver.set(a_registration())
        driver.next_send()
        began = driver.now
        driver.set(a_registration(model="other"))
        driver.fail(retry_after=7)
        assert (driver.next_send().server, driver.now - began) == expected


def test_the_last_chance_is_taken_also_with_a_change_at_a_server_that_asked_for_time() -> None:
    driver = Driver("a").registered(lease=15, heartbeat=5)
    granted_at = driver.now
    driver.next_send()
    driver.fail(UNAVAILABLE, retry_after=15)
    driver.set(a_registration(model="other"))
    driver.next_send()
    assert driver.now == granted_at + 14


def test_a_call_under_way_is_given_up_for_a_change_over_a_new_connection() -> None:
    driver = Driver("a", "b").registered()
    first = driver.next_send()
    driver.set(a_registration(model="other"))
    assert driver.schedule.gives_up(driver.now)
    driver.schedule.gave_up(driver.now)
    began = driver.now
    send = driver.next_send()
    assert (send.server, send.new_connection, driver.now) == ("a", True, began)
    assert send.request.registration.model == "other"
    assert send.request.lease_id == first.request.lease_id == "id-1"
    assert send.request.sequence > first.request.sequence


def test_a_registration_that_never_rests_still_gets_every_second_answer() -> None:
    driver = Driver("a").registered()
    driver.next_send()
    seen = []
    for number in range(4):
        driver.set(a_registration(model=f"m-{number}"))
        seen.append(driver.schedule.gives_up(driver.now))
        if seen[-1]:
            driver.schedule.gave_up(driver.now)
        else:
            driver.answer()
        driver.next_send()
    assert seen == [True, False, True, False]


def test_without_a_lease_that_orders_the_calls_the_one_under_way_is_waited_for() -> None:
    driver = Driver("a")
    driver.set(a_registration())
    driver.next_send()
    driver.set(a_registration(model="other"))
    assert not driver.schedule.gives_up(driver.now)
    driver.answer(lease_id="")
    driver.next_send()
    driver.set(a_registration(model="third"))
    assert not driver.schedule.gives_up(driver.now)


def test_a_lease_that_has_ended_orders_nothing_any_more() -> None:
    driver = Driver("a").registered(lease=15)
    driver.next_send()
    driver.set(a_registration(model="other"))
    driver.now += 15
    assert not driver.schedule.gives_up(driver.now)


def test_another_pool_and_nothing_new_are_told_apart_while_a_call_is_under_way() -> None:
    driver = Driver("a")
    driver.set(a_registration())
    assert not driver.schedule.gives_up(driver.now)
    driver.next_send()
    driver.set(a_registration())
    assert not driver.schedule.gives_up(driver.now)
    driver.set(None)
    assert not driver.schedule.gives_up(driver.now)
    driver.set(a_registration(2))
    assert driver.schedule.gives_up(driver.now)
