"""Positions and page tokens: opaque text that names a process, a filter and a point.

Callers store them and hand them back, to this process or to another one, of
this or of another release. What is damaged is told apart from what is merely
foreign: the first is the caller's mistake, the second leads to a snapshot.
"""

import base64
import binascii
import secrets
import struct
import zlib
from dataclasses import dataclass

_VERSION = 1
_BODY = struct.Struct(">8s8sQI")
_HEAD = struct.Struct(">BI")
PROCESS_BYTES = 8


def new_process_id() -> bytes:
    """Names one process for ever."""
    return secrets.token_bytes(PROCESS_BYTES)


class BadPosition(ValueError):
    """The text was not made by any version of this service, or was damaged."""


@dataclass(frozen=True, slots=True)
class Position:
    """A point of one process's view under one filter."""

    process: bytes
    filter: bytes
    """The filter's fingerprint."""
    sequence: int
    offset: int = 0
    """For a page token: how many entries the pages before had."""

    def encode(self) -> str:
        """URL-safe text without padding."""
        body = _BODY.pack(self.process, self.filter, self.sequence, self.offset)
        raw = _HEAD.pack(_VERSION, zlib.crc32(body)) + body
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decode(text: str) -> Position | None:
    """The position in `text`; None for one of another release. Raises BadPosition."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        version, checksum = _HEAD.unpack_from(raw)
    except (binascii.Error, struct.error, ValueError):
        raise BadPosition from None
    body = raw[_HEAD.size :]
    if zlib.crc32(body) != checksum:
        raise BadPosition
    if version != _VERSION:
        return None
    if len(body) != _BODY.size:
        raise BadPosition
    return Position(*_BODY.unpack(body))
