"""Every rule about a registration, from both sides."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from global_discovery.domain import frontend_url, rules
from global_discovery.domain.errors import MAX_BYTES_TOLD, InvalidInput, Violation
from global_discovery.domain.pool import Content, Location, Registration
from global_discovery.domain.rules import RawRegistration, check_registration

A_POOL = RawRegistration(cluster_id="c", namespace="n", dgd_name="d", model="m", region="r")
KEY_FIELDS = ["cluster_id", "namespace", "dgd_name"]
STRING_FIELDS = ["region", "availability_zone", "datacenter"]
TOLD_AS = {name: f"location.{name}" for name in STRING_FIELDS}


def violations(**changes: Any) -> dict[str, str]:
    """What a registration with these values is refused for, by field."""
    with pytest.raises(InvalidInput) as refused:
        check_registration(replace(A_POOL, **changes))
    assert refused.value.total == len(refused.value.violations)
    return dict(refused.value.violations)


def accepted(**changes: Any) -> Registration:
    return check_registration(replace(A_POOL, **changes))


# -- strings -----------------------------------------------------------------


@pytest.mark.parametrize("name", [*KEY_FIELDS, "model", "region"])
def test_a_required_field_may_not_be_absent(name: str) -> None:
    assert violations(**{name: ""}) == {TOLD_AS.get(name, name): "is required"}


@pytest.mark.parametrize("name", ["availability_zone", "datacenter"])
def test_an_optional_field_may_be_absent(name: str) -> None:
    assert getattr(accepted(**{name: ""}).content.location, name) == ""
    assert getattr(accepted(**{name: "x"}).content.location, name) == "x"


@pytest.mark.parametrize("name", KEY_FIELDS)
@pytest.mark.parametrize("part", ["a", "A-b_c.d", "...", ".a", "a b", "~!@#%&*()", "x" * 253])
def test_a_part_of_the_key_is_printable_ascii(name: str, part: str) -> None:
    assert getattr(accepted(**{name: part}).key, name) == part


@pytest.mark.parametrize("name", KEY_FIELDS)
@pytest.mark.parametrize(
    "part",
    [".", "..", "/", "a/b", " a", "a ", " ", "a\n", "\n", "a\tb", "a\x00", "a\x7f", "ä", "x" * 254],
)
def test_a_part_of_the_key_that_is_not_is_refused(name: str, part: str) -> None:
    assert set(violations(**{name: part})) == {name}


@pytest.mark.parametrize("name", ["model", *STRING_FIELDS])
@pytest.mark.parametrize("text", ["Qwen/Qwen3-0.6B", "a b", "ä", "日本", "x", "a\u200bb", "😀"])
def test_other_strings_take_any_characters_but_controls(name: str, text: str) -> None:
    accepted(**{name: text})


@pytest.mark.parametrize("name", ["model", *STRING_FIELDS])
@pytest.mark.parametrize(
    "text",
    [
        " a",
        "a ",
        "\ta",
        "a\n",
        "a\x00b",
        "a\x1fb",
        "a\x7f",
        "a\x85b",
        "\u00a0a",
        "a\u2003",
        "a\u2028",
        " ",
        "a\ud800",
        "\udfffa",
    ],
)
def test_other_strings_have_no_control_and_no_white_space_at_either_end(
    name: str, text: str
) -> None:
    assert set(violations(**{name: text})) == {TOLD_AS.get(name, name)}


@pytest.mark.parametrize(
    ("name", "limit"), [("model", 1024), *((name, 253) for name in STRING_FIELDS)]
)
@pytest.mark.parametrize("character", ["x", "é", "日"])
def test_the_limits_of_strings_are_in_bytes(name: str, limit: int, character: str) -> None:
    size = len(character.encode())
    longest = character * (limit // size) + "x" * (limit % size)
    accepted(**{name: longest})
    assert violations(**{name: longest + "x"}) == {
        TOLD_AS.get(name, name): f"must be 1 to {limit} bytes"
    }


# -- sets --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "listed"),
    [
        ("capabilities", ["b", "a", "b"], ("a", "b")),
        ("frontends", ["http://b", "HTTP://A/", "http://a:80"], ("http://a", "http://b")),
        (
            "relays",
            ["ip:10.0.0.2", "ip:::ffff:10.0.0.1", "ip:10.0.0.1"],
            ("ip:10.0.0.1", "ip:10.0.0.2"),
        ),
        ("relays", ["ip:FD00:0::1", "ip:fd00::1"], ("ip:fd00::1",)),
    ],
)
def test_arrays_are_sorted_sets_of_normalised_values(
    name: str, given: Sequence[str], listed: tuple[str, ...]
) -> None:
    registration = accepted(**{name: given})
    found = registration.relays if name == "relays" else getattr(registration.content, name)
    assert found == listed
    assert accepted(**{name: list(reversed(given))}) == registration


def member(name: str, number: int) -> str:
    return {
        "capabilities": f"c{number:04}",
        "frontends": f"http://h{number:04}",
        "relays": f"ip:10.0.{number // 256}.{number % 256}",
    }[name]


@pytest.mark.parametrize(
    ("name", "limit"), [("capabilities", 256), ("frontends", 1024), ("relays", 256)]
)
def test_the_limits_of_arrays_count_different_entries(name: str, limit: int) -> None:
    most = [member(name, number) for number in range(limit)]
    accepted(**{name: most * 3})
    assert violations(**{name: [*most, member(name, limit)]}) == {
        name: f"must have at most {limit} different entries"
    }


@pytest.mark.parametrize("bad", ["", " ", "a ", "a\n", "x" * 254])
def test_a_capability_is_a_string_like_the_others(bad: str) -> None:
    assert set(violations(capabilities=["ok", bad])) == {"capabilities[1]"}


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "10.0.0.1",
        "ip:",
        "ip:x",
        "IP:10.0.0.1",
        "ip: 10.0.0.1",
        "ip:10.0.0.1:80",
        "ip:10.0.0",
        "ip:010.0.0.1",
        "ip:10.0.0.1/32",
        "ip:[::1]",
        "ip:fe80::1%eth0",
        "ip:::g",
        "ip:\ud800",
        "name:a",
    ],
)
def test_a_relay_is_an_ip_address_and_nothing_else(bad: str) -> None:
    assert set(violations(relays=["ip:10.0.0.1", bad])) == {"relays[1]"}


def test_a_bad_member_is_named_by_where_it_first_stands() -> None:
    told = violations(frontends=["http://a", "bad", "http://a", "bad", "ftp://x"])
    assert set(told) == {"frontends[1]", "frontends[4]"}


def test_all_arrays_may_be_empty() -> None:
    registration = accepted(capabilities=[], capacity=[], frontends=[], relays=[])
    assert registration.content == Content("m", Location("r"))
    assert registration.relays == ()


# -- capacity ----------------------------------------------------------------


def test_entries_of_one_sku_are_added_up() -> None:
    capacity = [("h100", 8), ("a100", 1), ("h100", 8), ("h100", 8)]
    assert accepted(capacity=capacity).content.capacity == (("a100", 1), ("h100", 24))


@pytest.mark.parametrize("count", [1, 1_000_000])
def test_a_count_at_its_limits_is_taken(count: int) -> None:
    assert accepted(capacity=[("h", count)]).content.capacity == (("h", count),)


@pytest.mark.parametrize("count", [0, -1, 1_000_001, 2**31 - 1, -(2**31)])
def test_a_count_beyond_its_limits_is_refused(count: int) -> None:
    assert set(violations(capacity=[("g", 1), ("h", count)])) == {"capacity[1].gpu_count"}


def test_a_sum_keeps_to_the_same_limit() -> None:
    accepted(capacity=[("h", 999_999), ("h", 1)])
    assert violations(capacity=[("h", 999_999), ("h", 2)]) == {
        "capacity[1].gpu_count": "adds up to more than 1000000"
    }


@pytest.mark.parametrize("sku", ["", " a", "a\n", "x" * 254])
def test_a_sku_is_a_string_like_the_others(sku: str) -> None:
    assert set(violations(capacity=[(sku, 1)])) == {"capacity[0].gpu_sku"}


def test_capacity_has_at_most_256_entries_after_adding_up() -> None:
    most = [(f"sku{number}", 1) for number in range(256)]
    assert len(accepted(capacity=most * 2).content.capacity) == 256
    assert set(violations(capacity=[*most, ("one-more", 1)])) == {"capacity"}


# -- what is told ------------------------------------------------------------


def test_every_offending_field_is_named_at_once() -> None:
    told = violations(
        cluster_id="",
        namespace="a/b",
        dgd_name="..",
        model="",
        region=" r",
        availability_zone="a\n",
        datacenter="x" * 254,
        capabilities=["", "ok"],
        capacity=[("", 0), ("h", 0)],
        frontends=["x", "http://ok", "ftp://x"],
        relays=["x"],
    )
    assert set(told) == {
        *KEY_FIELDS,
        "model",
        "location.region",
        "location.availability_zone",
        "location.datacenter",
        "capabilities[0]",
        "capacity[0].gpu_sku",
        "capacity[0].gpu_count",
        "capacity[1].gpu_count",
        "frontends[0]",
        "frontends[2]",
        "relays[0]",
    }


@pytest.mark.parametrize(("count", "untold"), [(31, 0), (32, 0), (33, 1), (1024, 992)])
def test_the_first_32_are_named_and_the_rest_is_counted(count: int, untold: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_registration(replace(A_POOL, frontends=[f"bad{number}" for number in range(count)]))
    error = refused.value
    assert len(error.violations) == min(count, 32)
    assert (error.total, error.untold) == (count, untold)
    assert [violation.field for violation in error.violations[:2]] == [
        "frontends[0]",
        "frontends[1]",
    ]


def test_what_is_told_has_at_most_4_kib() -> None:
    error = InvalidInput([Violation(f"field{number}", "x" * 400) for number in range(32)])
    told = sum(len(field) + len(message) for field, message in error.violations)
    assert told <= MAX_BYTES_TOLD == 4096
    assert len(error.violations) == 10
    assert error.untold == 22
    assert len(str(error).encode()) <= 2048
    assert str(error).endswith("; and 30 more")


def test_one_violation_is_told_in_a_sentence() -> None:
    with pytest.raises(InvalidInput, match=r"^model: is required$"):
        check_registration(replace(A_POOL, model=""))


# -- the whole ---------------------------------------------------------------


def test_a_registration_has_at_most_64_kib() -> None:
    frontends = [f"http://h/{number:04}" + "a" * 400 for number in range(156)]
    room = 64 * 1024 - rules.encoded_size(accepted(frontends=frontends))
    assert 300 < room < 1000
    exactly = accepted(frontends=frontends, model="x" * room)
    assert rules.encoded_size(exactly) == 64 * 1024
    assert violations(frontends=frontends, model="x" * (room + 1)) == {
        "registration": "is larger than 65536 bytes"
    }


def test_the_size_counts_after_normalisation() -> None:
    twice = [f"http://h{number}:80/" + "a" * 480 for number in range(130)] * 2
    accepted(frontends=twice)


# -- bounded work ------------------------------------------------------------


def test_a_set_above_its_limit_is_refused_without_a_look_at_its_members(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(frontend_url, "normalize", seen.append)
    assert set(violations(frontends=[f"http://h{number}" for number in range(100_000)])) == {
        "frontends"
    }
    assert seen == []


def test_each_different_member_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    normalize = frontend_url.normalize

    def counting(url: str) -> str:
        seen.append(url)
        return normalize(url)

    monkeypatch.setattr(frontend_url, "normalize", counting)
    with pytest.raises(InvalidInput) as refused:
        check_registration(replace(A_POOL, frontends=["bad", "http://h"] * 50_000))
    assert len(seen) == 2
    assert refused.value.total == 1


def test_a_huge_capacity_is_refused_as_a_whole() -> None:
    assert set(violations(capacity=[("", 0)] * 100_000)) == {"capacity"}


@pytest.mark.parametrize("name", [*KEY_FIELDS, "model", *STRING_FIELDS])
def test_a_string_as_long_as_a_message_is_one_violation(name: str) -> None:
    assert set(violations(**{name: "a" * 2**20})) == {TOLD_AS.get(name, name)}


def test_hostile_members_of_sets_are_one_violation_each() -> None:
    huge = "a" * 2**19
    told = violations(capabilities=[huge], frontends=[f"http://{huge}"], relays=[f"ip:{huge}"])
    assert set(told) == {"capabilities[0]", "frontends[0]", "relays[0]"}
