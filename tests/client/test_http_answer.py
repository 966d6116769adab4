"""What is read from the headers of an answer, and what counts as nothing."""

import pytest

from global_discovery.client.http_answer import instance_of, retry_after

NOW = {"Date": "Mon, 30 Nov 2026 10:00:00 GMT"}


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("7", 7),
        (" 7 ", 7),
        ("0", 0),
        ("Mon, 30 Nov 2026 10:01:30 GMT", 90),
        ("Mon, 30 Nov 2026 09:00:00 GMT", 0),
        ("Mon, 30 Nov 2026 10:00:05 -0000", 5),
        ("", 0),
        ("-1", 0),
        ("1.5", 0),
        ("soon", 0),
        ("٣", 0),
        ("Mon, 99 Nov 2026 10:00:00 GMT", 0),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_nonsense_is_nothing(
    told: str, seconds: float
) -> None:
    assert retry_after(NOW | {"Retry-After": told}) == seconds


def test_a_number_of_any_length_is_a_number() -> None:
    assert retry_after({"Retry-After": "9" * 100_000}) > 86_400


def test_without_a_date_to_compare_with_a_date_is_nothing() -> None:
    assert retry_after({"Retry-After": NOW["Date"]}) == 0
    assert retry_after({"Retry-After": NOW["Date"], "Date": "today"}) == 0


@pytest.mark.parametrize(
    ("told", "name"), [("abc", "abc"), ("", ""), ("ü", ""), ("\udcff", ""), ("x" * 257, "")]
)
def test_an_instance_names_itself_properly_or_not_at_all(told: str, name: str) -> None:
    assert instance_of({"x-global-discovery-instance": told}) == name
    assert instance_of({}) == ""
