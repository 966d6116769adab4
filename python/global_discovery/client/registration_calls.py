"""The two calls of a heartbeat, over whichever wire its server speaks.

A server is a gRPC target such as `discovery.example:50051`, or a URL, `http://`
or `https://`, of one that speaks REST. What either answers is looked at before it
is believed: an answer that grants no usable lease is a failed call.
"""

from typing import TYPE_CHECKING, Protocol

import grpc

from global_discovery.client.errors import CallFailed, answer, instance_in
from global_discovery.client.rest_registration import (
    MAX_SECONDS,
    Granted,
    RestRegistrationCalls,
    is_lease_id,
)
from global_discovery.client.servers import (
    channel_credentials,
    is_url,
    open_channel,
    open_stub,
)
from global_discovery.client.tls import ClientTls
from global_discovery.domain.timer import Timer
from global_discovery.v1 import pool_discovery_pb2 as pb

if TYPE_CHECKING:
    from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceAsyncStub


class RegistrationCalls(Protocol):
    """One server, over connections of its own."""

    async def register(self, request: pb.RegisterPoolRequest, seconds: float) -> Granted:
        """Registers or renews; raises CallFailed, also after `seconds`."""
        ...

    async def deregister(self, request: pb.DeregisterPoolRequest, seconds: float) -> None:
        """Withdraws; raises CallFailed, with UNIMPLEMENTED where nothing can be withdrawn."""
        ...

    async def close(self) -> None:
        """Closes the connections."""
        ...


def open_calls(server: str, timer: Timer, tls: ClientTls | None = None) -> RegistrationCalls:
    """The calls to `server`, which are to be closed. Opens nothing yet."""
    if is_url(server):
        return RestRegistrationCalls(server, timer, tls)
    return _GrpcRegistrationCalls(server, tls)


class _GrpcRegistrationCalls:
    """Over gRPC, in plain text without `tls`."""

    def __init__(self, server: str, tls: ClientTls | None) -> None:
        self._server = server
        self._tls = tls
        self._credentials: grpc.ChannelCredentials | None = None
        self._channel: grpc.aio.Channel | None = None

    async def register(self, request: pb.RegisterPoolRequest, seconds: float) -> Granted:
        stub = await self._stub()
        call = stub.RegisterPool(request, timeout=seconds)
        response = await answer(self._server, call)
        lease, interval = response.lease_duration_secs, response.heartbeat_interval_secs
        if not 1 <= interval <= lease <= MAX_SECONDS:
            told = f"granted a lease of {lease} s with a heartbeat every {interval} s"
            raise CallFailed(self._server, grpc.StatusCode.INTERNAL, told)
        if not is_lease_id(response.lease_id):
            told = "granted a lease under what is no lease id"
            raise CallFailed(self._server, grpc.StatusCode.INTERNAL, told)
        return Granted(response, instance_in(await call.trailing_metadata()))

    async def deregister(self, request: pb.DeregisterPoolRequest, seconds: float) -> None:
        stub = await self._stub()
        await answer(self._server, stub.DeregisterPool(request, timeout=seconds))

    async def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def _stub(self) -> "PoolDiscoveryServiceAsyncStub":
        """Over a new channel when the files of TLS are new: a channel keeps those it has.

        Raises CallFailed when they cannot be used.
        """
        if self._tls is not None:
            credentials = channel_credentials(self._server, self._tls)
            if credentials is not self._credentials:
                await self.close()
                self._credentials = credentials
        if self._channel is None:
            self._channel = open_channel(self._server, self._tls)
        return open_stub(self._channel)
