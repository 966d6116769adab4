"""What we tell about a certificate, and by which names a caller is known (RFC 5280, 4.1 and 4.2).

The standard library reads certificates only after a handshake has verified them,
and never an expired one; gRPC cuts a name off at its first NUL, as if the rest of it
was not there. So the few fields are read here. Nothing is verified: whoever checks a
chain is OpenSSL.
"""

import binascii
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from global_discovery.serving.tls.der import (
    INTEGER,
    OCTET_STRING,
    SEQUENCE,
    Value,
    expected,
    first,
    inner,
    values,
)

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_UTC_TIME, _GENERALIZED_TIME, _VERSION, _EXTENSIONS = 0x17, 0x18, 0xA0, 0xA3
_ALTERNATIVE_NAMES = bytes((0x55, 0x1D, 0x11))
"""2.5.29.17, subjectAltName."""
_DNS_NAME, _URI_NAME = 0x82, 0x86
_PIVOT_YEAR = 50
"""Two digits below it are of this century (RFC 5280, 4.1.2.5.1)."""


class Certificate(NamedTuple):
    """One certificate. Times are seconds since the epoch."""

    serial: str
    """In hexadecimal, as OpenSSL prints it."""
    not_before: float
    not_after: float
    der: bytes
    """All of it."""


def certificates(pem: bytes) -> tuple[Certificate, ...]:
    """Those in a PEM file, in its order; other text is skipped.

    Raises ValueError when there is none, and for one that cannot be read.
    """
    blocks = _PEM.findall(pem)
    if not blocks:
        raise ValueError("has no certificate in PEM")
    try:
        return tuple(_certificate(binascii.a2b_base64(block)) for block in blocks)
    except (ValueError, IndexError, OverflowError) as error:
        raise ValueError("has a certificate that cannot be read") from error


class Names(NamedTuple):
    """Those of a subjectAltName, in its order. Whatever is no ASCII is in them as Latin-1."""

    uris: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()


def alternative_names(der: bytes) -> Names:
    """Each name whole, with all that is in it. None of a certificate that cannot be read."""
    found: dict[int, list[str]] = {_DNS_NAME: [], _URI_NAME: []}
    try:
        for extension in extensions(der, _ALTERNATIVE_NAMES):
            for name in values(inner(extension)):
                found.get(name.tag, []).append(name.content.decode("latin-1"))
    except (ValueError, IndexError):
        return Names()
    return Names(tuple(found[_URI_NAME]), tuple(found[_DNS_NAME]))


def names_in_pem(pem: bytes) -> Names:
    """The same, of the first certificate in PEM."""
    block = _PEM.search(pem)
    try:
        return Names() if block is None else alternative_names(binascii.a2b_base64(block[1]))
    except binascii.Error:
        return Names()


def extensions(der: bytes, kind: bytes) -> Iterator[bytes]:
    """What a certificate has of one kind, an object identifier. See `der` for what it raises."""
    for field in values(inner(inner(der))):
        if field.tag == _EXTENSIONS:
            for extension in values(inner(field.content)):
                identifier, *_, value = values(extension.content)
                if identifier.content == kind:
                    yield expected(value, OCTET_STRING)


def public_key(der: bytes) -> bytes:
    """The content of subjectPublicKeyInfo. See `der` for what it raises."""
    fields = [field for field in values(inner(inner(der))) if field.tag != _VERSION]
    return expected(fields[5], SEQUENCE)


def _certificate(der: bytes) -> Certificate:
    field = first(inner(inner(der)))
    if field.tag == _VERSION:
        field = first(field.rest)
    serial = expected(field, INTEGER)
    algorithm = first(field.rest)
    issuer = first(algorithm.rest)
    validity = first(issuer.rest)
    begins = first(expected(validity, SEQUENCE))
    ends = first(begins.rest)
    return Certificate(f"{int.from_bytes(serial):02X}", _time(begins), _time(ends), der)


def _time(value: Value) -> float:
    text = value.content.decode("ascii")
    if value.tag == _UTC_TIME:
        text = ("20" if int(text[:2]) < _PIVOT_YEAR else "19") + text
    elif value.tag != _GENERALIZED_TIME:
        raise ValueError(f"tag {value.tag} has no place here")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
