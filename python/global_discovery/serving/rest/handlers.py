"""The calls about pools and routers: HTTP to values of the domain, and back."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from aiohttp import web

from global_discovery.domain import rules
from global_discovery.domain.errors import InvalidInput, Violation, together
from global_discovery.domain.lease import Heartbeat, Withdrawal
from global_discovery.domain.pool import PoolKey
from global_discovery.serving.access.guard import ROUTERS
from global_discovery.serving.core import Core
from global_discovery.serving.rest.answer import NO_CONTENT, Answer, json_answer
from global_discovery.serving.rest.body import read_json_body
from global_discovery.serving.rest.connection import Limits
from global_discovery.serving.rest.list_body import (
    POOL_FORM,
    ListBodies,
    pools_json,
    routers_json,
)
from global_discovery.serving.rest.pool_filter import FILTERS, pool_filter
from global_discovery.serving.rest.problem import Problem
from global_discovery.serving.rest.registration_body import RegisterCall, RegistrationBodies
from global_discovery.serving.rest.request_parts import key_part, lease_ids, query_parameters
from global_discovery.serving.rest.route import KEY_PATH, Call, Route
from global_discovery.serving.turns import LARGE_BYTES, SECONDS_A_BYTE, cost_of
from global_discovery.view.filters import EVERYTHING, NoFilter
from global_discovery.view.view import Filter

_NO_FILTER = NoFilter()


class DiscoveryHandlers:
    """Serves from the core, in the same loop."""

    def __init__(self, core: Core, limits: Limits) -> None:
        """`limits` are those of reading a body."""
        self._core = core
        self._limits = limits
        self._registrations = RegistrationBodies()
        self._pools = ListBodies(core.pools, pools_json, lambda wanted: not wanted.scope.unlimited)
        self._routers = ListBodies(core.routers, routers_json)

    def routes(self) -> list[Route]:
        """What is served on the REST port."""
        return [
            Route("/pools", {"GET": self.list_pools, "POST": self.register_pool}),
            Route(KEY_PATH, {"DELETE": self.withdraw_pool}),
            Route("/routers", {"GET": self.list_routers}),
        ]

    async def register_pool(self, call: Call) -> Answer:
        """`POST /pools`: registers, and is the heartbeat."""
        visit = await call.visit()
        visit.register_anything()
        query_parameters(call.query, ())
        said = await self._said(call)
        visit.register(said.registration.key)
        heartbeat = Heartbeat(
            said.registration,
            caller=visit.caller.address,
            identity=visit.caller.identity,
            account=call.account,
            relay_id=said.relay_id,
            lease_id=said.lease_id,
            sequence=said.sequence,
        )
        lease = await self._core.registrar.register(heartbeat)
        answer = json_answer(
            {
                "lease_duration_secs": lease.terms.lease_duration,
                "heartbeat_interval_secs": lease.terms.heartbeat_interval,
                "lease_id": lease.lease_id,
            }
        )
        return answer._replace(cost=cost_of(lease))

    async def _said(self, call: Call) -> RegisterCall:
        account = call.account
        limits = self._core.limits
        body = await read_json_body(
            call.request,
            self._limits,
            max_bytes=limits.allowed.body_bytes,
            took=partial(limits.take_bytes, account),
        )
        if len(body) <= LARGE_BYTES:
            return self._registrations.read(body)
        self._core.budget.charge(account, SECONDS_A_BYTE * len(body))
        async with self._core.large_calls.one(account, len(body)):
            return self._registrations.read(body)

    async def withdraw_pool(self, call: Call) -> Answer:
        """`DELETE` of a key: ends one share, or all."""
        visit = await call.visit()
        visit.register_anything()
        parameters = query_parameters(call.query, ("relay_id", "relay", "all"))
        all_shares = _all_shares(parameters["all"])
        key, relay_id, relays, lease_ids = together(
            partial(_key, call.key),
            partial(_relay_id, parameters["relay_id"]),
            partial(_relays, parameters["relay"]),
            partial(_lease_ids, call.request),
        )
        visit.register(key)
        withdrawal = Withdrawal(
            key=key,
            caller=visit.caller.address,
            identity=visit.caller.identity,
            lease_ids=lease_ids,
            relay_id=relay_id,
            relays=relays,
            all_shares=all_shares,
        )
        await self._core.registrar.withdraw(withdrawal)
        return NO_CONTENT

    async def list_pools(self, call: Call) -> Answer:
        """`GET /pools`."""
        scope = (await call.visit()).read()
        wanted = EVERYTHING
        if call.query or not scope.unlimited:
            wanted = pool_filter(query_parameters(call.query, FILTERS), scope)
        if self._pools.is_kept(wanted):
            await self._core.budget.spend(call.account, 0.0)
        if not self._pools.is_kept(wanted):
            await self._core.prepare_list(self._core.pools, wanted, POOL_FORM, call.account)
        return await self._listed(self._pools, wanted, call)

    async def list_routers(self, call: Call) -> Answer:
        """`GET /routers`."""
        (await call.visit()).read(ROUTERS)
        query_parameters(call.query, ())
        await self._core.budget.spend(call.account, 0.0)
        return await self._listed(self._routers, _NO_FILTER, call)

    async def _listed(self, lists: ListBodies[Any], wanted: Filter, call: Call) -> Answer:
        """The list as it is now. The next one is held back for it: a mark must not wait."""
        answer = await lists.body(wanted).answer_to(call.request.headers)
        self._core.budget.charge(call.account, answer.cost)
        return answer._replace(cost=0.0)


def _key(segments: Sequence[str]) -> PoolKey:
    cluster_id, namespace, dgd_name = map(key_part, segments)
    return rules.check_key(cluster_id, namespace, dgd_name)


def _lease_ids(request: web.BaseRequest) -> tuple[str, ...]:
    given = request.headers.getall("If-Match", None)
    if given is None:
        return ()
    ids = lease_ids(",".join(given))
    for lease_id in ids:
        rules.check_caller_ids(lease_id=lease_id)
    return ids


def _relay_id(given: Sequence[str]) -> str:
    """An empty one is a mistake: the call would speak for another share than it means to."""
    if not given:
        return ""
    if len(given) > 1:
        raise _bad_parameter("relay_id may be given once")
    if not given[0]:
        raise InvalidInput([Violation("relay_id", "must not be empty")])
    rules.check_caller_ids(relay_id=given[0])
    return given[0]


def _relays(given: Sequence[str]) -> tuple[str, ...]:
    try:
        return rules.check_relays(given)
    except InvalidInput as error:
        named = [(name.replace("relays", "relay", 1), text) for name, text in error.violations]
        raise InvalidInput([Violation(*each) for each in named], total=error.total) from None


def _all_shares(given: Sequence[str]) -> bool:
    if given and list(given) != ["true"]:
        raise _bad_parameter("all may only be given as all=true, once")
    return bool(given)


def _bad_parameter(detail: str) -> Problem:
    return Problem(400, "BAD_PARAMETER", detail)
