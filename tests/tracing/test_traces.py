"""Spans of a real process, at a real collector; and a collector that is not there."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import grpc
import pytest

from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.grpc_calls import Stub, refused
from support.otlp import Collector, collector
from support.pools import a_registration
from support.rest import a_body
from support.serve_process import (
    LOOPBACK,
    PATIENCE_SECONDS,
    ServeProcess,
    clean_environment,
    started,
)

SERVICE = "global_discovery.v1.PoolDiscoveryService"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
SERVER, CLIENT = 2, 3


def told_to(url: str, **more: str) -> dict[str, str]:
    return clean_environment(OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_BSP_SCHEDULE_DELAY="100", **more)


@pytest.fixture
async def received() -> AsyncIterator[Collector]:
    async with collector() as made:
        yield made


async def call_both_faces(process: ServeProcess) -> str:
    """One good and one bad call of each, probes, and a watch; the lease id."""
    ports = await process.ready()
    url = f"http://127.0.0.1:{ports['rest_port']}"
    headers = {"traceparent": TRACEPARENT}
    async with aiohttp.ClientSession(url) as session:
        async with session.post("/pools", json=a_body(), headers=headers) as answer:
            assert answer.status == 200
        async with session.post("/pools", json={}) as answer:
            assert answer.status == 422
        for path in ("/livez", "/metrics", "/openapi.json", "/made/up"):
            await (await session.get(path)).read()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{ports['grpc_port']}") as channel:
        stub: Stub = PoolDiscoveryServiceStub(channel)
        registered = await stub.RegisterPool(
            pb.RegisterPoolRequest(registration=a_registration(1)),
            metadata=(("traceparent", TRACEPARENT),),
        )
        failed = await refused(stub.RegisterPool(pb.RegisterPoolRequest()))
        assert failed.fields  # the details of an abort are there all the same
        watch = stub.WatchPools(pb.WatchPoolsRequest())
        await watch.read()
        watch.cancel()
    return registered.lease_id


async def test_each_call_is_a_span_of_its_caller_s_trace_and_watches_are_none(
    received: Collector, tmp_path: Path
) -> None:
    store = ["--registration-storage=sqlite", f"--sqlite-path={tmp_path}/pools.db"]
    variables = told_to(received.url)
    async with started(*LOOPBACK, *store, "--tracing=on", env=variables) as process:
        lease_id = await call_both_faces(process)
        process.send(signal.SIGTERM)
        assert await process.ended() == 0
    spans = received.spans  # what was left was sent at the stop
    assert {span.name for span in spans} == {
        "POST /pools",
        f"{SERVICE}/RegisterPool",
        "put sqlite",
    }
    good, bad = [span for span in spans if span.name == "POST /pools"]
    assert (good.trace, good.parent, good.kind) == (TRACE, PARENT, SERVER)
    assert good.attributes == {
        "http.request.method": "POST",
        "http.route": "/pools",
        "http.response.status_code": 200,
    }
    assert bad.attributes["http.response.status_code"] == 422
    assert bad.trace != TRACE
    assert not bad.failed  # it is the caller's fault
    good, bad = [span for span in spans if span.name.endswith("RegisterPool")]
    assert (good.trace, good.parent) == (TRACE, PARENT)
    assert good.attributes == {
        "rpc.system": "grpc",
        "rpc.service": SERVICE,
        "rpc.method": "RegisterPool",
        "rpc.grpc.status_code": 0,
    }
    assert bad.attributes["rpc.grpc.status_code"] == 3
    puts = [span for span in spans if span.name == "put sqlite"]
    assert {put.trace for put in puts} == {TRACE}
    assert good.id in {put.parent for put in puts}
    assert puts[0].attributes == {"db.system.name": "sqlite", "db.operation.name": "put"}
    assert spans[0].resource["service.name"] == "global-discovery"
    assert lease_id not in str(spans)
    assert "pool-0" not in str(spans)


async def test_a_target_in_absolute_form_is_traced_and_one_that_is_none_is_not(
    received: Collector,
) -> None:
    variables = told_to(received.url)
    async with started(*LOOPBACK, "--tracing=on", env=variables) as process:
        port = (await process.ready())["rest_port"]
        for sent, status in (
            (b"http://discovery.example:1/pools?region=x", b"200"),
            (b"http://discovery.example/livez", b"200"),
            (b"/pools\xff", b"400"),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET " + sent + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).split()[1] == status
            writer.close()
            await writer.wait_closed()
        process.send(signal.SIGTERM)
        assert await process.ended() == 0
    (span,) = received.spans
    assert (span.name, span.attributes["http.route"]) == ("GET /pools", "/pools")


async def test_the_variables_name_the_service_and_sample(received: Collector) -> None:
    variables = told_to(received.url, OTEL_SERVICE_NAME="mine", OTEL_TRACES_SAMPLER="always_off")
    async with started(*LOOPBACK, "--tracing=on", env=variables) as process:
        await call_both_faces(process)
        process.send(signal.SIGTERM)
        assert await process.ended() == 0
    assert received.spans == []


async def test_without_the_flag_the_variables_trace_nothing(received: Collector) -> None:
    async with started(*LOOPBACK, env=told_to(received.url)) as process:
        await call_both_faces(process)
        process.send(signal.SIGTERM)
        assert await process.ended() == 0
    assert received.spans == []


@pytest.mark.parametrize("kind", ["nobody", "silent"])
async def test_a_collector_that_is_not_there_holds_nobody_up(kind: str) -> None:
    """Nobody listens, or somebody who never answers: the stop has its own bound."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if kind == "silent":
            listener.listen()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with started(*LOOPBACK, "--tracing=on", env=told_to(url)) as process:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await call_both_faces(process)
            process.send(signal.SIGTERM)
            assert await process.ended() == 0
