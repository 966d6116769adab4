"""PoolDiscoveryService: bytes to values of the domain, and back.

Handlers take and give raw bytes. A request that does not parse is the caller's
mistake and becomes INVALID_ARGUMENT (left to gRPC it would be UNKNOWN with an
exception's text), and what watchers receive is encoded once for all of them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from global_discovery.domain import rules
from global_discovery.domain.errors import DiscoveryError, InvalidInput, Violation, together
from global_discovery.domain.lease import Heartbeat, Withdrawal
from global_discovery.domain.pool import PoolKey, Registration
from global_discovery.serving import wire
from global_discovery.serving.byte_cache import ByteCache
from global_discovery.serving.caller import HEADER, Callers, grpc_peer_address
from global_discovery.serving.core import Core
from global_discovery.serving.explanation_wire import explanation_response
from global_discovery.serving.grpc import errors
from global_discovery.serving.log import log_internal_error
from global_discovery.serving.metrics import CallMetrics
from global_discovery.serving.tracing.tracer import Tracer
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from global_discovery.view.fanout import (
    DEFAULT_IDLE_SECONDS,
    MAX_IDLE_SECONDS,
    MIN_IDLE_SECONDS,
    FanOut,
    Watcher,
)
from global_discovery.view.filters import EVERYTHING, NoFilter, PoolFilter
from global_discovery.view.pages import Pages
from global_discovery.view.position import BadPosition
from global_discovery.view.view import Filter, View

_LEASE_ID = pb.RegisterPoolResponse.LEASE_ID_FIELD_NUMBER
SERVICE = "global_discovery.v1.PoolDiscoveryService"
FACE = "grpc"
M = TypeVar("M", bound=Message)
Context = grpc.aio.ServicerContext[bytes, bytes]


class PoolDiscovery:
    """The handlers of the service."""

    def __init__(
        self, core: Core, callers: Callers, metrics: CallMetrics, tracer: Tracer | None = None
    ) -> None:
        """Serves from `core`. Unary calls are traced by `tracer`; streams live too long for it."""
        self._tracer = tracer
        self._core = core
        self._callers = callers
        self._metrics = metrics
        self._checked: ByteCache[Registration] = ByteCache()
        self._instance_id = core.settings.instance_id
        self._named = ((errors.INSTANCE, self._instance_id),)
        terms = core.settings.terms
        self._terms = pb.RegisterPoolResponse(
            lease_duration_secs=terms.lease_duration,
            heartbeat_interval_secs=terms.heartbeat_interval,
        ).SerializeToString()
        """What every answer to RegisterPool begins with."""

    def handlers(self) -> grpc.GenericRpcHandler:
        """The service, to be added to a server."""
        unary: dict[str, tuple[type[Message], Callable[[Any, Context], Awaitable[bytes]]]] = {
            "RegisterPool": (pb.RegisterPoolRequest, self._register_pool),
            "RenewPools": (pb.RenewPoolsRequest, self._renew_pools),
            "DeregisterPool": (pb.DeregisterPoolRequest, self._deregister_pool),
            "ListPools": (pb.ListPoolsRequest, self._list_pools),
            "ListRouters": (pb.ListRoutersRequest, self._list_routers),
            "ExplainPool": (pb.ExplainPoolRequest, self._explain_pool),
        }
        streams: dict[str, tuple[type[Message], Callable[[Any, Context], Awaitable[None]]]] = {
            "WatchPools": (pb.WatchPoolsRequest, self._watch_pools),
            "WatchRouters": (pb.WatchRoutersRequest, self._watch_routers),
        }
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            name: grpc.unary_unary_rpc_method_handler(self._answered(name, *how))
            for name, how in unary.items()
        } | {
            name: grpc.unary_stream_rpc_method_handler(self._answered(name, *how, timed=False))
            for name, how in streams.items()
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def _answered(
        self,
        method: str,
        request_type: type[M],
        handle: Callable[[M, Context], Awaitable[Any]],
        *,
        timed: bool = True,
    ) -> Callable[[bytes, Context], Awaitable[Any]]:
        """Wraps a handler: parses its request, turns every error into a status, counts the call."""
        tracer = self._tracer if timed else None

        async def call(data: bytes, context: Context) -> Any:
            started = time.perf_counter()
            code = "CANCELLED"
            metadata = () if tracer is None else context.invocation_metadata() or ()
            span = None if tracer is None else tracer.rpc(method, metadata)
            try:
                answer = await handle(_parse(request_type, data), context)
                code = "OK"
                return answer
            except DiscoveryError as error:
                code = errors.code_of(error).name
                self._metrics.refused(FACE, error.reason)
                await errors.abort(context, errors.status_of(error), self._instance_id)
            except grpc.aio.BaseError:
                # The call is over for gRPC: its client went while we wrote to it.
                raise asyncio.CancelledError from None
            except Exception:  # noqa: BLE001 - nothing internal may reach a caller
                code = "INTERNAL"
                request_id = errors.new_request_id()
                log_internal_error(request_id, method)
                await errors.abort(context, errors.internal_status(request_id), self._instance_id)
            finally:
                seconds = time.perf_counter() - started if timed else None
                self._metrics.answered(FACE, method, code, seconds)
                if span is not None:
                    span.end(code)

        return call

    # -- registrations -------------------------------------------------------

    async def _register_pool(self, request: pb.RegisterPoolRequest, context: Context) -> bytes:
        heartbeat = Heartbeat(
            self._registration(request),
            caller=self._caller(context),
            relay_id=request.relay_id,
            lease_id=request.lease_id,
            sequence=request.sequence,
        )
        lease = await self._core.registrar.register(heartbeat)
        context.set_trailing_metadata(self._named)
        return self._terms + wire.field(_LEASE_ID, lease.lease_id.encode())

    async def _renew_pools(self, request: pb.RenewPoolsRequest, context: Context) -> bytes:
        del context
        rules.check_lease_ids(request.lease_ids)
        renewals = await self._core.registrar.renew(request.lease_ids)
        terms = self._core.settings.terms
        return pb.RenewPoolsResponse(
            unknown_lease_ids=renewals.unknown,
            not_renewed_lease_ids=renewals.not_stored,
            retry_delay_secs=round(renewals.retry_after),
            lease_duration_secs=terms.lease_duration,
            heartbeat_interval_secs=terms.heartbeat_interval,
        ).SerializeToString()

    async def _deregister_pool(self, request: pb.DeregisterPoolRequest, context: Context) -> bytes:
        key, relays, _ = together(
            lambda: _key(request.key),
            lambda: rules.check_relays(request.relays),
            lambda: rules.check_caller_ids(relay_id=request.relay_id, lease_id=request.lease_id),
        )
        withdrawal = Withdrawal(
            key=key,
            caller=self._caller(context),
            lease_ids=(request.lease_id,) if request.lease_id else (),
            relay_id=request.relay_id,
            relays=relays,
            all_shares=request.all_shares,
        )
        ended = await self._core.registrar.withdraw(withdrawal)
        return pb.DeregisterPoolResponse(ended_shares=ended).SerializeToString()

    def _registration(self, request: pb.RegisterPoolRequest) -> Registration:
        """Checks a call; the same small registration is checked once, not at each heartbeat."""
        relay_id, lease_id, sequence = request.relay_id, request.lease_id, request.sequence
        data = request.registration.SerializeToString()
        registration = self._checked.get(data)
        if registration is None:
            raw = wire.raw_registration(request.registration)
            registration = rules.check_registration(
                raw, relay_id=relay_id, lease_id=lease_id, sequence=sequence
            )
            self._checked.put(data, registration)
        else:
            rules.check_caller_ids(relay_id=relay_id, lease_id=lease_id, sequence=sequence)
        return registration

    def _caller(self, context: Context) -> str:
        connection = grpc_peer_address(context.peer())
        if self._callers.trusts_nobody:
            return connection
        metadata = context.invocation_metadata() or ()
        forwarded = [str(value) for name, value in metadata if name == HEADER]
        return self._callers.address(connection, forwarded)

    # -- lists ---------------------------------------------------------------

    async def _list_pools(self, request: pb.ListPoolsRequest, context: Context) -> bytes:
        del context
        wanted = _filter(request.filter)
        return _page(self._core.pool_pages, self._core.pools, wanted, request, wire.pool_field)

    async def _list_routers(self, request: pb.ListRoutersRequest, context: Context) -> bytes:
        del context
        return _page(
            self._core.router_pages, self._core.routers, NoFilter(), request, wire.router_field
        )

    async def _explain_pool(self, request: pb.ExplainPoolRequest, context: Context) -> bytes:
        del context
        explanation = self._core.explain(_key(request.key))
        server = self._server_info()
        return explanation_response(explanation, server).SerializeToString()

    # -- streams -------------------------------------------------------------

    async def _watch_pools(self, request: pb.WatchPoolsRequest, context: Context) -> None:
        await self._watch(
            self._core.pool_watchers, lambda: _filter(request.filter), request, context
        )

    async def _watch_routers(self, request: pb.WatchRoutersRequest, context: Context) -> None:
        await self._watch(self._core.router_watchers, NoFilter, request, context)

    async def _watch(
        self,
        fanout: FanOut[Any],
        read_filter: Callable[[], Filter],
        request: pb.WatchPoolsRequest | pb.WatchRoutersRequest,
        context: Context,
    ) -> None:
        wanted, idle_seconds, _ = together(
            read_filter,
            lambda: _idle_seconds(request.idle_interval_secs),
            lambda: _resume(fanout.view, request.position, NoFilter()),
        )
        sequence = _resume(fanout.view, request.position, wanted)
        watcher = fanout.open(wanted, sequence, idle_seconds)
        try:
            server = self._server_info(idle_seconds)
            await context.write(pb.WatchPoolsResponse(server=server).SerializeToString())
            await _follow(watcher, context)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if watcher.failure is None or not watcher.gave_up or task is None or task.uncancel():
                raise
            raise watcher.failure from None
        finally:
            watcher.close()

    def _server_info(self, idle_seconds: int = 0) -> pb.ServerInfo:
        settings = self._core.settings
        return pb.ServerInfo(
            instance_id=settings.instance_id,
            version=settings.version,
            pool_discovery=settings.pool_discovery,
            registration_storage=self._core.storage,
            lease_duration_secs=settings.terms.lease_duration,
            heartbeat_interval_secs=settings.terms.heartbeat_interval,
            idle_interval_secs=idle_seconds,
        )


async def _follow(watcher: Watcher[Any], context: Context) -> None:
    """Writes what the watcher has, until it ends."""
    while not watcher.finished:
        for frame in await watcher.next():
            await context.write(frame)
            watcher.progress()


def _page(
    pages: Pages[Any],
    view: View[Any],
    wanted: Filter,
    request: pb.ListPoolsRequest | pb.ListRoutersRequest,
    entry_field: Callable[[Any], bytes],
) -> bytes:
    page = pages.page(wanted, request.page_size, request.page_token)
    return wire.list_response(
        map(entry_field, page.entries),
        mark=page.snapshot.mark,
        position=view.position(page.snapshot.sequence, wanted),
        next_page_token=page.next_page_token,
    )


def _parse(request_type: type[M], data: bytes) -> M:
    try:
        return request_type.FromString(data)
    except DecodeError:
        message = f"is no {request_type.DESCRIPTOR.name} in UTF-8"
        raise InvalidInput([Violation("request", message)]) from None


def _key(message: pool_pb2.PoolKey) -> PoolKey:
    return rules.check_key(message.cluster_id, message.namespace, message.dgd_name)


def _filter(message: pb.PoolFilter) -> PoolFilter:
    if not message.ByteSize():
        return EVERYTHING
    return PoolFilter(
        models=frozenset(message.models),
        regions=frozenset(message.regions),
        cluster_ids=frozenset(message.cluster_ids),
        namespaces=frozenset(message.namespaces),
    )


def _idle_seconds(asked: int) -> int:
    seconds = asked or DEFAULT_IDLE_SECONDS
    if not MIN_IDLE_SECONDS <= seconds <= MAX_IDLE_SECONDS:
        limits = f"must be {MIN_IDLE_SECONDS} to {MAX_IDLE_SECONDS}, or 0 for the default"
        raise InvalidInput([Violation("idle_interval_secs", limits)])
    return seconds


def _resume(view: View[Any], position: str, wanted: Filter) -> int | None:
    if not position:
        return None
    try:
        return view.resume(position, wanted)
    except BadPosition:
        raise InvalidInput([Violation("position", "is no position of this service")]) from None
