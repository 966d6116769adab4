"""Three files, read and judged as one: certificate chain, private key, client CAs.

They are taken together or not at all, and only as they stood at one moment: when
one of them changes while they are read, they are read again. What both faces are
given is made of the same bytes. Knows no gRPC, so that flags are judged without it.

Not checked, because only callers can: whether they trust the chain, and whether
it names the host by which they call.
"""

import hashlib
import os
import ssl
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from global_discovery.serving.tls.certificate import Certificate, certificates

MAX_FILE_BYTES = 1024 * 1024
_ATTEMPTS = 3
"""How often files are read that change meanwhile."""
_WEAK = {"EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"}
"""What OpenSSL holds against a certificate, and not against its key."""


class BadTlsFiles(OSError):
    """The files cannot be used: `str` says which one and why. No secret is in it."""

    def __init__(self, path: Path, problem: str) -> None:
        """`problem` can follow the path."""
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


@dataclass(frozen=True, slots=True)
class TlsPaths:
    """Where the files are, in PEM."""

    cert: Path
    """The server's certificate, followed by the intermediate ones."""
    key: Path
    """Its private key, not encrypted."""
    client_ca: Path | None = None
    """The CAs of which callers must show a certificate; None asks for none."""

    @property
    def all(self) -> tuple[Path, ...]:
        """Those that are set."""
        return tuple(path for path in (self.cert, self.key, self.client_ca) if path is not None)


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """What handshakes are made with."""

    digest: bytes
    """Of the files' content."""
    certificate: Certificate
    client_ca: Certificate | None
    """Of several the one that ends next."""
    context: ssl.SSLContext
    """For REST. With client CAs it verifies the certificate of a caller that shows one."""
    contents: tuple[bytes, ...] = field(repr=False)
    """Of the files, for gRPC: chain, key and, where there are some, client CAs."""


def load(paths: TlsPaths, *, now: float, every_caller_certified: bool = False) -> Material:
    """What the files hold. Raises BadTlsFiles.

    `now` is in seconds since the epoch. With `every_caller_certified` REST ends the
    handshake of a caller that shows no certificate, where there are client CAs.
    """
    for _ in range(_ATTEMPTS):
        contents = _contents(paths)
        try:
            material = _material(
                paths, contents, now=now, every_caller_certified=every_caller_certified
            )
        except BadTlsFiles:
            if _contents(paths) == contents:
                raise
        else:
            if _contents(paths) == contents:
                return material
    raise BadTlsFiles(paths.cert, "changes all the time")


def digest(paths: TlsPaths) -> bytes:
    """Of what the files hold now. Raises BadTlsFiles."""
    return _digest(_contents(paths))


def _contents(paths: TlsPaths) -> tuple[bytes, ...]:
    return tuple(_read(path) for path in paths.all)


def _digest(contents: Sequence[bytes]) -> bytes:
    return b"".join(hashlib.sha256(content).digest() for content in contents)


def _read(path: Path) -> bytes:
    try:
        # A pipe without a writer would hold us up.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            content = _content(path, descriptor)
        finally:
            os.close(descriptor)
    except BadTlsFiles:
        raise
    except (OSError, ValueError) as error:
        why = (getattr(error, "strerror", None) or "no such path").lower()
        raise BadTlsFiles(path, f"cannot be read: {why}") from error
    if not content.strip():
        raise BadTlsFiles(path, "is empty")
    if len(content) > MAX_FILE_BYTES:
        raise BadTlsFiles(path, f"has more than {MAX_FILE_BYTES} bytes")
    return content


def _content(path: Path, descriptor: int) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise BadTlsFiles(path, "is no file")
    with open(descriptor, "rb", closefd=False) as file:
        return file.read(MAX_FILE_BYTES + 1)


def _material(
    paths: TlsPaths, contents: tuple[bytes, ...], *, now: float, every_caller_certified: bool
) -> Material:
    leaf = _certificates(paths.cert, contents[0])[0]
    if not leaf.not_before <= now < leaf.not_after:
        raise BadTlsFiles(paths.cert, f"the certificate {_outside(leaf, now)}")
    context = _context()
    _load_pair(context, paths)
    client_ca = None
    if paths.client_ca is not None:
        client_ca = _load_client_cas(context, paths.client_ca, contents[2], now)
        context.verify_mode = ssl.CERT_REQUIRED if every_caller_certified else ssl.CERT_OPTIONAL
    return Material(
        digest=_digest(contents),
        certificate=leaf,
        client_ca=client_ca,
        context=context,
        contents=contents,
    )


def _certificates(path: Path, pem: bytes) -> tuple[Certificate, ...]:
    try:
        return certificates(pem)
    except ValueError as error:
        raise BadTlsFiles(path, str(error)) from error


def _outside(certificate: Certificate, now: float) -> str:
    return "is not valid yet" if now < certificate.not_before else "has expired"


def _context() -> ssl.SSLContext:
    """TLS 1.2 and 1.3 with forward secrecy and authenticated encryption only, as gRPC has it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    context.options |= ssl.OP_NO_RENEGOTIATION
    # An intermediate CA may be all that is trusted; gRPC takes that too.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load_pair(context: ssl.SSLContext, paths: TlsPaths) -> None:
    def encrypted() -> str:
        # Without this OpenSSL would ask the terminal.
        raise BadTlsFiles(paths.key, "is encrypted")

    try:
        context.load_cert_chain(paths.cert, paths.key, encrypted)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise BadTlsFiles(paths.key, "is not the key of the certificate") from error
        blamed = paths.cert if error.reason in _WEAK else paths.key
        raise BadTlsFiles(blamed, f"cannot be used{_reason(error)}") from error
    except BadTlsFiles:
        raise
    except OSError as error:
        raise BadTlsFiles(paths.cert, "cannot be read") from error


def _reason(error: ssl.SSLError) -> str:
    return f" ({error.reason.lower().replace('_', ' ')})" if error.reason else ""


def _load_client_cas(context: ssl.SSLContext, path: Path, pem: bytes, now: float) -> Certificate:
    """Loads them; the one that ends next, or that ended last."""
    found = _certificates(path, pem)
    lasting = [each for each in found if now < each.not_after]
    if not lasting:
        raise BadTlsFiles(path, "every certificate has expired")
    try:
        context.load_verify_locations(cadata=pem.decode("ascii", "ignore"))
    except ssl.SSLError as error:
        raise BadTlsFiles(path, f"cannot be used{_reason(error)}") from error
    return min(lasting, key=lambda each: each.not_after)
