"""`POST` and `DELETE`: what the contract says about leases and shares, as HTTP tells it."""

from collections.abc import Sequence
from ipaddress import ip_network

import pytest
import structlog
from aiohttp import web

from global_discovery.domain.errors import StoreUnwritable
from global_discovery.serving.rest.answer import Answer
from global_discovery.storage.memory import MemoryStore
from global_discovery.storage.store import StoredShare
from support.rest import RestUnderTest, a_body, a_rest_face

KEY = "/pools/c1/ns/pool-00000"


async def test_the_answer_to_a_registration_is_the_lease(rest: RestUnderTest) -> None:
    reply = await rest.post(a_body())
    assert list(reply.json) == ["lease_duration_secs", "heartbeat_interval_secs", "lease_id"]
    assert (reply.json["lease_duration_secs"], reply.json["heartbeat_interval_secs"]) == (15, 5)
    assert reply.headers["cache-control"] == "no-store"


async def test_a_current_lease_id_is_renewed_and_kept(rest: RestUnderTest) -> None:
    lease_id = (await rest.post(a_body())).json["lease_id"]
    for sequence in (1, 2):
        body = a_body(lease_id=lease_id, sequence=sequence)
        assert (await rest.post(body)).json["lease_id"] == lease_id
    assert (await rest.post(a_body())).json["lease_id"] != lease_id


async def test_a_lower_sequence_changes_nothing(rest: RestUnderTest) -> None:
    lease_id = (await rest.post(a_body())).json["lease_id"]
    await rest.post(a_body(lease_id=lease_id, sequence=2, model="new"))
    assert (await rest.post(a_body(lease_id=lease_id, sequence=1, model="old"))).status == 200
    assert (await rest.listed())[0]["model"] == "new"


async def test_a_pool_leaves_when_its_lease_ends(rest: RestUnderTest) -> None:
    rest.end_of_starting()
    await rest.post(a_body())
    rest.pass_time(14.5)
    assert len(await rest.listed()) == 1
    rest.pass_time(1.5)
    assert await rest.listed() == []


async def test_the_callers_address_is_recorded_when_no_relays_are_given(
    rest: RestUnderTest,
) -> None:
    await rest.post(a_body(), x_forwarded_for="192.0.2.7")
    assert (await rest.listed())[0]["relays"] == ["ip:127.0.0.1"]


@pytest.mark.parametrize(
    ("forwarded", "recorded"),
    [
        ("192.0.2.7", "ip:192.0.2.7"),
        ("198.51.100.1, 192.0.2.7", "ip:192.0.2.7"),
        ("192.0.2.7, 127.0.0.2", "ip:192.0.2.7"),
        ("::ffff:192.0.2.7", "ip:192.0.2.7"),
        ("[2001:DB8::1]:443", "ip:2001:db8::1"),
        ("192.0.2.7, unknown", "ip:127.0.0.1"),
        ("", "ip:127.0.0.1"),
        ("\u0661.2.3.4", "ip:127.0.0.1"),
    ],
)
async def test_a_trusted_proxy_tells_who_is_calling(forwarded: str, recorded: str) -> None:
    async with a_rest_face(trusted=[ip_network("127.0.0.0/8")]) as rest:
        await rest.post(a_body(), x_forwarded_for=forwarded)
        assert (await rest.listed())[0]["relays"] == [recorded]


async def test_several_lines_of_x_forwarded_for_are_one_list() -> None:
    async with a_rest_face(trusted=[ip_network("127.0.0.0/8")]) as rest:
        lines = [("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-For", "192.0.2.2, 127.0.0.9")]
        headers = [("Content-Type", "application/json"), *lines]
        assert (await rest.call("POST", "/pools", json=a_body(), headers=headers)).status == 200
        assert (await rest.listed())[0]["relays"] == ["ip:192.0.2.2"]


async def test_a_parameter_of_a_registration_is_refused(rest: RestUnderTest) -> None:
    reply = await rest.call("POST", "/pools?relay_id=x", json=a_body())
    assert (reply.status, reply.json["code"]) == (400, "UNKNOWN_PARAMETER")


# -- withdrawal ---------------------------------------------------------------


async def registered(rest: RestUnderTest, **fields: object) -> str:
    reply = await rest.post(a_body(**fields))
    assert reply.status == 200
    return str(reply.json["lease_id"])


async def shares(rest: RestUnderTest) -> int:
    return rest.core.registrations.shares


@pytest.mark.parametrize("shape", ["{}", '"{}"', 'W/"{}"', '"x", "{}"', "x, {}", "{} ,*"])
async def test_a_share_is_withdrawn_by_its_lease_id(rest: RestUnderTest, shape: str) -> None:
    lease_id = await registered(rest)
    other = await registered(rest, relay_id="other")
    reply = await rest.call("DELETE", KEY, headers={"if-match": shape.format(lease_id)})
    assert (reply.status, reply.body) == (204, b"")
    assert await shares(rest) == 1
    assert (await rest.call("DELETE", KEY, headers={"if-match": other})).status == 204
    assert await rest.listed() == []


async def test_an_id_that_is_not_current_ends_nothing(rest: RestUnderTest) -> None:
    old = await registered(rest)
    await registered(rest)
    reply = await rest.call("DELETE", KEY, headers={"if-match": f'"{old}"'})
    assert (reply.status, reply.json["code"]) == (404, "SHARE_NOT_FOUND")
    assert await shares(rest) == 1


async def test_an_id_of_another_pool_ends_nothing(rest: RestUnderTest) -> None:
    lease_id = await registered(rest)
    headers = {"if-match": lease_id}
    assert (await rest.call("DELETE", "/pools/c1/ns/other", headers=headers)).status == 404
    assert await shares(rest) == 1


async def test_a_star_counts_as_no_lease_id(rest: RestUnderTest) -> None:
    await registered(rest)
    assert (await rest.call("DELETE", KEY, headers={"if-match": "*"})).status == 204


@pytest.mark.parametrize("value", ["", " ", ",", '"', '"a', "a,", "a b", '"a" "b"', 'a"b"'])
async def test_an_if_match_that_names_nothing_ends_nothing(rest: RestUnderTest, value: str) -> None:
    await registered(rest)
    reply = await rest.call("DELETE", KEY, headers={"if-match": value})
    assert reply.status == 400
    assert await shares(rest) == 1


async def test_a_lease_id_that_cannot_be_one_is_a_wrong_value(rest: RestUnderTest) -> None:
    reply = await rest.call("DELETE", KEY, headers={"if-match": "x" * 65})
    assert (reply.status, reply.fields) == (422, ["lease_id"])


async def test_a_share_is_withdrawn_by_its_relay_id(rest: RestUnderTest) -> None:
    await registered(rest, relay_id="a b")
    await registered(rest, relay_id="c")
    assert (await rest.call("DELETE", KEY + "?relay_id=a%20b")).status == 204
    assert (await rest.call("DELETE", KEY + "?relay_id=a%20b")).status == 404
    assert await shares(rest) == 1


async def test_a_share_is_withdrawn_by_its_relays_in_any_order_and_spelling(
    rest: RestUnderTest,
) -> None:
    await registered(rest, relays=["ip:10.0.0.1", "ip:2001:db8::1"])
    query = "?relay=ip:2001:DB8:0::1&relay=ip:10.0.0.1"
    assert (await rest.call("DELETE", KEY + query)).status == 204


async def test_a_share_is_withdrawn_by_the_callers_address(rest: RestUnderTest) -> None:
    await registered(rest)
    await registered(rest, relay_id="other")
    assert (await rest.call("DELETE", KEY)).status == 204
    assert (await rest.call("DELETE", KEY)).status == 404
    assert await shares(rest) == 1


async def test_a_withdrawal_through_a_trusted_proxy_is_by_the_callers_own_address() -> None:
    async with a_rest_face(trusted=[ip_network("127.0.0.0/8")]) as rest:
        await rest.post(a_body(), x_forwarded_for="192.0.2.1")
        for address, status in (("192.0.2.2", 404), ("192.0.2.1", 204)):
            headers = {"x-forwarded-for": address}
            assert (await rest.call("DELETE", KEY, headers=headers)).status == status


async def test_every_share_is_withdrawn_at_once(rest: RestUnderTest) -> None:
    for relay_id in "abc":
        await registered(rest, relay_id=relay_id)
    assert (await rest.call("DELETE", KEY + "?all=true")).status == 204
    assert await rest.listed() == []
    assert (await rest.call("DELETE", KEY + "?all=true")).status == 404


@pytest.mark.parametrize(
    "query",
    [
        "?all=false",
        "?all=True",
        "?all=",
        "?all",
        "?all=true&all=true",
        "?relay_id=a&relay_id=b",
        "?relayid=a",
        "?lease_id=x",
        "?relay_id=%zz",
    ],
)
async def test_a_parameter_that_means_nothing_ends_nothing(rest: RestUnderTest, query: str) -> None:
    await registered(rest)
    assert (await rest.call("DELETE", KEY + query)).status == 400
    assert await shares(rest) == 1


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("?relay_id=", "relay_id"),
        ("?relay_id=%C3%A9", "relay_id"),
        ("?relay=", "relay[0]"),
        ("?relay=10.0.0.1", "relay[0]"),
        ("?relay=ip:10.0.0.1&relay=ip:x", "relay[1]"),
    ],
)
async def test_a_wrong_value_of_a_parameter_is_told_by_its_name(
    rest: RestUnderTest, query: str, field: str
) -> None:
    await registered(rest)
    reply = await rest.call("DELETE", KEY + query)
    assert (reply.status, reply.fields) == (422, [field])
    assert await shares(rest) == 1


async def test_a_wrong_key_names_every_part(rest: RestUnderTest) -> None:
    reply = await rest.call("DELETE", "/pools/%20/../%C3%A9")
    assert (reply.status, reply.fields) == (422, ["cluster_id", "namespace", "dgd_name"])


async def test_a_withdrawal_names_every_offending_field_at_once(rest: RestUnderTest) -> None:
    path = "/pools/../n/%20?relay=z&relay_id=%C3%A9"
    reply = await rest.call("DELETE", path, headers={"if-match": "x" * 99})
    assert reply.status == 422
    assert reply.fields == ["cluster_id", "dgd_name", "relay_id", "relay[0]", "lease_id"]


async def test_a_withdrawn_lease_brings_nothing_back(rest: RestUnderTest) -> None:
    lease_id = await registered(rest)
    await rest.call("DELETE", KEY)
    reply = await rest.post(a_body(lease_id=lease_id))
    assert (reply.status, reply.json["code"]) == (409, "LEASE_WITHDRAWN")
    assert await rest.listed() == []


# -- refusals -----------------------------------------------------------------


async def test_one_share_too_many_is_told_when_to_come_back(rest: RestUnderTest) -> None:
    for number in range(64):
        await registered(rest, relay_id=f"r{number}")
    reply = await rest.post(a_body(relay_id="one more"))
    assert (reply.status, reply.json["code"]) == (429, "TOO_MANY_SHARES")
    assert reply.headers["retry-after"] == "15"


async def test_calls_before_the_store_was_read_and_after_the_end_are_told_to_come_back() -> None:
    async with a_rest_face(opened=False) as rest:
        for code in ("NOT_READY", "SHUTTING_DOWN"):
            for reply in (await rest.post(a_body()), await rest.call("DELETE", KEY)):
                assert (reply.status, reply.json["code"]) == (503, code)
                assert reply.headers["retry-after"] == "1"
            assert (await rest.call("GET", "/pools")).json["complete"] is False
            rest.core.registrar.shut()


class FailingStore(MemoryStore):
    """A store whose every write ends with the given error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def put(self, share: StoredShare) -> None:
        del share
        raise self._error

    async def withdraw(self, lease_ids: Sequence[str], *, remember: float) -> None:
        del lease_ids, remember
        raise self._error


async def test_what_could_not_be_stored_is_told_with_a_whole_number_of_seconds() -> None:
    async with a_rest_face(store=FailingStore(StoreUnwritable(retry_after=2.2))) as rest:
        reply = await rest.post(a_body())
        assert (reply.status, reply.json["code"]) == (503, "STORE_UNWRITABLE")
        assert reply.headers["retry-after"] == "3"
        assert len(await rest.listed()) == 1
        assert (await rest.call("DELETE", KEY)).status == 503
        assert len(await rest.listed()) == 1


async def test_a_fault_of_ours_is_told_by_an_id_and_logged_once() -> None:
    text = "no such file: /var/lib/hidden"
    async with a_rest_face(store=FailingStore(RuntimeError(text))) as rest:
        with structlog.testing.capture_logs() as logged:
            reply = await rest.post(a_body())
        assert reply.status == 500
        assert reply.json["detail"] == "internal error"
        assert text.encode() not in reply.body
        [line] = logged
        assert line["event"] == "internal_error"
        assert line["request_id"] == reply.json["request_id"]
        assert line["method"] == "POST /pools"


async def test_a_fault_while_an_answer_is_made_is_no_stack_trace(
    rest: RestUnderTest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = rest.face._main._gateway
    make, made = gateway._response, []

    def broken_once(answer: Answer) -> web.Response:
        made.append(answer)
        if len(made) == 1:
            raise RuntimeError
        return make(answer)

    monkeypatch.setattr(gateway, "_response", broken_once)
    with structlog.testing.capture_logs() as logged:
        [reply] = await rest.send(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (reply.status, reply.json["code"]) == (500, "INTERNAL")
    assert [line["event"] for line in logged] == ["internal_error"]
    assert caplog.records == []
