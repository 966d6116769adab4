"""The flags of TLS, and what must hold between them and in the files that they name."""

import time
from pathlib import Path

from global_discovery.cli.flags import Flag, Refused, Values
from global_discovery.cli.serve_flags.general import ALWAYS
from global_discovery.cli.values import file_path
from global_discovery.pem import BadTlsFile
from global_discovery.serving.tls.files import TlsPaths, load

TLS_CERT = Flag(
    "--tls-cert-path",
    "PATH",
    file_path,
    "The server's certificate and the intermediate ones, in PEM: TLS for REST and gRPC.",
    ALWAYS,
)
TLS_KEY = Flag("--tls-key-path", "PATH", file_path, "Its private key, in PEM.", ALWAYS)
TLS_CLIENT_CA = Flag(
    "--tls-client-ca-path",
    "PATH",
    file_path,
    "The CAs, in PEM, of which callers must show a certificate.",
    ALWAYS,
)


def tls_paths(values: Values) -> TlsPaths | None:
    """What TLS is served with, if it is. Raises Refused when a part of it is missing."""
    if values.is_set(TLS_CLIENT_CA):
        _refuse_missing(values, TLS_CLIENT_CA, TLS_CERT)
    _refuse_missing(values, TLS_CERT, TLS_KEY)
    _refuse_missing(values, TLS_KEY, TLS_CERT)
    cert, key = values.get(TLS_CERT), values.get(TLS_KEY)
    if cert is None or key is None:
        return None
    return TlsPaths(cert, key, values.get(TLS_CLIENT_CA))


def refuse_bad_files(values: Values) -> None:
    """Raises Refused when TLS could not be served with them now."""
    paths = tls_paths(values)
    if paths is None:
        return
    try:
        load(paths, now=time.time())
    except BadTlsFile as bad:
        flags = (TLS_CERT, TLS_KEY, TLS_CLIENT_CA)
        blamed = next(flag for flag in flags if values.get(flag) == bad.path)
        raise Refused(f"{values.source(blamed)} {str(bad.path)!a}: {bad.problem}") from None


def _refuse_missing(values: Values, flag: Flag[Path], needed: Flag[Path]) -> None:
    if values.is_set(flag) and not values.is_set(needed):
        raise Refused(f"{values.source(flag)} needs {needed.name}")
