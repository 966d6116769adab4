"""Health and reflection: open to everybody, and bounded like everything else.

They are the libraries' own services. Around them, what theirs lack: a request that does
not parse is INVALID_ARGUMENT and not a fault with a stack trace, a caller has its turn
and its budget, and streams have places, as many as watchers have. No identity is asked.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from global_discovery.domain.errors import DiscoveryError, InvalidInput, Violation
from global_discovery.serving import turns
from global_discovery.serving.access.guard import Guard
from global_discovery.serving.core import Core
from global_discovery.serving.grpc import errors
from global_discovery.serving.grpc.health import Health
from global_discovery.serving.grpc.peer import FACE, Context, GrpcPeer
from global_discovery.serving.limits import counted
from global_discovery.serving.metrics import CallMetrics
from global_discovery.view.seats import Seats

HEALTH = "grpc.health.v1.Health"
Behaviour = Callable[[Any, Context], Awaitable[Any]]


class OpenServices:
    """Both, for one server."""

    def __init__(self, core: Core, guard: Guard, metrics: CallMetrics, service: str) -> None:
        """`service` is what they tell of, besides themselves."""
        self.health = Health([service])
        self._service = service
        self._core = core
        self._guard = guard
        self._metrics = metrics
        allowed = core.settings.limits
        self._seats = Seats(allowed.watchers, allowed.watchers_per_caller)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Adds both."""
        services = _Services()
        health_pb2_grpc.add_HealthServicer_to_server(self.health, services)
        names = (self._service, HEALTH, reflection.SERVICE_NAME)
        servicer = reflection.aio.ReflectionServicer(names)
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, services)
        for name, handlers in services.handlers.items():
            bounded = {method: self._bounded(method, each) for method, each in handlers.items()}
            server.add_registered_method_handlers(name, bounded)

    def _bounded(self, method: str, handler: Any) -> Any:
        """The same method, whose requests come as bytes."""
        write = handler.response_serializer
        if handler.unary_unary:
            call = self._call(method, handler.request_deserializer, handler.unary_unary)
            return grpc.unary_unary_rpc_method_handler(call, response_serializer=write)
        if handler.unary_stream:
            watch = self._seated(handler.unary_stream)
            call = self._call(method, handler.request_deserializer, watch)
            return grpc.unary_stream_rpc_method_handler(call, response_serializer=write)

        async def talk(requests: Any, context: Context) -> None:
            parsed = self._parsed(requests, handler.request_deserializer, context)
            async for answer in handler.stream_stream(parsed, context):
                await context.write(answer)

        call = self._call(method, lambda requests: requests, self._seated(talk))
        return grpc.stream_stream_rpc_method_handler(call, response_serializer=write)

    def _call(self, method: str, parse: Callable[[Any], Any], behaviour: Behaviour) -> Behaviour:
        async def call(data: Any, context: Context) -> Any:
            account, code = self._account(context), "CANCELLED"
            try:
                await self._core.turns.take(account)
                request = _parse(parse, data)
                await self._core.budget.spend(account, turns.PROBE)
                answer = await behaviour(request, context)
                code = "OK"
                return answer
            except DiscoveryError as raised:
                error = self._core.limits.judged(raised, account)
                code = errors.code_of(error).name
                self._metrics.refused(FACE, error.reason)
                await self._core.budget.spend(account, turns.MISTAKE)
                instance = self._core.settings.instance_id
                await errors.abort(context, errors.status_of(error), instance)
            except grpc.aio.AbortError:
                code = context.code().name
                raise
            except grpc.aio.BaseError:
                # The call is over for gRPC: its client went while we wrote to it.
                raise asyncio.CancelledError from None
            finally:
                self._metrics.answered(FACE, method, code, None)

        return call

    def _seated(self, behaviour: Behaviour) -> Behaviour:
        """For a stream, which takes a place."""

        async def watch(request: Any, context: Context) -> Any:
            give_back = self._seats.take(self._account(context))
            try:
                return await behaviour(request, context)
            finally:
                give_back()

        return watch

    async def _parsed(
        self, requests: Any, parse: Callable[[bytes], Any], context: Context
    ) -> AsyncIterator[Any]:
        account = self._account(context)
        async for data in requests:
            await self._core.turns.take(account)
            await self._core.budget.spend(account, turns.MISTAKE)
            yield _parse(parse, data)

    def _account(self, context: Context) -> str:
        return counted(self._guard.anybody(GrpcPeer(context)))


class _Services:
    """A server, as far as the libraries' code adds services to one."""

    def __init__(self) -> None:
        self.handlers: dict[str, Mapping[str, Any]] = {}

    def add_generic_rpc_handlers(self, _: Any) -> None:
        """Every method is registered by its name."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        self.handlers[service] = handlers


def _parse(parse: Callable[[Any], Any], data: Any) -> Any:
    try:
        return parse(data)
    except DecodeError:
        raise InvalidInput([Violation("request", "is no such message in UTF-8")]) from None
