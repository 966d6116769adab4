"""Between connections and handlers: finds the route, and turns every outcome into an answer.

Whatever happens, a caller gets an answer of the contract: no stack trace, no
internal text, nothing of what it sent. Each call is counted under a name from a
fixed set.
"""

import random
import time
from collections.abc import Set as AbstractSet
from typing import cast

from aiohttp import web

from global_discovery.domain.errors import DiscoveryError, Unauthenticated
from global_discovery.domain.limits import Limit, LimitReached
from global_discovery.serving.access.guard import Guard
from global_discovery.serving.core import Core
from global_discovery.serving.limits import counted
from global_discovery.serving.log import log_internal_error
from global_discovery.serving.metrics import CallMetrics
from global_discovery.serving.rest import problem
from global_discovery.serving.rest.answer import INSTANCE, Answer, Streamed, headers
from global_discovery.serving.rest.connection import CallerGone, Connection
from global_discovery.serving.rest.peer import FACE, RestPeer
from global_discovery.serving.rest.problem import Problem
from global_discovery.serving.rest.request_parts import parse_target
from global_discovery.serving.rest.route import KEY_PATH, OTHER, Call, Route, Routes
from global_discovery.serving.tracing.tracer import Tracer

TRACED = frozenset({"/pools", KEY_PATH, "/routers"})
"""What callers ask of the service itself; not probes, documents and what stays open for long."""
GONE = "499"
"""The status of a span whose caller went away."""


class Gateway:
    """The gate of one port. See `connection.Gate`."""

    def __init__(
        self,
        routes: Routes,
        metrics: CallMetrics,
        core: Core,
        guard: Guard,
        tracer: Tracer | None = None,
    ) -> None:
        """Serves `routes` and nothing else, and names itself by the instance of `core`.

        Of calls on `TRACED` routes the tracer makes spans.
        """
        self._core = core
        self._guard = guard
        self._tracer = tracer
        self._routes = routes
        self._metrics = metrics
        self._instance_id = core.settings.instance_id
        self.draining = False
        """Whether every answer is the last one of its connection."""
        self.open_to_all: AbstractSet[str] | None = None
        """The only paths for callers without a certificate; None for all paths."""

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """See Gate."""
        if self._tracer is None:
            return await self._answered(request)
        return await self._traced(request, self._tracer)

    async def _traced(self, request: web.BaseRequest, tracer: Tracer) -> web.StreamResponse:
        template = self._template(request.raw_path)
        if template not in TRACED:
            return await self._answered(request)
        span = tracer.request(request.method, template, request.headers.items())
        status = GONE
        try:
            response = await self._answered(request)
            status = str(response.status)
            return response
        finally:
            span.end(status)

    def _template(self, target: str) -> str:
        """Of the route that a request is for; empty for none."""
        try:
            found = self._routes.find(parse_target(target).path)
        except Problem:
            return ""
        return "" if found is None else found[0].template

    async def _answered(self, request: web.BaseRequest) -> web.StreamResponse:
        started = time.perf_counter()
        call = Call(request, self._guard)
        answer: Answer | Streamed
        try:
            answer = await self._answer(call)
        except Problem as error:
            answer = self._problem(error)
        except DiscoveryError as error:
            answer = self._problem(problem.of(self._core.limits.judged(error, call.account)))
        except CallerGone:
            answer = problem.malformed("the connection broke", close=True).answer()
        except Exception:  # noqa: BLE001 - it is logged, and its caller gets a fixed text
            answer = self._internal(call.label)
        if isinstance(answer, Streamed):
            return await self._stream(request, answer, call.label)
        if answer.cost:
            await self._core.budget.spend(call.account, answer.cost)
        seconds = time.perf_counter() - started
        self._metrics.answered(FACE, call.label, str(answer.status), seconds)
        return self._response(answer)

    async def _answer(self, call: Call) -> Answer | Streamed:
        """From the path to the handler. Raises what is no answer of a handler."""
        request = call.request
        call.account = counted(self._guard.anybody(RestPeer(request)))
        await self._core.turns.take(call.account)
        target = parse_target(request.raw_path)
        self._check_caller(request, target.path, call.account)
        found = self._routes.find(target.path)
        if found is None:
            return self._without_route(request.method, target.path)
        route, call.key = found
        handler = route.handlers.get(request.method)
        if handler is None:
            return _without_handler(request.method, route)
        call.label, call.query = route.labels[request.method], target.query
        if route.counts:
            self._core.budget.seen(call.account)
        return await handler(call)

    def refuse(self, why: Problem) -> web.Response:
        """See Gate."""
        self._metrics.answered(FACE, OTHER, str(why.status), None)
        return self._response(self._problem(why))

    def fail(self) -> web.Response:
        """See Gate."""
        self._metrics.answered(FACE, OTHER, "500", None)
        return self._response(self._internal(OTHER))

    def not_admitted(self, limit: Limit, peer: str) -> bytes:
        """What a connection is sent that is not let in."""
        error = LimitReached(limit, retry_after=random.uniform(1.0, 10.0))  # noqa: S311 - no secret
        answer = self._problem(problem.of(self._core.limits.judged(error, peer)))
        lines = [f"HTTP/1.1 {answer.status} {problem.TITLES[answer.status]}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        body = answer.body or b""
        lines += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
        return "\r\n".join(lines).encode() + body

    def _check_caller(self, request: web.BaseRequest, path: str, account: str) -> None:
        if self.open_to_all is None or path in self.open_to_all:
            return
        if not cast("Connection", request.protocol).certified:
            found = self._routes.find(path)
            self._guard.denials.denied(
                self._guard.anybody(RestPeer(request)),
                face=FACE,
                method=OTHER if found is None else found[0].labels.get(request.method, OTHER),
                what="certificate",
                reason=Unauthenticated.reason,
            )
            refusal = self._core.limits.judged(Unauthenticated(), account)
            raise problem.unauthenticated() if isinstance(refusal, Unauthenticated) else refusal

    def _without_route(self, method: str, path: str) -> Answer:
        if path == "*" and method == "OPTIONS":
            return _allowed(self._routes.allow)
        raise Problem(404, "NOT_FOUND", "there is no such path")

    def _problem(self, error: Problem) -> Answer:
        self._metrics.refused(FACE, error.code)
        return error.answer()

    def _internal(self, label: str) -> Answer:
        error, request_id = problem.internal()
        log_internal_error(request_id, label)
        return error.answer()

    async def _stream(
        self, request: web.BaseRequest, answer: Streamed, label: str
    ) -> web.StreamResponse:
        """Counted as it begins: how long it lasts says nothing."""
        self._metrics.answered(FACE, label, "200", None)
        response = web.StreamResponse(headers=answer.headers)
        response.headers[INSTANCE] = self._instance_id
        try:
            await response.prepare(request)
            await answer.write(response)
            await response.write_eof()
        except ConnectionError:
            response.force_close()
        except Exception:  # noqa: BLE001 - it is logged; its caller sees that the answer breaks off
            log_internal_error(problem.internal()[1], label)
            cast("Connection", request.protocol).abort()
        return response

    def _response(self, answer: Answer) -> web.Response:
        response = web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        response.headers[INSTANCE] = self._instance_id
        if answer.close or self.draining:
            response.force_close()
        return response


def _without_handler(method: str, route: Route) -> Answer:
    if method == "OPTIONS":
        return _allowed(route.allow)
    raise Problem(
        405,
        "METHOD_NOT_ALLOWED",
        f"this path takes {route.allow}",
        header_fields={"Allow": route.allow},
    )


def _allowed(methods: str) -> Answer:
    return Answer(204, headers(None, {"Allow": methods}))
