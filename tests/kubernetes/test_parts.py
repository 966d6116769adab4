"""The small parts: waits, lines, refusals, selectors."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.kubernetes.assembly import Assembly
from global_discovery.kubernetes.backoff import Backoff, Pace
from global_discovery.kubernetes.envelopes import Key
from global_discovery.kubernetes.failures import (
    MAX_MESSAGE,
    CallFailed,
    Failure,
    error_event,
    refused,
)
from global_discovery.kubernetes.lines import Lines, TooLong
from global_discovery.kubernetes.reader import FREE_RETRIES, RETRY_SPACING
from global_discovery.kubernetes.scope import ENDPOINT_SLICES
from support.fake_kube_api.selectors import selects
from support.kube_reading import RecordingSink, Thing, ThingMeta


def test_waits_double_to_the_cap_and_start_over() -> None:
    backoff = Backoff(lambda: 1.0)
    waits = [round(backoff.next(), 3) for _ in range(8)]
    assert waits == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    backoff.start_over()
    assert backoff.next() == 0.8
    backoff.to_the_cap()
    assert backoff.next() == 30


@given(st.floats(0, 1), st.integers(1, 10), st.floats(0.1, 300))
def test_jitter_never_makes_a_wait_much_shorter_nor_shorter_than_the_server_asks(
    jitter: float, tries: int, asked: float
) -> None:
    backoff = Backoff(lambda: jitter)
    base = 0.8
    for _ in range(tries):
        assert base * 0.75 <= backoff.next() <= base
        base = min(base * 2, 30)
    assert backoff.next(asked) >= asked


def test_those_who_are_told_the_same_time_do_not_return_together() -> None:
    assert Backoff(lambda: 0.1).next(9) != Backoff(lambda: 0.9).next(9)


def test_a_pace_spreads_retries_and_holds_none_of_them_back_for_long() -> None:
    pace = Pace(4, free=2)
    assert [pace.wait(100, 1) for _ in range(4)] == [1, 1, 4, 8]
    assert pace.wait(200, 30) == 30
    assert pace.wait(200, 1) == 1
    pace = Pace(0)
    assert [pace.wait(100, 1) for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("watches", [2, 6, 15])
def test_watches_that_fail_together_ask_ever_more_slowly(watches: int) -> None:
    pace = Pace(RETRY_SPACING, free=FREE_RETRIES)
    backoffs = [Backoff(lambda: 0.5) for _ in range(watches)]
    due = [(100.0, watch) for watch in range(watches)]
    asked = []
    while (earliest := min(due))[0] < 400:
        now, watch = earliest
        asked.append(now)
        due[watch] = (now + pace.wait(now, backoffs[watch].next()), watch)
    retries = asked[watches:]
    for first, sixteenth in zip(retries, retries[15:], strict=False):
        # A retry is a watch, a list, or both.
        assert sixteenth - first > 30


def test_a_list_of_one_part_brings_nothing_back_that_left_another() -> None:
    sink = RecordingSink()
    assembly: Assembly[Thing] = Assembly(sink, 2)
    first, second = Key("a", "x"), Key("b", "x")
    assembly.replaced(0, {first: Thing(ThingMeta("x", "a"))})
    assembly.put(1, second, Thing(ThingMeta("x", "b")))
    assembly.replaced(0, {})
    assert set(sink.items) == {second}
    assembly.deleted(1, second)
    assembly.replaced(0, {first: Thing(ThingMeta("x", "a"))})
    assert set(sink.items) == {first}


@given(st.lists(st.binary(max_size=9)), st.data())
def test_lines_are_the_same_however_they_are_cut(texts: list[bytes], data: st.DataObject) -> None:
    whole = b"\n".join(texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    lines = Lines()
    found: list[bytes] = []
    for begin, end in itertools.pairwise([0, *cuts, len(whole)]):
        found += lines.feed(whole[begin:end])
    *finished, rest = whole.split(b"\n")
    assert found == [line for line in finished if line.strip()]
    assert lines.unfinished == bool(rest.strip())


@pytest.mark.parametrize(
    "chunks", [[b"123456"], [b"123", b"456"], [b"1\n123456"], [b"1", b"23456\n"]]
)
def test_a_line_above_the_limit_is_refused_as_soon_as_it_is_seen(chunks: list[bytes]) -> None:
    lines = Lines(limit=5)
    for chunk in chunks[:-1]:
        lines.feed(chunk)
    with pytest.raises(TooLong):
        lines.feed(chunks[-1])


def test_a_line_of_exactly_the_limit_is_taken() -> None:
    assert Lines(limit=5).feed(b"12345\n12345\n") == [b"12345", b"12345"]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7),
        ("0", None),
        ("-1", None),
        ("Wed, 21 Oct 2026", None),
        ("9" * 400, 300),
        ("²", None),
    ],
)
def test_retry_after_is_seconds_and_bounded(header: str, seconds: float | None) -> None:
    assert refused(429, {"Retry-After": header}, b"later").retry_after == seconds


def test_a_status_may_carry_the_time_itself() -> None:
    body = b'{"code":429,"details":{"retryAfterSeconds":3}}'
    assert refused(429, {}, body).retry_after == 3
    assert error_event(body).retry_after == 3


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{}", b'{"code":"410"}', b'{"details":null}', b"\xff", b"[" * 9999],
)
def test_any_body_is_some_failure(body: bytes) -> None:
    assert error_event(body).failure is Failure.ERROR_EVENT
    assert refused(410, {}, body).failure is Failure.EXPIRED
    assert refused(302, {}, body).failure is Failure.REFUSED


def test_the_code_decides_and_not_the_words() -> None:
    assert error_event(b'{"code":500,"message":"Expired: too old"}').failure is Failure.ERROR_EVENT
    assert refused(504, {}, b"<html>").failure is Failure.TOO_NEW
    assert refused(500, {}, b"Too large resource version: 5").failure is Failure.TOO_NEW


def test_a_message_is_one_short_line() -> None:
    message = CallFailed(Failure.CUT, "a\r\nb " + "x" * 5000).message
    assert message.startswith("a b x")
    assert len(message) == MAX_MESSAGE


def test_a_name_cannot_leave_its_place_in_a_path() -> None:
    assert ENDPOINT_SLICES.path("a/../b") == (
        "/apis/discovery.k8s.io/v1/namespaces/a%2F..%2Fb/endpointslices"
    )


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("", True),
        ("a", True),
        ("!a", False),
        ("a=1", True),
        ("a==2", False),
        ("a!=2,b!=1", True),
        ("a in (1, 2),!b", True),
        ("a notin (1)", False),
        ("b notin (1)", True),
    ],
)
def test_the_fake_server_knows_kubernetes_selectors(selector: str, selected: bool) -> None:  # noqa: FBT001 - a parameter
    assert selects(selector)({"metadata": {"labels": {"a": "1"}}}) is selected
