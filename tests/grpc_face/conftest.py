"""A running service, a client of it, and the rule that nothing goes wrong quietly."""

import logging
from collections.abc import AsyncIterator, Iterator

import grpc
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs
from structlog.typing import EventDict

from global_discovery.serving.service import Service
from global_discovery.serving.tracing.otel import OtelTracer
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.clock import FakeClock
from support.grpc_calls import Stub
from support.running import a_service, target

OLD_LOOP = "PollerCompletionQueue._handle_events"
"""gRPC's one poller hands the last events of a closed loop to the next one; services have one."""


@pytest.fixture
def logged() -> Iterator[list[EventDict]]:
    """What the service logs itself."""
    with capture_logs() as lines:
        yield lines


@pytest.fixture(autouse=True)
def nothing_is_logged_as_an_error(
    caplog: pytest.LogCaptureFixture, logged: list[EventDict], request: pytest.FixtureRequest
) -> Iterator[None]:
    """No test leaves an error of gRPC, asyncio or the service; one that makes a fault says so."""
    yield
    records = [*caplog.get_records("call"), *caplog.get_records("teardown")]
    errors = [record.getMessage() for record in records if record.levelno >= logging.ERROR]
    assert [error for error in errors if OLD_LOOP not in error] == []
    if "expect_faults" not in request.fixturenames:
        assert [line for line in logged if line["log_level"] == "error"] == []


@pytest.fixture
def expect_faults() -> None:
    """The test makes internal faults, which are logged."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["plain", "traced"])
async def service(clock: FakeClock, request: pytest.FixtureRequest) -> AsyncIterator[Service]:
    """On a clock that stands still, so that nothing lapses while a machine is slow.

    Every call must be answered just the same when it is traced.
    """
    tracer = None
    if request.param == "traced":
        tracer = OtelTracer(version="1", instance_id="i", exporter=InMemorySpanExporter())
    async with a_service(clock=clock, tracer=tracer) as running:
        yield running


@pytest.fixture
async def channel(service: Service) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(target(service)) as channel:
        yield channel


@pytest.fixture
async def stub(channel: grpc.aio.Channel) -> Stub:
    return PoolDiscoveryServiceStub(channel)
