"""What we tell about a certificate: its serial number and when it is valid (RFC 5280, 4.1).

The standard library reads certificates only after a handshake has verified them,
and never an expired one; so the few fields are read here. Nothing is verified:
whoever checks a chain is OpenSSL.
"""

import binascii
import re
from datetime import UTC, datetime
from typing import NamedTuple

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_INTEGER, _SEQUENCE, _UTC_TIME, _GENERALIZED_TIME, _VERSION = 0x02, 0x30, 0x17, 0x18, 0xA0
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
