"""The other end of an HTTP call. See access.guard.Peer."""

from collections.abc import Sequence
from typing import cast

from aiohttp import web

from global_discovery.serving.rest.connection import Connection

FACE = "rest"


class RestPeer:
    """Reads what is asked for, and nothing before."""

    __slots__ = ("_request",)
    face = FACE

    def __init__(self, request: web.BaseRequest) -> None:
        """Of the call."""
        self._request = request

    @property
    def address(self) -> str:
        """See Peer."""
        return self._connection.peer

    def header(self, name: str) -> Sequence[str | bytes]:
        """See Peer."""
        return self._request.headers.getall(name, ())

    def certificate_names(self) -> tuple[Sequence[str], Sequence[str]]:
        """See Peer. OpenSSL has verified the certificate of whoever showed one."""
        return self._connection.certificate_names

    @property
    def _connection(self) -> Connection:
        return cast("Connection", self._request.protocol)
