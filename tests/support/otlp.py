"""A collector: receives OTLP over HTTP and keeps the spans."""

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PATIENCE_SECONDS = 60


class SeenSpan(NamedTuple):
    """One span as it arrived."""

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    failed: bool
    attributes: dict[str, Any]
    resource: dict[str, Any]


class Collector:
    """What came."""

    def __init__(self) -> None:
        self.spans: list[SeenSpan] = []
        self.port = 0
        self._grown = asyncio.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def named(self, *names: str) -> list[SeenSpan]:
        """All spans so far, once each of these names is among them."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._grown:
            await self._grown.wait_for(lambda: set(names) <= {span.name for span in self.spans})
        return self.spans

    async def receive(self, request: web.Request) -> web.Response:
        data = await request.read()
        if request.headers.get("Content-Encoding") == "gzip" and data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        message = ExportTraceServiceRequest.FromString(data)
        for of_resource in message.resource_spans:
            resource = _values(of_resource.resource.attributes)
            for of_scope in of_resource.scope_spans:
                self.spans += [_seen(span, resource) for span in of_scope.spans]
        async with self._grown:
            self._grown.notify_all()
        return web.Response(content_type="application/x-protobuf")


def _seen(span: Any, resource: dict[str, Any]) -> SeenSpan:
    return SeenSpan(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        kind=span.kind,
        failed=span.status.code == 2,
        attributes=_values(span.attributes),
        resource=resource,
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@contextlib.asynccontextmanager
async def collector() -> AsyncIterator[Collector]:
    """On a free port."""
    made = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", made.receive)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.port = runner.addresses[0][1]
    try:
        yield made
    finally:
        await runner.cleanup()
