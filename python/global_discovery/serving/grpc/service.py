"""PoolDiscoveryService: bytes to values of the domain, and back.

Handlers take and give raw bytes. A request that does not parse is the caller's
mistake and becomes INVALID_ARGUMENT (left to gRPC it would be UNKNOWN with an
exception's text), and what watchers receive is encoded once for all of them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import Message

from global_discovery.domain import rules
from global_discovery.domain.errors import together
from global_discovery.domain.lease import Heartbeat, Withdrawal
from global_discovery.domain.pool import Registration
from global_discovery.serving import turns, wire
from global_discovery.serving.access.guard import ROUTERS, Guard, Visit
from global_discovery.serving.byte_cache import ByteCache
from global_discovery.serving.core import Core
from global_discovery.serving.explanation_wire import explanation_response
from global_discovery.serving.grpc import errors
from global_discovery.serving.grpc.answering import RENEW_POOLS, Answering
from global_discovery.serving.grpc.list_pages import ListPages
from global_discovery.serving.grpc.peer import Context
from global_discovery.serving.grpc.requests import (
    filter_of,
    idle_interval,
    key_of,
    resume,
)
from global_discovery.serving.limits import counted
from global_discovery.serving.metrics import CallMetrics
from global_discovery.serving.tracing.tracer import Tracer
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.view.fanout import (
    FanOut,
    Watcher,
)
from global_discovery.view.filters import NoFilter
from global_discovery.view.view import Filter, View

_LEASE_ID = pb.RegisterPoolResponse.LEASE_ID_FIELD_NUMBER
SERVICE = "global_discovery.v1.PoolDiscoveryService"
RENEWALS_A_TURN = 200
"""Of one call, before others are worked for: half a millisecond."""


class PoolDiscovery:
    """The handlers of the service."""

    def __init__(
        self, core: Core, guard: Guard, metrics: CallMetrics, tracer: Tracer | None = None
    ) -> None:
        """Serves from `core` what `guard` allows."""
        self._answering = Answering(core, guard, metrics, tracer)
        self._core = core
        self._turns = core.turns
        self._budget = core.budget
        self._pool_pages = ListPages(core.pool_pages, core.pools, wire.pool_field)
        self._router_pages = ListPages(core.router_pages, core.routers, wire.router_field)
        self._checked: ByteCache[Registration] = ByteCache()
        self._named = ((errors.INSTANCE, core.settings.instance_id),)
        terms = core.settings.terms
        self._terms = pb.RegisterPoolResponse(
            lease_duration_secs=terms.lease_duration,
            heartbeat_interval_secs=terms.heartbeat_interval,
        ).SerializeToString()
        """What every answer to RegisterPool begins with."""

    def handlers(self) -> "dict[str, grpc.RpcMethodHandler[Any, Any]]":
        """The methods of the service by name, to be registered with a server."""
        unary: dict[
            str, tuple[type[Message], Callable[[Any, Visit, Context], Awaitable[bytes]]]
        ] = {
            "RegisterPool": (pb.RegisterPoolRequest, self._register_pool),
            RENEW_POOLS: (pb.RenewPoolsRequest, self._renew_pools),
            "DeregisterPool": (pb.DeregisterPoolRequest, self._deregister_pool),
            "ListPools": (pb.ListPoolsRequest, self._list_pools),
            "ListRouters": (pb.ListRoutersRequest, self._list_routers),
            "ExplainPool": (pb.ExplainPoolRequest, self._explain_pool),
        }
        streams: dict[
            str, tuple[type[Message], Callable[[Any, Visit, Context], Awaitable[None]]]
        ] = {
            "WatchPools": (pb.WatchPoolsRequest, self._watch_pools),
            "WatchRouters": (pb.WatchRoutersRequest, self._watch_routers),
        }
        return {
            name: grpc.unary_unary_rpc_method_handler(self._answering.wrap(name, *how))
            for name, how in unary.items()
        } | {
            name: grpc.unary_stream_rpc_method_handler(
                self._answering.wrap(name, *how, timed=False)
            )
            for name, how in streams.items()
        }

    # -- registrations -------------------------------------------------------

    async def _register_pool(
        self, request: pb.RegisterPoolRequest, visit: Visit, context: Context
    ) -> bytes:
        visit.register_anything()
        registration = self._registration(request)
        visit.register(registration.key)
        account = counted(visit.caller)
        heartbeat = Heartbeat(
            registration,
            caller=visit.caller.address,
            identity=visit.caller.identity,
            account=account,
            relay_id=request.relay_id,
            lease_id=request.lease_id,
            sequence=request.sequence,
        )
        lease = await self._core.registrar.register(heartbeat)
        if cost := turns.cost_of(lease):
            await self._budget.spend(account, cost)
        context.set_trailing_metadata(self._named)
        return self._terms + wire.field(_LEASE_ID, lease.lease_id.encode())

    async def _renew_pools(
        self, request: pb.RenewPoolsRequest, visit: Visit, context: Context
    ) -> bytes:
        del context
        scope = visit.register_anything()
        rules.check_lease_ids(request.lease_ids)
        account = counted(visit.caller)
        unknown: list[str] = []
        not_stored: list[str] = []
        retry_after = 0.0
        for first in range(0, len(request.lease_ids) or 1, RENEWALS_A_TURN):
            if first:  # a relay that asks for what nobody knows is in no hurry
                await (self._core.portions if unknown else self._turns).take(account)
            ids = request.lease_ids[first : first + RENEWALS_A_TURN]
            renewals = await self._core.registrar.renew(ids, scope)
            unknown += renewals.unknown
            not_stored += renewals.not_stored
            retry_after = max(retry_after, renewals.retry_after)
        await self._budget.spend(account, turns.ANY_OTHER + turns.UNKNOWN_LEASE * len(unknown))
        terms = self._core.settings.terms
        return pb.RenewPoolsResponse(
            unknown_lease_ids=unknown,
            not_renewed_lease_ids=not_stored,
            retry_delay_secs=round(retry_after),
            lease_duration_secs=terms.lease_duration,
            heartbeat_interval_secs=terms.heartbeat_interval,
        ).SerializeToString()

    async def _deregister_pool(
        self, request: pb.DeregisterPoolRequest, visit: Visit, context: Context
    ) -> bytes:
        del context
        visit.register_anything()
        key, relays, _ = together(
            lambda: key_of(request.key),
            lambda: rules.check_relays(request.relays),
            lambda: rules.check_caller_ids(relay_id=request.relay_id, lease_id=request.lease_id),
        )
        visit.register(key)
        withdrawal = Withdrawal(
            key=key,
            caller=visit.caller.address,
            identity=visit.caller.identity,
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

    # -- lists ---------------------------------------------------------------

    async def _list_pools(
        self, request: pb.ListPoolsRequest, visit: Visit, context: Context
    ) -> bytes:
        del context
        wanted = filter_of(request.filter, visit.read())
        account = counted(visit.caller)
        if request.page_token:
            await self._budget.spend(account, 0.0)
        else:
            await self._core.prepare_list(self._core.pools, wanted, wire.POOL_FORM, account)
        page = self._pool_pages.page(wanted, request)
        self._charge_for_list(account, page)
        return page

    async def _list_routers(
        self, request: pb.ListRoutersRequest, visit: Visit, context: Context
    ) -> bytes:
        del context
        visit.read(ROUTERS)
        account = counted(visit.caller)
        await self._budget.spend(account, 0.0)
        page = self._router_pages.page(NoFilter(), request)
        self._charge_for_list(account, page)
        return page

    def _charge_for_list(self, account: str, page: bytes) -> None:
        """The next list is held back for it, before it is made: a mark must not wait."""
        self._budget.charge(account, turns.in_one_piece(turns.LISTED_BYTE * len(page)))

    async def _explain_pool(
        self, request: pb.ExplainPoolRequest, visit: Visit, context: Context
    ) -> bytes:
        del context
        visit.read()
        key = key_of(request.key)
        scope = visit.read_key(key)
        account = counted(visit.caller)
        await self._budget.spend(account, turns.MISTAKE)
        explanation = await self._core.explain(key, account, scope.holds)
        server = self._server_info()
        return explanation_response(explanation, server).SerializeToString()

    # -- streams -------------------------------------------------------------

    async def _watch_pools(
        self, request: pb.WatchPoolsRequest, visit: Visit, context: Context
    ) -> None:
        scope, watchers = visit.read(), self._core.pool_watchers
        await self._watch(
            visit, watchers, lambda: filter_of(request.filter, scope), request, context
        )

    async def _watch_routers(
        self, request: pb.WatchRoutersRequest, visit: Visit, context: Context
    ) -> None:
        visit.read(ROUTERS)
        await self._watch(visit, self._core.router_watchers, NoFilter, request, context)

    async def _watch(
        self,
        visit: Visit,
        fanout: FanOut[Any],
        read_filter: Callable[[], Filter],
        request: pb.WatchPoolsRequest | pb.WatchRoutersRequest,
        context: Context,
    ) -> None:
        wanted, idle_seconds, _ = together(
            read_filter,
            lambda: idle_interval(request.idle_interval_secs),
            lambda: resume(fanout.view, request.position, NoFilter()),
        )
        sequence = resume(fanout.view, request.position, wanted)
        account = counted(visit.caller)
        give_back = self._core.limits.seats.take(account)
        try:
            await self._charge_watch(fanout.view, wanted, sequence, account)
            watcher = fanout.open(wanted, sequence, idle_seconds, peer=visit.caller.account)
            await self._serve_watch(visit, watcher, context, idle_seconds)
        finally:
            give_back()

    async def _charge_watch(
        self, view: View[Any], wanted: Filter, sequence: int | None, account: str
    ) -> None:
        if sequence is not None:
            await self._budget.spend(account, turns.NEW_WATCH)
            return
        await self._budget.spend(account, turns.NEW_WATCH + turns.SNAPSHOT_POOL * len(view))
        form = wire.POOL_FORM if view is self._core.pools else wire.ROUTER_FORM
        await self._core.prepare_list(view, wanted, form, account)

    async def _serve_watch(
        self, visit: Visit, watcher: Watcher[Any], context: Context, idle_seconds: int
    ) -> None:
        try:
            server = self._server_info(idle_seconds)
            with visit.following(watcher.end):
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
