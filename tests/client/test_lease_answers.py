"""Answers to a registration that grant nothing, over both wires: each is a failed call."""

import json

import grpc
import pytest

from global_discovery.client.heartbeat_schedule import HeartbeatState
from global_discovery.client.rest_registration import MAX_ANSWER_BYTES
from support.beating import Watched, beating, failing
from support.pools import a_registration
from support.scripted_rest import (
    DROP,
    Said,
    a_problem,
    scripted_rest,
)
from support.scripted_server import granted, scripted_server
from support.timer import MovedTimer


async def failed_with(*steps: Said | str) -> HeartbeatState:
    """How a heartbeat stands after a call that was answered so."""
    async with scripted_rest() as server:
        server.script("POST", *steps)
        async with beating(Watched(server.url, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            return await heartbeat.until(failing)


def _json(**members: object) -> bytes:
    return json.dumps(
        {"lease_duration_secs": 15, "heartbeat_interval_secs": 5, "lease_id": "i"} | members
    ).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"OK",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"[" * 60_000,
        b'{"lease_duration_secs": ' + b"9" * 5_000 + b"}",
        b"{}",
        b'{"lease_duration_secs": 15}',
        _json(lease_duration_secs=0),
        _json(heartbeat_interval_secs=0),
        _json(lease_duration_secs=-15),
        _json(lease_duration_secs="15"),
        _json(lease_duration_secs=15.5),
        _json(lease_duration_secs=True),
        _json(lease_duration_secs=2**32),
        _json(lease_duration_secs=86_401),
        _json(heartbeat_interval_secs=16),
        _json(lease_duration_secs=float("nan")),
        _json(lease_id=7),
        _json(lease_id='"'),
        _json(lease_id="a\r\nX-Injected: 1"),
        _json(lease_id="i" * 65),
        _json(padding="x" * MAX_ANSWER_BYTES),
    ],
    ids=lambda body: str(body[:40]),
)
async def test_an_answer_that_grants_no_lease_is_a_failed_call(body: bytes) -> None:
    state = await failed_with(Said(200, body))
    assert state.lease is None
    assert state.next_attempt is not None


@pytest.mark.parametrize(
    "said",
    [
        Said(302, headers={"Location": "/elsewhere"}),
        Said(500, b"<html>", "text/html"),
        Said(500, b"x" * 2 * MAX_ANSWER_BYTES, "text/html"),
        Said(422, b"[]", "application/problem+json"),
        Said(422, b'{"detail": 5, "errors": 7}', "application/problem+json"),
        Said(200, b"\x1f\x8b garbage", headers={"Content-Encoding": "gzip"}),
        DROP,
    ],
    ids=str,
)
async def test_any_other_answer_is_a_failed_call_too(said: Said | str) -> None:
    state = await failed_with(said)
    assert state.lease is None


async def test_a_refusal_names_the_fields() -> None:
    state = await failed_with(
        a_problem(422, errors=[{"field": "model", "message": "is required"}, 5, {}], more_errors=2)
    )
    assert state.last_error is not None
    assert state.last_error.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "model: is required" in str(state.last_error)
    assert "and 2 more" in str(state.last_error)


@pytest.mark.parametrize(("lease", "heartbeat"), [(0, 0), (0, 5), (15, 0), (5, 6)])
async def test_a_grpc_answer_that_grants_no_lease_is_a_failed_call(
    lease: int, heartbeat: int
) -> None:
    async with scripted_server() as server:
        server.script("RegisterPool", granted(lease, heartbeat))
        async with beating(Watched(server.target, timer=MovedTimer())) as beat:
            beat.set(a_registration())
            assert (await beat.until(failing)).lease is None


@pytest.mark.parametrize("lease_id", ["x" * 65, "a b", "\u00e9", 'a"'])
async def test_what_is_no_lease_id_is_refused_over_grpc_too(lease_id: str) -> None:
    """It would be sent with every renewal, and be refused."""
    async with scripted_server() as server:
        server.script("RegisterPool", granted(lease_id=lease_id))
        async with beating(Watched(server.target, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            state = await heartbeat.until(failing)
    assert state.lease is None
    assert state.last_error is not None
    assert "what is no lease id" in str(state.last_error)
