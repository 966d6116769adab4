"""What a relay's own `/health` and `/metrics` tell."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import grpc

from global_discovery.relay.status_server import status_server
from support.metrics import metric
from support.openai_server import openai_server
from support.relaying import Relaying, relay_settings, relaying
from support.scripted_server import ScriptedServer, granted, scripted_server


@contextlib.asynccontextmanager
async def shown(*steps: Any, **fields: Any) -> AsyncIterator[tuple[Relaying, int, ScriptedServer]]:
    """A relay for the model `a`, whose calls are answered so, and the port of its status."""
    async with openai_server("a") as models, scripted_server() as server:
        server.script("RegisterPool", *steps)
        settings = relay_settings(models, server.target, **fields)
        async with relaying(settings) as relay, status_server(relay.relay) as port:
            yield relay, port, server


async def get(port: int, path: str = "/health", method: str = "GET") -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://127.0.0.1:{port}{path}") as answer,
    ):
        is_json = answer.content_type == "application/json" and method == "GET"
        return answer.status, await answer.json() if is_json else await answer.text()


async def test_health_tells_the_pool_the_model_server_and_the_lease() -> None:
    async with shown(granted()) as (relay, port, server):
        await relay.until(lambda: relay.relay.unregistered_reason is None)
        relay.timer.advance(0.5)
        status, document = await get(port)
        assert status == 200
        assert document == {
            "healthy": True,
            "routing_pool_unregistered_reason": None,
            "pool": {"cluster_id": "c1", "namespace": "ns", "dgd_name": "qwen"},
            "cluster": {"property": None, "reason": None},
            "relay_id": "relay-1",
            "model": "a",
            "model_server": {
                "ready": True,
                "models": ["a"],
                "last_good_poll_secs_ago": 0.5,
                "last_error": None,
            },
            "lease": {
                "server": server.target,
                "duration_secs": 15.0,
                "heartbeat_interval_secs": 5.0,
                "expires_in_secs": 14.5,
                "can_withdraw": True,
                "failing": False,
                "last_success_secs_ago": 0.5,
                "next_attempt_in_secs": 4.5,
                "last_error": None,
            },
        }


async def test_health_tells_the_whole_chain_of_the_last_error_and_stays_well() -> None:
    async with shown(grpc.StatusCode.INTERNAL) as (relay, port, _):
        await relay.until(lambda: relay.relay.heartbeat.failing)
        status, document = await get(port)
        assert (status, document["healthy"]) == (200, True)
        assert document["routing_pool_unregistered_reason"] == "failed call"
        lease = document["lease"]
        assert lease["expires_in_secs"] is None
        assert lease["next_attempt_in_secs"] == 1.0
        assert "as the test says" in lease["last_error"][0]
        assert len(lease["last_error"]) > 1


async def test_health_tells_why_the_model_server_cannot_be_asked() -> None:
    async with shown(granted(), health_url="http://127.0.0.1:1/health") as (relay, port, _):
        await relay.until(lambda: relay.relay.last_poll)
        _, document = await get(port)
        assert document["model_server"]["ready"] is False
        assert "127.0.0.1:1/health" in document["model_server"]["last_error"][0]


async def test_health_is_not_well_once_the_relay_has_stopped() -> None:
    async with shown(granted()) as (relay, port, _):
        await relay.until(lambda: relay.relay.unregistered_reason is None)
        await relay.stopped()
        status, document = await get(port)
        assert (status, document["healthy"]) == (503, False)
        assert document["routing_pool_unregistered_reason"] == "stopped"


async def test_the_metrics_follow_what_happens() -> None:
    steps = (grpc.StatusCode.INTERNAL, granted(), grpc.StatusCode.INTERNAL)
    async with shown(*steps) as (relay, port, _):
        prefix = "global_discovery_relay_"
        await relay.until(lambda: relay.relay.heartbeat.failing)
        assert await metric(port, f"{prefix}registered") == 0
        assert await metric(port, f'{prefix}unregistered{{reason="failed_call"}}') == 1
        relay.timer.advance(1)
        await relay.until(lambda: relay.relay.unregistered_reason is None)
        assert await metric(port, f"{prefix}registered") == 1
        assert await metric(port, f'{prefix}unregistered{{reason="failed_call"}}') == 0
        assert await metric(port, f"{prefix}lease_remaining_seconds") == 15
        assert await metric(port, f"{prefix}model_server_ready") == 1
        relay.timer.advance(5)
        await relay.until(lambda: relay.relay.counters.failed_calls == 2)
        assert await metric(port, f'{prefix}heartbeat_calls_total{{outcome="ok"}}') == 1
        assert await metric(port, f'{prefix}heartbeat_calls_total{{outcome="failed"}}') == 2
        assert await metric(port, f'{prefix}model_server_polls_total{{outcome="ok"}}') >= 1


async def test_other_requests_are_answered_as_http_has_it() -> None:
    async with shown(granted()) as (_, port, _server):
        assert (await get(port, method="HEAD"))[0] == 200
        assert (await get(port, method="POST"))[0] == 405
        assert (await get(port, "/elsewhere"))[0] == 404
