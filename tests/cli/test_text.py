"""What a server says, made safe and readable."""

import json
import unicodedata

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.cli.events import json_text
from global_discovery.cli.text import count, mark_sentence, number, rfc3339, safe
from global_discovery.v1 import pool_pb2


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"),
        ("modèle 模型", "modèle 模型"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\r\nb\tc", "a\\x0d\\x0ab\\x09c"),
        ("\x9b31m", "\\x9b31m"),
        ("abc\u202edcba", "abc\\u202edcba"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("a\u200bb", "a\\u200bb"),
        ("\u2028", "\\u2028"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("\\x1b", "\\\\x1b"),
    ],
)
def test_characters_that_could_steer_or_mislead_are_escaped(raw: str, shown: str) -> None:
    assert safe(raw) == shown


@given(st.text(st.characters()))
def test_nothing_unsafe_is_ever_left_and_different_texts_look_different(text: str) -> None:
    shown = safe(text)
    assert all(unicodedata.category(sign) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for sign in shown)
    assert safe(shown) == shown or "\\" in shown


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_says_the_same_in_printable_ascii(text: str) -> None:
    line = json_text({"model": text})
    assert json.loads(line) == {"model": text}
    assert line.isascii()
    assert line.isprintable()


def test_a_mark_is_told_in_one_line() -> None:
    exact = pool_pb2.Mark(completeness=pool_pb2.COMPLETENESS_EXACT, bound_secs=1)
    assert mark_sentence(exact, with_bound=True) == "EXACT (bound 1 s)"
    exact.slices_bound_secs = 90
    assert mark_sentence(exact, with_bound=True) == "EXACT (bound 1 s, slices 90 s)"
    assert mark_sentence(exact, with_bound=False) == "EXACT"
    assert mark_sentence(None, with_bound=True) == "not known yet"


def test_a_reason_of_a_later_release_is_told_by_its_number() -> None:
    estimated = pool_pb2.Mark.FromString(b"\x08\x02\x12\x02\x01\x63")
    shown = "ESTIMATED: STARTING, UNKNOWN_99; some may be missing"
    assert mark_sentence(estimated, with_bound=False) == shown


def test_times_are_shown_as_the_rest_gateway_shows_them() -> None:
    assert rfc3339(Timestamp(seconds=0, nanos=5_000_000)) == "1970-01-01T00:00:00.005Z"
    assert rfc3339(Timestamp(seconds=10**15)) == "1000000000000000"


def test_numbers_and_counts_read_naturally() -> None:
    assert (number(1.0), number(1.5)) == (1, 1.5)
    assert (count(1, "pool"), count(0, "pool"), count(2, "pool")) == (
        "1 pool",
        "0 pools",
        "2 pools",
    )
