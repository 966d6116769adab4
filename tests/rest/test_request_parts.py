"""Parsing of what callers send: right for what is right, and never an accident."""

import contextlib
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.domain.errors import InvalidInput
from global_discovery.serving.rest import request_parts, strict_json
from global_discovery.serving.rest.problem import Problem
from global_discovery.serving.rest.registration_body import RegistrationBodies

HEADER_TEXT = st.text(st.characters(max_codepoint=255), max_size=60)
LEASE_LIKE = st.text("abcXYZ019-_", min_size=1, max_size=20)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(HEADER_TEXT)
def test_no_header_value_is_an_accident(text: str) -> None:
    request_parts.is_json(text)
    request_parts.takes_gzip(text)
    request_parts.tag_matches(text, '"tag"')


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call gives, or the status of the problem that it raises; nothing else may come."""
    try:
        return call(*arguments)
    except Problem as refused:
        return refused.status
    except InvalidInput as refused:
        return refused.total and 422


@given(HEADER_TEXT)
def test_if_match_gives_ids_or_a_problem(text: str) -> None:
    ids = outcome(request_parts.lease_ids, text)
    assert ids == 400 or all(lease_id in text for lease_id in ids)


@given(st.lists(LEASE_LIKE, min_size=1, max_size=5), st.sampled_from(["{}", '"{}"', 'W/"{}"']))
def test_the_ids_of_if_match_come_back_in_their_order(ids: list[str], shape: str) -> None:
    text = ", ".join(shape.format(lease_id) for lease_id in ids)
    assert request_parts.lease_ids(text) == tuple(ids)


@given(st.lists(LEASE_LIKE, max_size=5), LEASE_LIKE)
def test_a_tag_matches_exactly_when_it_is_in_the_list(tags: list[str], tag: str) -> None:
    text = ", ".join(f'"{each}"' for each in tags)
    assert request_parts.tag_matches(text, f'"{tag}"') is (tag in tags)


@given(st.text(max_size=80))
def test_any_target_gives_a_path_or_a_problem(text: str) -> None:
    target = outcome(request_parts.parse_target, text)
    if target != 400:
        assert target.path in text
        assert isinstance(outcome(request_parts.key_part, target.path), str | int)
        values = outcome(request_parts.query_parameters, target.query, ("a",))
        assert values == 400 or list(values) == ["a"]


@given(JSON_VALUES, st.booleans())
def test_json_is_read_as_json_reads_it(value: Any, ascii_only: bool) -> None:  # noqa: FBT001 - drawn
    body = json.dumps({"value": value}, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert strict_json.parse_object(body) == {"value": value}


@given(st.binary(max_size=200))
def test_any_bytes_are_an_object_or_malformed(body: bytes) -> None:
    with contextlib.suppress(strict_json.Malformed):
        assert isinstance(strict_json.parse_object(body), dict)


NAMES = ["cluster_id", "namespace", "dgd_name", "model", "location", "capabilities", "capacity"]
NAMES += ["frontends", "relays", "relay_id", "lease_id", "sequence", "region", "gpu_sku"]


@given(st.dictionaries(st.sampled_from([*NAMES, "gpu_count", "x"]), JSON_VALUES))
def test_any_object_is_a_registration_or_told_what_is_wrong(members: dict[str, Any]) -> None:
    told = outcome(RegistrationBodies().read, json.dumps(members).encode())
    assert told in {400, 422} or told.registration.key


@pytest.mark.parametrize("digits", ["1" * 25, "1" * 4_301, "-" + "9" * 200_000])
def test_a_number_of_any_length_stays_beyond_any_range(digits: str) -> None:
    number = strict_json.parse_object(b'{"n":' + digits.encode() + b"}")["n"]
    assert abs(number) > 10**20
    assert math.copysign(1, number) == (-1 if digits.startswith("-") else 1)


def test_a_small_body_is_checked_once_and_a_large_one_is_not_kept() -> None:
    bodies = RegistrationBodies()
    location = {"region": "r"}
    small = {"cluster_id": "c", "namespace": "n", "dgd_name": "d", "model": "m"}
    small["location"] = location  # type: ignore[assignment]  # JSON has many types
    data = json.dumps(small).encode()
    assert bodies.read(data) is bodies.read(data)
    large = data + b" " * 5_000
    assert bodies.read(large) is not bodies.read(large)
    assert bodies.read(large) == bodies.read(data)
