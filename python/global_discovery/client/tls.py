"""How servers are called over TLS: which CAs are believed, and which certificate is shown.

The files are read again before each new connection, and made into something new
only when they have changed. Files that cannot be used leave the last good ones in
use; without any, calls fail with what is wrong. A file system that hangs holds up
the caller's loop: keep the files on a local one.
"""

import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from global_discovery import pem
from global_discovery.pem import BadTlsFile

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS for calls to servers; what is left out is the system's, or nothing.

    Raises ValueError when of certificate and key one is missing.
    """

    ca_path: str | Path | None = None
    """The CAs that are believed, in PEM; None for the system's."""
    cert_path: str | Path | None = None
    """The certificate that is shown (mTLS), followed by the intermediate ones, in PEM."""
    key_path: str | Path | None = None
    """Its private key, in PEM, not encrypted."""
    server_name: str = ""
    """The name that the servers' certificates must have, where servers are called by another."""

    def __post_init__(self) -> None:
        """Checks what can be checked without reading."""
        if (self.cert_path is None) != (self.key_path is None):
            raise ValueError("a client certificate and its key need each other")


class _Loaded(NamedTuple):
    contents: pem.Contents
    context: ssl.SSLContext
    credentials: grpc.ChannelCredentials


class ClientTls:
    """What connections are made with, of the newest good files."""

    def __init__(self, settings: TlsSettings) -> None:
        """Reads nothing yet."""
        self._ca = None if settings.ca_path is None else Path(settings.ca_path)
        self._pair: tuple[Path, Path] | None = None
        if settings.cert_path is not None and settings.key_path is not None:
            self._pair = Path(settings.cert_path), Path(settings.key_path)
        self._paths = (*([] if self._ca is None else [self._ca]), *(self._pair or ()))
        self._server_name = settings.server_name
        self._loaded: _Loaded | None = None
        self._refusal = ""

    @classmethod
    def of(cls, settings: TlsSettings | None) -> "ClientTls | None":
        """None for None."""
        return None if settings is None else cls(settings)

    def credentials(self) -> grpc.ChannelCredentials:
        """For gRPC; the same object until the files change. Raises BadTlsFile."""
        return self._current().credentials

    @property
    def channel_options(self) -> list[tuple[str, str]]:
        """What a gRPC channel needs besides."""
        name = self._server_name
        return [("grpc.ssl_target_name_override", name)] if name else []

    def request_options(self) -> dict[str, Any]:
        """What a request of aiohttp is given. Raises BadTlsFile."""
        return {"ssl": self._current().context, "server_hostname": self._server_name or None}

    def _current(self) -> _Loaded:
        loaded = self._loaded
        try:
            if loaded is None or (self._paths and pem.read(self._paths) != loaded.contents):
                self._loaded = loaded = _load(self._paths, self._make)
            self._refusal = ""
        except BadTlsFile as error:
            if loaded is None:
                raise
            if str(error) != self._refusal:
                self._refusal = str(error)
                _LOG.warning("the files of TLS before it stay in use: %s", error)
        return loaded

    def _make(self, contents: pem.Contents) -> _Loaded:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        left = list(contents)
        if self._ca is not None:
            roots: bytes | None = left.pop(0)
            pem.load_cas(context, self._ca, roots or b"")
        else:
            context.load_default_certs()
            roots = _system_roots()
        cert = key = None
        if self._pair is not None:
            cert, key = left
            pem.load_pair(context, *self._pair)
        return _Loaded(contents, context, grpc.ssl_channel_credentials(roots, key, cert))


def _load(paths: tuple[Path, ...], make: Callable[[pem.Contents], _Loaded]) -> _Loaded:
    return pem.made_of(paths, make) if paths else make(())


def _system_roots() -> bytes | None:
    """OpenSSL's file of CAs; None, for those that gRPC brings along, where it has none."""
    file = ssl.get_default_verify_paths().cafile
    try:
        return Path(file).read_bytes() if file else None
    except OSError:
        return None


def request_options(tls: ClientTls | None) -> dict[str, Any]:
    """See ClientTls; without one what aiohttp does by itself, which is the system's CAs."""
    return {} if tls is None else tls.request_options()
