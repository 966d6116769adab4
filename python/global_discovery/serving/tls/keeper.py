"""Keeps the TLS files that are in use, and takes new ones for new handshakes.

The files are looked at each LOOK_SECONDS by their content, so that it does not
matter how they are replaced: rewritten, renamed over, or by the swap of a symlink
as Kubernetes does for a mounted Secret. Open connections live on with what they
began with. Files that cannot be used change nothing; that is said once, and they
are taken as soon as they can be.

Resumed sessions never outlive their files: each new set begins without any.
"""

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from global_discovery.domain.events import Event, Report, ignore
from global_discovery.pem import BadTlsFile
from global_discovery.serving.tls.certificate import Certificate
from global_discovery.serving.tls.files import Material, TlsPaths, digest, load

LOOK_SECONDS = 2.0
"""New files are in use within twice that, also when they are read at a bad moment."""


class TlsKeeper:
    """The files of one service. Belongs to an event loop, except where a method says so."""

    def __init__(
        self,
        paths: TlsPaths,
        *,
        wall: Callable[[], float],
        report: Report = ignore,
        every_caller_certified: bool = False,
    ) -> None:
        """Reads the files; raises BadTlsFile. See `files.load`."""
        self._paths = paths
        self._wall = wall
        self._report = report
        self._every_caller_certified = every_caller_certified
        self._material = self._load()
        self._refusal: str | None = None
        self._at_grpc = self._material
        self._handing = threading.Lock()
        self.taken = self.refused = 0
        """How often new files were taken, and refused."""

    @property
    def certificate(self) -> Certificate:
        """The server's own."""
        return self._material.certificate

    @property
    def client_ca(self) -> Certificate | None:
        """Of the CAs that callers need a certificate of, the one that ends next."""
        return self._material.client_ca

    @property
    def asks_for_certificates(self) -> bool:
        """Whether callers need a certificate."""
        return self._paths.client_ca is not None

    # -- for the faces -------------------------------------------------------

    def context(self) -> ssl.SSLContext:
        """For REST: each handshake is made with what is kept then."""
        return _CurrentContext.of(lambda: self._material.context)

    def credentials(self) -> grpc.ServerCredentials:
        """For gRPC: the same. Every caller must show a certificate where they need one."""
        return grpc.dynamic_ssl_server_credentials(
            _configuration(self._material),
            self._news_for_grpc,  # type: ignore[arg-type] # the types forget that None is allowed
            self.asks_for_certificates,
        )

    def _news_for_grpc(self) -> grpc.ServerCertificateConfiguration | None:
        """Called by threads of gRPC before each handshake; None when nothing is new."""
        with self._handing:
            if self._at_grpc is self._material:
                return None
            self._at_grpc = self._material
            return _configuration(self._at_grpc)

    # -- looking -------------------------------------------------------------

    async def watch(self, sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep) -> None:
        """Looks at the files for ever."""
        while True:
            await sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Takes the files if they are new and can be used."""
        try:
            found = await asyncio.to_thread(self._news)
        except BadTlsFile as error:
            self._refuse(str(error))
            return
        if found is not None:
            self._material = found
            self.taken += 1
        if found is not None or self._refusal is not None:
            self._refusal = None
            self._report(Event.TLS_FILES_TAKEN, **self._told())

    def _news(self) -> Material | None:
        """Runs in a thread: a disk that hangs must not hold up the loop."""
        if digest(self._paths) == self._material.digest:
            return None
        return self._load()

    def _load(self) -> Material:
        return load(
            self._paths,
            now=self._wall(),
            every_caller_certified=self._every_caller_certified,
        )

    def _refuse(self, why: str) -> None:
        if why != self._refusal:
            self._refusal = why
            self.refused += 1
            self._report(Event.TLS_FILES_REFUSED, message=why)

    def _told(self) -> dict[str, object]:
        now = self._wall()
        told: dict[str, object] = {
            "serial": self.certificate.serial,
            "expires_in_days": _days(self.certificate.not_after - now),
        }
        if self.client_ca is not None:
            told["client_ca_expires_in_days"] = _days(self.client_ca.not_after - now)
        return told


def _configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    chain, key, *client_cas = material.contents
    roots = client_cas[0] if client_cas else None
    return grpc.ssl_server_certificate_configuration([(key, chain)], root_certificates=roots)


def _days(seconds: float) -> float:
    return round(seconds / 86_400, 1)


class _CurrentContext(ssl.SSLContext):
    """Stands where asyncio wants one context, and leaves each handshake to the current one.

    Reloading a live context would add new CAs to the old ones, and would let a
    caller resume a session that an old CA had vouched for.
    """

    _current: Callable[[], ssl.SSLContext]

    @classmethod
    def of(cls, current: Callable[[], ssl.SSLContext]) -> "_CurrentContext":
        """`current` is asked before each handshake."""
        context = cls(ssl.PROTOCOL_TLS_SERVER)
        context._current = current
        return context

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """See ssl.SSLContext."""
        return self._current().wrap_bio(*args, **kwargs)
