"""The other end of a gRPC call. See access.guard.Peer."""

from collections.abc import Sequence
from functools import lru_cache

import grpc

from global_discovery.serving.caller import grpc_peer_address
from global_discovery.serving.tls.certificate import names_in_pem

FACE = "grpc"
_CERTIFICATE = "x509_pem_cert"
Context = grpc.aio.ServicerContext[bytes, bytes]


class GrpcPeer:
    """Reads what is asked for, and nothing before."""

    __slots__ = ("_context",)
    face = FACE

    def __init__(self, context: Context) -> None:
        """Of the call."""
        self._context = context

    @property
    def address(self) -> str:
        """See Peer."""
        return grpc_peer_address(self._context.peer())

    def header(self, name: str) -> Sequence[str | bytes]:
        """See Peer."""
        metadata = self._context.invocation_metadata() or ()
        return [value for each, value in metadata if each == name]

    def certificate_names(self) -> tuple[Sequence[str], Sequence[str]]:
        """See Peer. gRPC has verified the certificate, or there would be no call."""
        (pem, *_) = (self._context.auth_context() or {}).get(_CERTIFICATE, (b"",))
        return _names(pem)


_names = lru_cache(maxsize=4096)(names_in_pem)
