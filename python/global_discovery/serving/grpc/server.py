"""The gRPC server: its options, and what runs on its port.

Each option has a reason, and none is left out because it is the default by
accident; docs/operating.md explains the numbers to operators.
"""

import asyncio

import grpc

from global_discovery.serving.grpc.library_log import leave_out_callers_doings
from global_discovery.serving.grpc.open_services import OpenServices
from global_discovery.serving.grpc.service import SERVICE, PoolDiscovery
from global_discovery.serving.grpc.steady import steady_server
from global_discovery.serving.limits import ServiceLimits

CONNECTION_AGE_SECONDS = 1800
CONNECTION_GRACE_SECONDS = 900
"""Longer than any stream may live, so that connections never end a stream."""

HANDSHAKE_SECONDS = 10
_LOOK_SECONDS = 1.0
"""A server that has failed says so when it is asked, and not before its last stream ends."""
MAX_WAITING_CALLS = 16_384
"""Calls that came in and that the loop has not begun with, of all connections together."""

OPTIONS: list[tuple[str, int]] = [
    # A second process on the port must fail, not take half of the connections.
    ("grpc.so_reuseport", 0),
    # A dead peer is found within 30 s, also while its channel is idle.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Clients may ping every 5 s (the name with `recv` is ignored by gRPC).
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    # Connections are renewed, so that a new instance gets its share of them.
    ("grpc.max_connection_age_ms", CONNECTION_AGE_SECONDS * 1000),
    ("grpc.max_connection_age_grace_ms", CONNECTION_GRACE_SECONDS * 1000),
    # A caller that does not finish its handshake, TLS or not, is not waited for.
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_SECONDS * 1000),
    # Above 1,000 waiting calls gRPC would cancel some at random, whoever made them: a flood
    # of calls that are reset at once, or very many relays that come back, would hit everybody.
    ("grpc.server.max_pending_requests", MAX_WAITING_CALLS),
    ("grpc.server.max_pending_requests_hard_limit", MAX_WAITING_CALLS),
]


def _limiting(limits: ServiceLimits) -> list[tuple[str, int]]:
    """The options that are flags."""
    return [
        ("grpc.max_receive_message_length", limits.body_bytes),
        ("grpc.max_metadata_size", limits.header_bytes),
        ("grpc.absolute_max_metadata_size", limits.header_bytes),
        # One router may watch many lists over one connection.
        ("grpc.max_concurrent_streams", limits.streams_per_connection),
        # Those beyond are closed as soon as they are there.
        ("grpc.max_allowed_incoming_connections", limits.grpc_connections),
    ]


class GrpcFace:
    """The gRPC server on one address."""

    def __init__(
        self,
        service: PoolDiscovery,
        open_services: OpenServices,
        address: str,
        credentials: grpc.ServerCredentials | None = None,
        limits: ServiceLimits | None = None,
    ) -> None:
        """Binds the address, in plain text without `credentials`. Raises OSError when it cannot."""
        leave_out_callers_doings()
        self._server = steady_server([*OPTIONS, *_limiting(limits or ServiceLimits())])
        self._stopping = False
        self.health = open_services.health
        self._server.add_registered_method_handlers(SERVICE, service.handlers())
        open_services.add_to(self._server)
        try:
            if credentials is None:
                self.port = self._server.add_insecure_port(address)
            else:
                self.port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address} for gRPC") from error

    async def start(self) -> None:
        """Takes connections."""
        await self._server.start()

    async def run(self) -> None:
        """For ever: raises when gRPC has stopped serving without having been told to."""
        while await self._server.wait_for_termination(_LOOK_SECONDS):
            pass
        if not self._stopping:
            raise RuntimeError("gRPC has stopped serving")
        await asyncio.get_running_loop().create_future()

    async def stop(self, grace: float) -> None:
        """Takes no more calls, and waits for those under way for at most `grace` seconds."""
        self._stopping = True
        await self._server.stop(grace)
