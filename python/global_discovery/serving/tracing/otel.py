"""Spans for OpenTelemetry, sent by OTLP over HTTP. Needs the extra `otel`.

The variables of the OpenTelemetry specification decide where they go
(OTEL_EXPORTER_OTLP_*), which calls are sampled (OTEL_TRACES_SAMPLER), how many
wait (OTEL_BSP_*, 2,048 by default) and what the instance is called
(OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES). A thread of the library sends
them: a collector that is slow or gone costs spans, and no call waits for it.

A call belongs to the trace that its `traceparent` names (W3C Trace Context).
Names and attributes are those of the semantic conventions for RPC and HTTP.
"""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Token

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_SERVICE_NAME
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from global_discovery.serving.grpc.service import SERVICE
from global_discovery.serving.tracing.tracer import Headers

GRPC_FAULTS = frozenset({"INTERNAL", "UNAVAILABLE", "UNKNOWN", "DEADLINE_EXCEEDED", "DATA_LOSS"})
"""Codes that are a server's fault, as the conventions have it."""
KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_CARRIED = frozenset({"traceparent", "tracestate"})
_SERVER_FAULT = 500


class OtelTracer:
    """See Tracer. Made inside the process that serves, after any fork."""

    def __init__(
        self, *, version: str, instance_id: str, exporter: SpanExporter | None = None
    ) -> None:
        """`exporter` is by default OTLP over HTTP, as the variables say."""
        self._provider = TracerProvider(
            resource=_resource(version, instance_id),
            shutdown_on_exit=False,  # `close` does it, within a bound
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("global_discovery", version)
        self._propagator = TraceContextTextMapPropagator()

    def rpc(self, method: str, metadata: Headers) -> "OtelSpan":
        """See Tracer."""
        attributes = {
            "rpc.system": "grpc",
            "rpc.service": SERVICE,
            "rpc.method": method,
        }
        span = self._tracer.start_span(
            f"{SERVICE}/{method}",
            context=self._parent(metadata),
            kind=SpanKind.SERVER,
            attributes=attributes,
        )
        return OtelSpan(span, http=False)

    def request(self, method: str, route: str, headers: Headers) -> "OtelSpan":
        """See Tracer."""
        known = method if method in KNOWN_METHODS else "_OTHER"
        span = self._tracer.start_span(
            f"{'HTTP' if known == '_OTHER' else known} {route}",
            context=self._parent(headers),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": known, "http.route": route},
        )
        return OtelSpan(span, http=True)

    @contextmanager
    def store(self, name: str, operation: str) -> Iterator[None]:
        """See Tracer."""
        if not trace.get_current_span().is_recording():
            yield  # no call that is traced needs it
            return
        attributes = {"db.system.name": name, "db.operation.name": operation}
        with self._tracer.start_as_current_span(
            f"{operation} {name}",
            kind=SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,  # its text may have names of hosts and items
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(Status(StatusCode.ERROR))
                raise

    async def close(self, seconds: float) -> None:
        """See Tracer. A daemon thread, since the collector may hold it for longer."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def shut() -> None:
            self._provider.shutdown()
            if not loop.is_closed():
                loop.call_soon_threadsafe(done.set)

        threading.Thread(target=shut, name="last spans", daemon=True).start()
        try:
            await asyncio.wait_for(done.wait(), seconds)
        except TimeoutError:
            return  # they are lost

    def _parent(self, headers: Headers) -> Context:
        carrier: dict[str, str] = {}
        for name, value in headers:
            lower = name.lower()
            if lower in _CARRIED and isinstance(value, str):
                carrier[lower] = value
        return self._propagator.extract(carrier, context=Context()) if carrier else Context()


class OtelSpan:
    """One call; whatever it does meanwhile is a part of it."""

    def __init__(self, span: Span, *, http: bool) -> None:
        """Current from now on, in this task and those that it starts."""
        self._span = span
        self._http = http
        self._token: Token[Context] = contexts.attach(trace.set_span_in_context(span))

    def end(self, code: str) -> None:
        """See CallSpan."""
        span = self._span
        if self._http:
            status = int(code)
            span.set_attribute("http.response.status_code", status)
            failed = status >= _SERVER_FAULT
        else:
            span.set_attribute("rpc.grpc.status_code", grpc_number(code))
            failed = code in GRPC_FAULTS
        if failed:
            span.set_attribute("error.type", code)
            span.set_status(Status(StatusCode.ERROR))
        span.end()
        contexts.detach(self._token)


def grpc_number(code: str) -> int:
    """The number of a gRPC code's name."""
    return _GRPC_CODES.index(code)


_GRPC_CODES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)


def _resource(version: str, instance_id: str) -> Resource:
    attributes = {"service.version": version, "service.instance.id": instance_id}
    named = os.environ.get(OTEL_SERVICE_NAME) or OTELResourceDetector().detect().attributes.get(
        SERVICE_NAME
    )
    if not named:
        attributes[SERVICE_NAME] = "global-discovery"
    return Resource.create(attributes)
