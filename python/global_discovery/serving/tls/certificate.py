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

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_INTEGER, _SEQUENCE, _UTC_TIME, _GENERALIZED_TIME, _VERSION = 0x02, 0x30, 0x17, 0x18, 0xA0
_EXTENSIONS, _OCTET_STRING = 0xA3, 0x04
_ALTERNATIVE_NAMES = bytes((0x55, 0x1D, 0x11))
"""2.5.29.17, subjectAltName."""
_DNS_NAME, _URI_NAME = 0x82, 0x86
_LONG_FORM = 0x80
_PIVOT_YEAR = 50
"""Two digits below it are of this century (RFC 5280, 4.1.2.5.1)."""


class Certificate(NamedTuple):
    """One certificate. Times are seconds since the epoch."""

    serial: str
    """In hexadecimal, as OpenSSL prints it."""
    not_before: float
    not_after: float


class _Value(NamedTuple):
    tag: int
    content: bytes
    rest: bytes


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
        for extension in _extensions(der):
            kind, *_, value = _values(extension.content)
            if kind.content == _ALTERNATIVE_NAMES:
                for name in _values(_inner(_expected(value, _OCTET_STRING))):
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


def _extensions(der: bytes) -> Iterator[_Value]:
    for field in _values(_inner(_inner(der))):
        if field.tag == _EXTENSIONS:
            yield from _values(_inner(field.content))


def _values(data: bytes) -> Iterator[_Value]:
    while data:
        value = _next(data)
        yield value
        data = value.rest


def _certificate(der: bytes) -> Certificate:
    field = _next(_inner(_inner(der)))
    if field.tag == _VERSION:
        field = _next(field.rest)
    serial = _expected(field, _INTEGER)
    algorithm = _next(field.rest)
    issuer = _next(algorithm.rest)
    validity = _next(issuer.rest)
    begins = _next(_expected(validity, _SEQUENCE))
    ends = _next(begins.rest)
    return Certificate(f"{int.from_bytes(serial):02X}", _time(begins), _time(ends))


def _inner(data: bytes) -> bytes:
    return _expected(_next(data), _SEQUENCE)


def _expected(value: _Value, tag: int) -> bytes:
    if value.tag != tag:
        raise ValueError(f"tag {value.tag} has no place here")
    return value.content


def _next(data: bytes) -> _Value:
    """The first value of DER (X.690, 8.1). Raises IndexError when it is cut off."""
    tag, length, begin = data[0], data[1], 2
    if length >= _LONG_FORM:
        begin += length - _LONG_FORM
        length = int.from_bytes(data[2:begin])
    end = begin + length
    if end > len(data):
        raise IndexError
    return _Value(tag, data[begin:end], data[end:])


def _time(value: _Value) -> float:
    text = value.content.decode("ascii")
    if value.tag == _UTC_TIME:
        text = ("20" if int(text[:2]) < _PIVOT_YEAR else "19") + text
    elif value.tag != _GENERALIZED_TIME:
        raise ValueError(f"tag {value.tag} has no place here")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
