"""Positions and page tokens: damage is told apart from strangeness."""

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.view.position import BadPosition, Position, decode, new_process_id

SOME = Position(b"process1", b"filter12", 123_456, 7)


@given(
    process=st.binary(min_size=8, max_size=8),
    wanted=st.binary(min_size=8, max_size=8),
    sequence=st.integers(0, 2**64 - 1),
    offset=st.integers(0, 2**32 - 1),
)
def test_what_is_encoded_decodes(process: bytes, wanted: bytes, sequence: int, offset: int) -> None:
    position = Position(process, wanted, sequence, offset)
    assert decode(position.encode()) == position


def test_the_text_is_short_and_safe_in_a_url_or_a_header() -> None:
    text = SOME.encode()
    assert len(text) < 64
    assert text.isascii()
    assert text.replace("-", "").replace("_", "").isalnum()


@given(index=st.integers(0, len(SOME.encode()) - 2), letter=st.sampled_from("AZaz09-_"))
def test_one_changed_letter_is_noticed(index: int, letter: str) -> None:
    text = SOME.encode()
    if text[index] == letter:
        return
    try:
        found = decode(text[:index] + letter + text[index + 1 :])
    except BadPosition:
        return
    assert found is None, "taken for a position of another release at most"


@pytest.mark.parametrize("length", range(1, len(SOME.encode())))
def test_a_part_of_one_is_damaged(length: int) -> None:
    with pytest.raises(BadPosition):
        decode(SOME.encode()[:length])


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "!!!!",
        "\u00e9\u00e9\u00e9\u00e9",
        "AAAA====",
        " ",
        "\0",
        "A" * 100_000,
        "=" * 8,
        "12345",
    ],
)
def test_what_is_no_position_is_damaged(text: str) -> None:
    with pytest.raises(BadPosition):
        decode(text)


@given(st.text(max_size=80))
def test_any_text_decodes_or_is_refused(text: str) -> None:
    with contextlib.suppress(BadPosition):
        decode(text)


def test_one_of_another_release_is_merely_foreign() -> None:
    text = SOME.encode()
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    newer = base64.urlsafe_b64encode(b"\x02" + raw[1:]).decode().rstrip("=")
    assert decode(newer) is None


def test_process_ids_differ() -> None:
    assert len({new_process_id() for _ in range(100)}) == 100
