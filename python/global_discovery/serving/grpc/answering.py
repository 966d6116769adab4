"""How a call is answered: who makes it, what it costs, and a status for whatever goes wrong.

A handler gets a request that parsed and a visit of whom the guard let in. What it
raises as an error of the domain becomes its status with details; anything else is
a fault of ours, told as one with an id, and nothing of it reaches the caller.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from global_discovery.domain.errors import (
    DiscoveryError,
    ScopeChanged,
    SlowWatcher,
    Unavailable,
)
from global_discovery.serving import turns
from global_discovery.serving.access.guard import Guard, Visit
from global_discovery.serving.core import Core
from global_discovery.serving.grpc import errors
from global_discovery.serving.grpc.peer import FACE, Context, GrpcPeer
from global_discovery.serving.grpc.requests import parse
from global_discovery.serving.limits import counted
from global_discovery.serving.log import log_internal_error
from global_discovery.serving.metrics import CallMetrics
from global_discovery.serving.tracing.tracer import CallSpan, Tracer

M = TypeVar("M", bound=Message)
RENEW_POOLS = "RenewPools"
"""Its size is neither charged as bytes nor made to wait: it may be large, and it renews."""


class Answering:
    """Wraps the handlers of the service."""

    def __init__(
        self, core: Core, guard: Guard, metrics: CallMetrics, tracer: Tracer | None
    ) -> None:
        """Unary calls are traced by `tracer`; streams live too long for it."""
        self._core = core
        self._guard = guard
        self._metrics = metrics
        self._tracer = tracer

    def wrap(
        self,
        method: str,
        request_type: type[M],
        handle: Callable[[M, Visit, Context], Awaitable[Any]],
        *,
        timed: bool = True,
    ) -> Callable[[bytes, Context], Awaitable[Any]]:
        """What gRPC calls with the bytes of a request; it counts the call, `timed` or not."""

        async def call(data: bytes, context: Context) -> Any:
            started = time.perf_counter()
            code, account = "CANCELLED", ""
            span = self._span(method, context) if timed else None
            try:
                visit = await self._guard.visit(GrpcPeer(context), method)
                account = counted(visit.caller)
                request = await self._request(method, request_type, data, account)
                answer = await handle(request, visit, context)
                code = "OK"
                return answer
            except DiscoveryError as raised:
                account = account or counted(self._guard.anybody(GrpcPeer(context)))
                error = self._core.limits.judged(raised, account)
                code = errors.code_of(error).name
                await self._refuse(error, account, context)
            except grpc.aio.BaseError:
                # The call is over for gRPC: its client went while we wrote to it.
                raise asyncio.CancelledError from None
            except Exception:  # noqa: BLE001 - nothing internal may reach a caller
                code = "INTERNAL"
                await self._fail(method, context)
            finally:
                seconds = time.perf_counter() - started if timed else None
                self._metrics.answered(FACE, method, code, seconds)
                if span is not None:
                    span.end(code)

        return call

    def _span(self, method: str, context: Context) -> CallSpan | None:
        if self._tracer is None:
            return None
        return self._tracer.rpc(method, context.invocation_metadata() or ())

    async def _request(self, method: str, request_type: type[M], data: bytes, account: str) -> M:
        """The request, when it is its caller's turn. Raises DiscoveryError."""
        self._core.budget.seen(account)
        await self._core.turns.take(account)
        if method == RENEW_POOLS:
            return parse(request_type, data)
        if len(data) > turns.LARGE_BYTES:  # of which gRPC has read every byte, refused or not
            self._core.budget.charge(account, turns.SECONDS_A_BYTE * len(data))
        self._core.limits.take_bytes(account, len(data))
        if len(data) <= turns.LARGE_BYTES:
            return parse(request_type, data)
        async with self._core.large_calls.one(account, len(data)):
            return parse(request_type, data)

    async def _refuse(self, error: DiscoveryError, account: str, context: Context) -> None:
        """Ends the call with the error's status; a mistake costs its caller."""
        self._metrics.refused(FACE, error.reason)
        if not isinstance(error, Unavailable | SlowWatcher | ScopeChanged):
            await self._core.budget.spend(account, turns.MISTAKE)
        await errors.abort(context, errors.status_of(error), self._core.settings.instance_id)

    async def _fail(self, method: str, context: Context) -> None:
        """Ends the call as a fault of ours: logs what is being handled, under an id."""
        request_id = errors.new_request_id()
        log_internal_error(request_id, method)
        status = errors.internal_status(request_id)
        await errors.abort(context, status, self._core.settings.instance_id)
