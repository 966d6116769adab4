"""Every oddity of JSON in `POST /pools` has one answer."""

import json
from typing import Any

import pytest

from support.rest import RestUnderTest, a_body

SMALL = json.dumps(a_body())


def with_field(text: str) -> str:
    """A legal registration with one more member, as text."""
    return SMALL[:-1] + "," + text + "}"


def with_gpu_count(text: str) -> str:
    """A legal registration but for a number, as text."""
    return with_field('"capacity":[{"gpu_sku":"h","gpu_count":' + text + "}]")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"",
        b"null",
        b'"x"',
        b"5",
        b"[]",
        b"{} x",
        b"{}{}",
        b"{'a':1}",
        b'{"a":1,}',
        b"\xef\xbb\xbf{}",
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":01}',
        b'{"a":"\x01"}',
        b"//\n{}",
    ],
)
async def test_what_is_not_one_json_object_is_malformed(rest: RestUnderTest, body: bytes) -> None:
    reply = await rest.post(body)
    assert reply.status == 400
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json["code"] == "MALFORMED_JSON"
    assert await rest.listed() == []


@pytest.mark.parametrize(
    "body",
    [
        b"\xff",
        '{"model":"m"}'.encode("utf-16"),
        '{"model":"é"}'.encode("latin-1"),
        b'{"model":"\xed\xa0\x80"}',
    ],
)
async def test_a_body_that_is_not_utf8_is_malformed(rest: RestUnderTest, body: bytes) -> None:
    assert (await rest.post(body)).status == 400


@pytest.mark.parametrize(
    "body",
    [
        SMALL.replace('"m"', r'"\ud800"'),
        with_field(r'"future":"\udfff"'),
        with_field(r'"future":{"\ud83d":1}'),
        with_field(r'"future":[["\ude00\ud83d"]]'),
    ],
)
async def test_an_escape_that_is_no_character_is_malformed(rest: RestUnderTest, body: str) -> None:
    reply = await rest.post(body)
    assert (reply.status, reply.json["code"]) == (400, "MALFORMED_JSON")


async def test_a_surrogate_pair_is_one_character(rest: RestUnderTest) -> None:
    body = SMALL.replace('"m"', r'"\ud83d\ude00"')
    assert (await rest.post(body)).status == 200
    assert (await rest.listed())[0]["model"] == "😀"


async def test_an_escaped_backslash_before_u_is_no_escape(rest: RestUnderTest) -> None:
    assert (await rest.post(SMALL.replace('"m"', r'"\\ud800"'))).status == 200
    assert (await rest.listed())[0]["model"] == r"\ud800"


@pytest.mark.parametrize(
    "body",
    [
        with_field('"model":"m"'),
        with_field('"future":{"a":1,"a":1}'),
        with_field('"future":[[{"a":1,"\\u0061":2}]]'),
        SMALL.replace('{"region": "r1"}', '{"region":"r1","region":"r1"}'),
    ],
)
async def test_a_duplicate_name_at_any_depth_is_malformed(rest: RestUnderTest, body: str) -> None:
    reply = await rest.post(body)
    assert (reply.status, reply.json["code"]) == (400, "MALFORMED_JSON")


async def test_thirty_two_levels_are_taken_and_thirty_three_are_not(rest: RestUnderTest) -> None:
    def nested(levels: int) -> str:
        return with_field('"future":' + "[" * levels + "]" * levels)

    assert (await rest.post(nested(31))).status == 200
    assert (await rest.post(nested(32))).status == 400


@pytest.mark.parametrize("opening", ["[", '{"a":'])
async def test_a_megabyte_of_opening_brackets_is_malformed(
    rest: RestUnderTest, opening: str
) -> None:
    reply = await rest.post(opening * (1_000_000 // len(opening)))
    assert reply.status == 400


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cluster_id", 5),
        ("model", ["m"]),
        ("model", True),
        ("location", "r1"),
        ("location", []),
        ("location.region", 1),
        ("capabilities", "chat"),
        ("capabilities", {}),
        ("capabilities[0]", 1),
        ("capabilities[0]", None),
        ("frontends[0]", None),
        ("relays[0]", {}),
        ("capacity", {}),
        ("capacity[0]", None),
        ("capacity[0]", "h100"),
        ("relay_id", 7),
        ("lease_id", False),
        ("sequence", "1"),
        ("sequence", 1.5),
        ("sequence", True),
    ],
)
async def test_a_wrong_type_is_told_with_its_field(
    rest: RestUnderTest, field: str, value: Any
) -> None:
    name, _, inner = field.partition(".")
    if inner:
        body = a_body(**{name: {inner: value}})
    elif field.endswith("[0]"):
        body = a_body(**{field[:-3]: [value]})
    else:
        body = a_body(**{field: value})
    reply = await rest.post(body)
    assert reply.status == 400
    assert reply.fields == [field]


@pytest.mark.parametrize("count", [1.5, True, False, "8", "", [], {}, 1e-3])
async def test_a_gpu_count_that_is_no_whole_number_has_the_wrong_type(
    rest: RestUnderTest, count: Any
) -> None:
    reply = await rest.post(a_body(capacity=[{"gpu_sku": "h100", "gpu_count": count}]))
    assert reply.status == 400
    assert reply.fields == ["capacity[0].gpu_count"]


@pytest.mark.parametrize("count", ["8", "8.0", "8e0", "80e-1", "0.8e1"])
async def test_a_whole_number_may_be_written_with_a_point(rest: RestUnderTest, count: str) -> None:
    reply = await rest.post(with_gpu_count(count))
    assert reply.status == 200
    assert (await rest.listed())[0]["capacity"] == [{"gpu_sku": "h", "gpu_count": 8}]


@pytest.mark.parametrize(
    "count",
    ["0", "-0", "-1", "1000001", "1e400", "-1e400", "9" * 30, "9" * 5_000, "-" + "9" * 100_000],
)
async def test_a_whole_number_out_of_range_is_a_wrong_value(
    rest: RestUnderTest, count: str
) -> None:
    reply = await rest.post(with_gpu_count(count))
    assert reply.status == 422
    assert reply.fields == ["capacity[0].gpu_count"]


async def test_a_huge_number_in_an_unknown_field_is_ignored(rest: RestUnderTest) -> None:
    assert (await rest.post(with_field('"future":' + "9" * 100_000))).status == 200


async def test_null_missing_and_empty_are_the_same(rest: RestUnderTest) -> None:
    optional = ("frontends", "relays", "capabilities", "capacity")
    lists = []
    for body in (
        a_body(),
        a_body(**dict.fromkeys(optional)),
        a_body(**{name: [] for name in optional}),
    ):
        assert (await rest.post(body)).status == 200
        [pool] = await rest.listed()
        lists.append({name: value for name, value in pool.items() if "time" not in name})
    assert lists[0] == lists[1] == lists[2]


async def test_every_optional_member_may_be_null(rest: RestUnderTest) -> None:
    names = ("relay_id", "lease_id", "sequence")
    location = {"region": "r1", "availability_zone": None, "datacenter": ""}
    assert (await rest.post(a_body(location=location, **dict.fromkeys(names)))).status == 200
    assert (await rest.listed())[0]["location"] == {"region": "r1"}


@pytest.mark.parametrize("name", ["frontends", "relays", "capabilities"])
async def test_an_empty_member_of_a_set_is_a_wrong_value(rest: RestUnderTest, name: str) -> None:
    reply = await rest.post(a_body(**{name: [""]}))
    assert reply.status == 422
    assert reply.fields == [f"{name}[0]"]


@pytest.mark.parametrize("name", ["cluster_id", "namespace", "dgd_name", "model"])
@pytest.mark.parametrize("value", [None, ""])
async def test_a_missing_required_field_is_a_wrong_value(
    rest: RestUnderTest, name: str, value: str | None
) -> None:
    reply = await rest.post(a_body(**{name: value}))
    assert reply.status == 422
    assert reply.fields == [name]


async def test_an_empty_object_names_every_required_field(rest: RestUnderTest) -> None:
    reply = await rest.post({})
    assert reply.status == 422
    assert reply.fields == ["cluster_id", "namespace", "dgd_name", "model", "location.region"]


async def test_unknown_fields_are_ignored(rest: RestUnderTest) -> None:
    body = a_body(future={"deep": [1, {"x": None}]}, location={"region": "r1", "rack": 4})
    assert (await rest.post(body)).status == 200


async def test_the_camel_case_twin_of_a_field_is_an_unknown_field(rest: RestUnderTest) -> None:
    reply = await rest.post(a_body(clusterId="c2", dgdName=7, relayId="x"))
    assert reply.status == 200
    assert (await rest.listed())[0]["cluster_id"] == "c1"
    twin = {name: value for name, value in a_body(clusterId="c1").items() if name != "cluster_id"}
    assert (await rest.post(twin)).fields == ["cluster_id"]


async def test_many_wrong_types_are_told_up_to_a_limit_and_counted(rest: RestUnderTest) -> None:
    reply = await rest.post(a_body(model=1, frontends=[1] * 100))
    assert reply.status == 400
    assert len(reply.json["errors"]) == 32
    assert reply.json["more_errors"] == 69
    assert len(reply.body) < 8192


async def test_many_wrong_values_are_told_up_to_a_limit_and_counted(rest: RestUnderTest) -> None:
    reply = await rest.post(a_body(frontends=[f"ftp://h{n}" for n in range(100)]))
    assert reply.status == 422
    assert len(reply.json["errors"]) + reply.json["more_errors"] == 100
    assert len(reply.body) < 8192


async def test_no_answer_repeats_what_the_caller_sent(rest: RestUnderTest) -> None:
    sent = "Zq7x"
    bodies: list[str | dict[str, Any]] = [
        with_field(f'"{sent}":1,"{sent}":2'),
        a_body(model=f"{sent}\n"),
        a_body(frontends=[f"ftp://{sent}"]),
        a_body(relays=[sent]),
        a_body(location={sent: 1}),
        "{" + sent,
    ]
    for body in bodies:
        reply = await rest.post(body)
        assert reply.status in {400, 422}
        assert sent.encode() not in reply.body


async def test_the_largest_legal_registration_may_be_escaped_character_by_character(
    rest: RestUnderTest,
) -> None:
    path = "p" * 40
    body = a_body(
        model="m" * 1024,
        frontends=[f"http://10.0.{n // 256}.{n % 256}:8000/{path}" for n in range(840)],
        capabilities=[f"c{n:03}" for n in range(256)],
        capacity=[{"gpu_sku": f"sku-{n}", "gpu_count": 1} for n in range(256)],
        relays=[f"ip:10.1.0.{n}" for n in range(256)],
    )

    def escaped(value: Any) -> str:
        if isinstance(value, str):
            return '"' + "".join(f"\\u{ord(char):04x}" for char in value) + '"'
        if isinstance(value, list):
            return "[" + ",".join(map(escaped, value)) + "]"
        if isinstance(value, dict):
            members = (f"{escaped(name)}:{escaped(inner)}" for name, inner in value.items())
            return "{" + ",".join(members) + "}"
        return json.dumps(value)

    text = escaped(body)
    assert 300_000 < len(text) < 1024 * 1024
    reply = await rest.post(text)
    assert reply.status == 200, reply.body
    assert len((await rest.listed())[0]["frontends"]) == 840
