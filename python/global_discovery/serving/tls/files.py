"""The three files, judged as one: certificate chain, private key, client CAs.

They are taken together or not at all, and what both faces are given is made of
the same bytes. Knows no gRPC, so that flags are judged without it.

Not checked, because only callers can: whether they trust the chain, and whether
it names the host by which they call.
"""

import hashlib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from global_discovery import pem
from global_discovery.pem import BadTlsFile
from global_discovery.serving.tls.certificate import UNREADABLE, Certificate, certificates, is_ca
from global_discovery.serving.tls.fitness import unfit


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
    contents: pem.Contents = field(repr=False)
    """Of the files, for gRPC: chain, key and, where there are some, client CAs."""


def load(paths: TlsPaths, *, now: float, every_caller_certified: bool = False) -> Material:
    """What the files hold. Raises BadTlsFile.

    `now` is in seconds since the epoch. With `every_caller_certified` REST ends the
    handshake of a caller that shows no certificate, where there are client CAs.
    """

    def make(contents: pem.Contents) -> Material:
        leaf = _certificates(paths.cert, contents[0])[0]
        if not leaf.not_before <= now < leaf.not_after:
            raise BadTlsFile(paths.cert, f"the certificate {_outside(leaf, now)}")
        context = _context()
        pem.load_pair(context, paths.cert, paths.key)
        _refuse_unfit(paths.cert, leaf)
        client_ca = None
        if paths.client_ca is not None:
            client_ca = _next_to_end(paths.client_ca, contents[2], now)
            pem.load_cas(context, paths.client_ca, contents[2])
            context.verify_mode = ssl.CERT_REQUIRED if every_caller_certified else ssl.CERT_OPTIONAL
        return Material(_digest(contents), leaf, client_ca, context, contents)

    return pem.made_of(paths.all, make)


def digest(paths: TlsPaths) -> bytes:
    """Of what the files hold now. Raises BadTlsFile."""
    return _digest(pem.read(paths.all))


def _digest(contents: Sequence[bytes]) -> bytes:
    return b"".join(hashlib.sha256(content).digest() for content in contents)


def _certificates(path: Path, content: bytes) -> tuple[Certificate, ...]:
    try:
        return certificates(content)
    except ValueError as error:
        raise BadTlsFile(path, str(error)) from error


def _refuse_unfit(path: Path, leaf: Certificate) -> None:
    try:
        problem = unfit(leaf.whole)
    except UNREADABLE as error:
        raise BadTlsFile(path, "has a certificate that cannot be read") from error
    if problem is not None:
        raise BadTlsFile(path, problem)


def _outside(certificate: Certificate, now: float) -> str:
    return "is not valid yet" if now < certificate.not_before else "has expired"


class _Connection(ssl.SSLObject):
    """Gives a caller's certificate as it is.

    asyncio has it read after each handshake, which raises for a name that is no UTF-8:
    the log of a service whose callers have such a certificate would fill with that.
    """

    def getpeercert(self, binary_form: bool = False) -> Any:  # noqa: FBT001, FBT002 - as ssl has it
        return super().getpeercert(binary_form=True) if binary_form else {}


def _context() -> ssl.SSLContext:
    """TLS 1.2 and 1.3 with forward secrecy and authenticated encryption only, as gRPC has it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = _Connection
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    return context


def _next_to_end(path: Path, content: bytes, now: float) -> Certificate:
    """Of the CAs that have not expired."""
    all_of_it = _certificates(path, content)
    lasting = [each for each in all_of_it if now < each.not_after]
    if not lasting:
        raise BadTlsFile(path, "every certificate has expired")
    try:
        if not any(is_ca(each.whole) for each in all_of_it):
            raise BadTlsFile(path, "has certificates, and none of a CA")
    except UNREADABLE as error:
        raise BadTlsFile(path, "has a certificate that cannot be read") from error
    return min(lasting, key=lambda each: each.not_after)
