"""The REST face: its ports, and their life from the first connection to the last answer."""

import asyncio
import errno
import os
import socket
from ssl import SSLContext
from typing import Any

from prometheus_client import CollectorRegistry

from global_discovery.serving.access.guard import Guard
from global_discovery.serving.core import Core
from global_discovery.serving.metrics import CallMetrics
from global_discovery.serving.page.events import EventStreams
from global_discovery.serving.page.handlers import PageHandlers
from global_discovery.serving.readiness import Readiness
from global_discovery.serving.rest.connection import Limits
from global_discovery.serving.rest.connection_server import ConnectionServer
from global_discovery.serving.rest.gateway import Gateway
from global_discovery.serving.rest.handlers import DiscoveryHandlers
from global_discovery.serving.rest.open_connections import OpenConnections
from global_discovery.serving.rest.probes import ProbeHandlers
from global_discovery.serving.rest.route import Routes
from global_discovery.serving.tls.keeper import TlsKeeper
from global_discovery.serving.tracing.tracer import Tracer

_BACKLOG = 1024
"""Two thousand relays may come back in the same second."""
ACCEPTED_A_TURN = 1
"""New connections in one turn of the loop; a thousand at once would hold everyone else up."""


class RestFace:
    """HTTP on one address, and the probes on a second one if there is one."""

    def __init__(  # noqa: PLR0913 - it is where everything of the face comes together
        self,
        core: Core,
        guard: Guard,
        metrics: CallMetrics,
        registry: CollectorRegistry,
        readiness: Readiness,
        *,
        listen: str,
        health_listen: str | None = None,
        limits: Limits | None = None,
        tls: TlsKeeper | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """Addresses are `host:port`; port 0 is a free one. Opens nothing yet.

        `health_listen` is in plain text also with `tls`.
        """
        allowed = core.settings.limits
        limits = limits or Limits(idle_seconds=float(allowed.http_idle_seconds))
        probes = ProbeHandlers(core, registry, readiness)
        self.page = PageHandlers(core, tls=tls)
        self.routes = [
            *DiscoveryHandlers(core, limits).routes(),
            *probes.routes(),
            probes.document_route(),
            *self.page.routes(),
        ]
        gateway = Gateway(Routes(self.routes), metrics, core, guard, tracer)
        if tls is not None and tls.asks_for_certificates:
            gateway.open_to_all = {route.template for route in probes.routes()}
        doors = self.connections = OpenConnections(
            allowed.http_connections, allowed.http_connections_per_caller, guard.callers
        )
        context, size = None if tls is None else tls.context(), allowed.header_bytes
        self._main = _Port(listen, gateway, limits, context, header_bytes=size, doors=doors)
        self._health = None
        if health_listen is not None:
            health = Gateway(Routes(probes.routes()), metrics, core, guard)
            self._health = _Port(health_listen, health, limits, header_bytes=size)

    @property
    def events(self) -> EventStreams:
        """The pages that are kept up to date."""
        return self.page.events

    @property
    def port(self) -> int:
        """The port of `listen`, once started."""
        return self._main.number

    @property
    def health_port(self) -> int | None:
        """The port of `health_listen`, once started."""
        return None if self._health is None else self._health.number

    async def start(self) -> None:
        """Takes connections. Raises OSError with a sentence when it cannot listen."""
        await self._main.open()
        if self._health is not None:
            try:
                await self._health.open()
            except OSError:
                await self._main.close(0.0)
                raise

    async def stop(self, grace: float) -> None:
        """Takes no more connections, ends idle ones, and answers the calls under way.

        After `grace` seconds what is still under way is cut. The health port
        answers until the other one is done.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        self.page.events.end_all()
        await self._main.close(grace)
        if self._health is not None:
            await self._health.close(max(0.0, end - loop.time()))


class _Port:
    """One listening address."""

    def __init__(  # noqa: PLR0913 - what its connections are made of
        self,
        address: str,
        gateway: Gateway,
        limits: Limits,
        context: SSLContext | None = None,
        *,
        header_bytes: int,
        doors: OpenConnections | None = None,
    ) -> None:
        self._header_bytes = header_bytes
        self._doors = doors
        self._address = address
        self._gateway = gateway
        self._limits = limits
        self._context = context
        self._connections: ConnectionServer | None = None
        self._listener: asyncio.Server | None = None
        self.number = 0

    async def open(self) -> None:
        self._connections = ConnectionServer(
            self._gateway,
            self._limits,
            header_bytes=self._header_bytes,
            doors=self._doors,
            refused=self._gateway.not_admitted,
        )
        try:
            self._listener = await self._listen(self._connections)
            _queue(self._listener, _BACKLOG)
        except OSError as error:
            reason = _reason(error)
            raise OSError(f"cannot listen on {self._address} for HTTP: {reason}") from error
        self.number = self._listener.sockets[0].getsockname()[1]

    async def _listen(self, connections: ConnectionServer) -> asyncio.Server:
        host, _, port = self._address.rpartition(":")
        host = host.strip("[]")
        loop = asyncio.get_running_loop()
        if host == "::":
            # As gRPC does: both families, which asyncio would not give us.
            both = socket.create_server(
                (host, int(port)),
                family=socket.AF_INET6,
                backlog=_BACKLOG,
                dualstack_ipv6=socket.has_dualstack_ipv6(),
            )
            return await loop.create_server(
                connections, sock=both, backlog=ACCEPTED_A_TURN, **self._tls_options()
            )
        # A second process on the port must fail, not take half of the connections.
        return await loop.create_server(
            connections,
            host or None,
            int(port),
            backlog=ACCEPTED_A_TURN,  # for asyncio that is both this and the system's queue
            reuse_port=False,
            **self._tls_options(),
        )

    def _tls_options(self) -> dict[str, Any]:
        """Only together with a context does asyncio take the times."""
        if self._context is None:
            return {}
        return {
            "ssl": self._context,
            "ssl_handshake_timeout": self._limits.handshake_seconds,
            "ssl_shutdown_timeout": self._limits.linger_seconds,
        }

    async def close(self, grace: float) -> None:
        self._gateway.draining = True
        if self._listener is not None:
            self._listener.close()
        if self._connections is not None:
            await self._connections.drain(grace)


def _queue(listener: asyncio.Server, size: int) -> None:
    """Lets so many connections wait to be accepted, listen(2)."""
    for each in listener.sockets:
        with socket.socket(fileno=os.dup(each.fileno())) as same:
            same.listen(size)


def _reason(error: OSError) -> str:
    if error.errno is not None and error.errno in errno.errorcode:
        return os.strerror(error.errno).lower()
    return (error.strerror or "unknown reason").lower()
