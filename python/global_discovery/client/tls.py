"""How servers are called over TLS: which CAs are believed, and what is shown of the caller.

That is a certificate, or a token, such as Kubernetes projects for a service account.
A token goes over TLS, or over HTTP to this machine itself, and nowhere else.

The files are read again before each new connection, and made into something new
only when they have changed. Files that cannot be used leave the last good ones in
use; without any, calls fail with what is wrong. A file system that hangs holds up
the caller's loop: keep the files on a local one.
"""

import logging
import re
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import grpc

from global_discovery import pem
from global_discovery.pem import BadTlsFile

_TOKEN = re.compile(rb"[!-~]{1,8192}")
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
    token_path: str | Path | None = None
    """The file with the token that each call shows; read for each call, as it is replaced."""

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
        self._token = None if settings.token_path is None else TokenFile(Path(settings.token_path))
        self._loaded: _Loaded | None = None
        self._refusal = ""

    @classmethod
    def of(cls, settings: TlsSettings | None, servers: Iterable[str]) -> "ClientTls | None":
        """None for None. Raises TokenInPlainText when one of the servers must not see a token."""
        if settings is None:
            return None
        if settings.token_path is not None:
            for server in servers:
                if not keeps_tokens(server):
                    raise TokenInPlainText(server)
        return cls(settings)

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

    def headers(self, server: str) -> dict[str, str]:
        """What a request of aiohttp has in its head. Raises BadTlsFile, also for a bad token."""
        if self._token is None or not keeps_tokens(server):
            return {}
        return {"Authorization": f"Bearer {self._token.read()}"}

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
        credentials = grpc.ssl_channel_credentials(roots, key, cert)
        if self._token is not None:
            calls = grpc.metadata_call_credentials(self._token)
            credentials = grpc.composite_channel_credentials(credentials, calls)
        return _Loaded(contents, context, credentials)


def _load(paths: tuple[Path, ...], make: Callable[[pem.Contents], _Loaded]) -> _Loaded:
    return pem.made_of(paths, make) if paths else make(())


def _system_roots() -> bytes | None:
    """OpenSSL's file of CAs; None, for those that gRPC brings along, where it has none."""
    file = ssl.get_default_verify_paths().cafile
    try:
        return Path(file).read_bytes() if file else None
    except OSError:
        return None


class TokenInPlainText(ValueError):
    """A token would be sent without TLS, where others can read it."""

    def __init__(self, server: str) -> None:
        """Names the server."""
        super().__init__(f"{server} is called without TLS, and would be shown a token")


class TokenFile(grpc.AuthMetadataPlugin):
    """A file with one token. Its content is in no error."""

    def __init__(self, path: Path) -> None:
        """Reads nothing yet."""
        self._path = path

    def read(self) -> str:
        """The token. Raises BadTlsFile."""
        token = pem.read([self._path])[0].strip()
        if _TOKEN.fullmatch(token) is None:
            raise BadTlsFile(self._path, "has no token")
        return token.decode()

    def __call__(
        self, context: grpc.AuthMetadataContext, callback: grpc.AuthMetadataPluginCallback
    ) -> None:
        """Called by a thread of gRPC for each call, which fails when there is none."""
        del context
        try:
            callback((("authorization", f"Bearer {self.read()}"),), None)
        except BadTlsFile as error:
            callback((), error)


def keeps_tokens(server: str) -> bool:
    """Whether a token can be sent to a server: over TLS, or without leaving this machine."""
    if not server.lower().startswith("http://"):
        return True
    host = urlsplit(server).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def headers(tls: ClientTls | None, server: str) -> dict[str, str]:
    """See ClientTls; nothing without one."""
    return {} if tls is None else tls.headers(server)


def request_options(tls: ClientTls | None) -> dict[str, Any]:
    """See ClientTls; without one what aiohttp does by itself, which is the system's CAs."""
    return {} if tls is None else tls.request_options()
