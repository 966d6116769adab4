"""Which server to call next, and the connections to them.

A *server* is a gRPC target such as `discovery.example:50051`, or a URL, `http://`
or `https://`, of one that is reached by REST. It may be one instance, or a name
behind which several stand; so "another instance" is the next server, and with
only one the same name over a new connection.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import grpc

from global_discovery.client.errors import CallFailed
from global_discovery.client.tls import ClientTls
from global_discovery.domain import frontend_url
from global_discovery.pem import BadTlsFile
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub

if TYPE_CHECKING:
    from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceAsyncStub

CHANNEL_OPTIONS: list[tuple[str, int]] = [
    # Without it a second channel to the same name reuses the first one's
    # connection, and with it the instance that has just failed.
    ("grpc.use_local_subchannel_pool", 1),
    # A load balancer forgets a connection without telling either end: it is
    # found dead within 30 s, and pinging keeps it from being forgotten.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    # Pings go on however long no data was sent.
    ("grpc.http2.max_pings_without_data", 0),
]


_TARGET = re.compile(r"[^\s/]+|(?:dns|ipv4|ipv6|unix|unix-abstract|vsock|xds):\S+")
"""What gRPC calls a target: an address, or a name of one of its schemes."""


def checked_servers(servers: Sequence[str]) -> tuple[str, ...]:
    """The servers as they are called.

    Raises ValueError, which names the argument `servers`, when there is none, or one
    is neither a gRPC target nor an http(s) URL. Whether it exists is not asked.
    """
    if isinstance(servers, str | bytes):
        raise ValueError("servers must be a list of servers, not one string")  # noqa: TRY004 - as promised
    if not servers:
        raise ValueError("servers must name at least one server")
    return tuple(_checked(f"servers[{at}]", server) for at, server in enumerate(servers))


def _checked(name: str, server: object) -> str:
    if not isinstance(server, str) or not server:
        raise ValueError(f"{name} must be a text that is not empty")
    if is_url(server):
        try:
            return frontend_url.normalize(server)
        except frontend_url.BadUrl as problem:
            raise ValueError(f"{name} {server!a} {problem}") from None
    if _TARGET.fullmatch(server) is None:
        raise ValueError(f"{name} {server!a} is neither host:port nor an http:// or https:// URL")
    return server


def is_url(server: str) -> bool:
    """Whether a server is given as a URL, and so speaks REST."""
    return server.lower().startswith(("http://", "https://"))


def open_channel(server: str, tls: ClientTls | None = None) -> grpc.aio.Channel:
    """A channel with a connection of its own, in plain text without `tls`. Close it.

    Raises CallFailed when the files of TLS cannot be used.
    """
    if tls is None:
        return grpc.aio.insecure_channel(server, options=CHANNEL_OPTIONS)
    options = [*CHANNEL_OPTIONS, *tls.channel_options]
    return grpc.aio.secure_channel(server, channel_credentials(server, tls), options=options)


def channel_credentials(server: str, tls: ClientTls) -> grpc.ChannelCredentials:
    """Of the files as they are now. Raises CallFailed."""
    try:
        return tls.credentials()
    except BadTlsFile as error:
        raise CallFailed(server, grpc.StatusCode.UNKNOWN, str(error)) from error


def open_stub(channel: grpc.aio.Channel) -> "PoolDiscoveryServiceAsyncStub":
    """The calls over a channel. Only the type stubs tell the two kinds of stub apart."""
    return PoolDiscoveryServiceStub(channel)


class Servers:
    """The servers in the order in which they were given, and the round of repeats at once.

    A call that one instance could not take is repeated at each other one at
    once; that is a round. When it is used up the caller must wait before the
    next one.
    """

    def __init__(self, servers: Sequence[str]) -> None:
        """Begins with the first; raises ValueError when there is none."""
        if not servers:
            raise ValueError("at least one server is needed")
        self._servers = tuple(servers)
        self._at = 0
        self._repeats = 0
        self.begin_round()

    @property
    def current(self) -> str:
        """The server to call."""
        return self._servers[self._at]

    def in_turn(self) -> Sequence[str]:
        """All of them, the current one first."""
        return self._servers[self._at :] + self._servers[: self._at]

    def move_on(self) -> None:
        """The next one is current."""
        self._at = (self._at + 1) % len(self._servers)

    def go_to(self, server: str) -> None:
        """That one is current; it must be one of them."""
        self._at = self._servers.index(server)

    def begin_round(self) -> None:
        """A call may again be repeated at once at each other instance."""
        self._repeats = max(1, len(self._servers) - 1)

    def repeat_at_once(self) -> bool:
        """Whether the round has a repeat left, which is then used."""
        if not self._repeats:
            return False
        self._repeats -= 1
        return True
