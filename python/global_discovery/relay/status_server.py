"""The HTTP server of a relay: `/health` and `/metrics`, for probes and Prometheus.

`/health` answers 200 while `healthy`, else 503. That a pool is not registered
does not make its relay unhealthy: restarting it would not help.
"""

import contextlib
from collections.abc import AsyncIterator

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from global_discovery.relay.relay import Relay
from global_discovery.relay.status import RelayCollector, health_document

_STOP_SECONDS = 0.5


@contextlib.asynccontextmanager
async def status_server(relay: Relay) -> AsyncIterator[int]:
    """Serves until the end; gives the port. Raises OSError when it cannot listen."""
    registry = CollectorRegistry()
    registry.register(RelayCollector(relay))

    async def health(_request: web.Request) -> web.Response:
        document = health_document(relay)
        return web.json_response(
            document,
            status=200 if document["healthy"] else 503,
            headers={"Cache-Control": "no-store"},
        )

    async def metrics(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    app = web.Application()
    app.router.add_get("/health", health)
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_STOP_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, relay.settings.listen_host, relay.settings.listen_port).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
