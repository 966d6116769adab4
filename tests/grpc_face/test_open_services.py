"""Health and reflection take hostile bytes and many callers as the service itself does."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import CollectorRegistry

from global_discovery.domain.access import NO_KEY, Rights
from global_discovery.serving import turns
from global_discovery.serving.grpc.open_services import OpenServices
from global_discovery.serving.grpc.service import SERVICE
from global_discovery.serving.limits import ServiceLimits
from global_discovery.serving.metrics import CallMetrics
from global_discovery.serving.service import Service
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.grpc_calls import PATIENCE_SECONDS, eventually, refusal, refused
from support.running import a_service, target

HEALTH = "/grpc.health.v1.Health/"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
CHECK, LIST, WATCH = HEALTH + "Check", HEALTH + "List", HEALTH + "Watch"
NO_TAG, CUT_OFF, NO_UTF_8 = b"\xff", b"\x0a\x05a", b"\x0a\x02\xff\xfe"


async def ended_with(channel: grpc.aio.Channel, path: str, data: bytes) -> grpc.aio.AioRpcError:
    """The error of a call with these bytes, in the form that the method has."""
    call: Any
    if path == REFLECTION:
        call = channel.stream_stream(path)(iter([data]))
    elif path == WATCH:
        call = channel.unary_stream(path)(data)
    else:
        call = channel.unary_unary(path)(data)
    answer = call if path in {CHECK, LIST} else call.read()
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await asyncio.wait_for(answer, PATIENCE_SECONDS)
    return error.value


async def counted(service: Service, method: str, code: str) -> None:
    """One such call is counted, perhaps a moment after its client has the answer."""
    labels = {"face": "grpc", "method": method, "code": code}
    await eventually(
        lambda: service.registry.get_sample_value("global_discovery_calls_total", labels) == 1
    )


@pytest.mark.parametrize(
    ("path", "data"),
    [
        *((path, data) for path in (CHECK, LIST, WATCH, REFLECTION) for data in (NO_TAG, CUT_OFF)),
        *((path, NO_UTF_8) for path in (CHECK, WATCH, REFLECTION)),
    ],
)
async def test_bytes_that_are_no_message_are_the_callers_mistake(
    service: Service, channel: grpc.aio.Channel, path: str, data: bytes
) -> None:
    """They were UNKNOWN with the library's words, and a stack trace each in the log."""
    with structlog.testing.capture_logs() as log:
        told = refusal(await ended_with(channel, path, data))
    assert (told.code, told.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT")
    assert told.fields == ["request"]
    assert not log
    await counted(service, path.rpartition("/")[2], "INVALID_ARGUMENT")


@pytest.fixture
async def strict() -> AsyncIterator[Service]:
    """Few places for watchers, and nothing for callers without an identity."""
    limits = ServiceLimits(watchers=3, watchers_per_caller=2)
    async with a_service(limits=limits, anonymous=Rights(NO_KEY, NO_KEY)) as service:
        yield service


async def test_watches_of_health_have_places_of_their_own(strict: Service) -> None:
    async with grpc.aio.insecure_channel(target(strict)) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        watches = [stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(2)]
        for watch in watches:
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub.Watch(health_pb2.HealthCheckRequest()).read()
        told = refusal(error.value)
        assert (told.reason, told.metadata["limit"]) == ("LIMIT_REACHED", "watchers_per_caller")
        assert not len(strict.core.limits.seats)
        watches[0].cancel()
        await eventually(lambda: len(strict.grpc.health._watchers) == 1)
        again = stub.Watch(health_pb2.HealthCheckRequest())
        assert (await again.read()).status == health_pb2.HealthCheckResponse.SERVING


async def test_a_flood_of_health_checks_has_a_budget_while_others_call(
    service: Service, channel: grpc.aio.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged: list[float] = []

    async def spend(account: str, seconds: float) -> None:
        assert account == "127.0.0.1"
        charged.append(seconds)

    monkeypatch.setattr(service.core.budget, "spend", spend)
    stub = health_pb2_grpc.HealthStub(channel)
    for _ in range(3):
        await stub.Check(health_pb2.HealthCheckRequest())
    assert charged == [turns.PROBE] * 3


async def test_an_unknown_service_is_counted_as_not_found(
    service: Service, channel: grpc.aio.Channel
) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    told = await refused(stub.Check(health_pb2.HealthCheckRequest(service="nobody")))
    assert told.code is grpc.StatusCode.NOT_FOUND
    await counted(service, "Check", "NOT_FOUND")


async def test_a_bad_token_does_not_keep_anybody_from_asking_for_health(strict: Service) -> None:
    async with grpc.aio.insecure_channel(target(strict)) as channel:
        metadata = (("authorization", "Bearer nonsense"),)
        stub = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(), metadata=metadata)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        listed = await refused(PoolDiscoveryServiceStub(channel).ListPools(pb.ListPoolsRequest()))
        assert listed.code is grpc.StatusCode.UNAUTHENTICATED


class GoneClient:
    """As much of a context as is asked for, of a client that went."""

    def peer(self) -> str:
        return "ipv4:10.0.0.1:1"


async def test_a_client_that_goes_while_it_is_written_to_is_no_fault(service: Service) -> None:
    async def writes(request: bytes, context: Any) -> None:
        del request, context
        raise grpc.aio.UsageError("the call is over")

    metrics = CallMetrics(CollectorRegistry())
    services = OpenServices(service.core, service.guard, metrics, SERVICE)
    with pytest.raises(asyncio.CancelledError):
        await services._call("Watch", bytes, writes)(b"", GoneClient())  # type: ignore[arg-type]
