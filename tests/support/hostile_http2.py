"""HTTP/2 as frames on a socket, right or wrong (RFC 9113), with as much HPACK as that needs."""

import contextlib
import socket
import struct
from collections.abc import Iterable

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
PATIENCE_SECONDS = 20.0


def frame(kind: int, payload: bytes = b"", *, flags: int = 0, stream: int = 0) -> bytes:
    """One frame with the length that it has."""
    head = struct.pack(">I", len(payload))[1:] + bytes((kind, flags))
    return head + struct.pack(">I", stream) + payload


def settings(*pairs: tuple[int, int], flags: int = 0) -> bytes:
    """A SETTINGS frame."""
    return frame(SETTINGS, b"".join(struct.pack(">HI", *pair) for pair in pairs), flags=flags)


HELLO = PREFACE + settings()
"""What a connection begins with."""


def header_block(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Literal fields without indexing and without Huffman (RFC 7541, 6.2.2)."""
    return b"".join(b"\0" + _string(name) + _string(value) for name, value in fields)


def call_fields(path: bytes, *more: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """The headers of a gRPC call."""
    return [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"a"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
        *more,
    ]


def message(data: bytes, *, compressed: int = 0, length: int | None = None) -> bytes:
    """A gRPC message with its prefix, which may lie."""
    return struct.pack(">BI", compressed, len(data) if length is None else length) + data


def a_call(stream: int, path: bytes, data: bytes = b"", flags: int = END_STREAM) -> bytes:
    """A call with one message."""
    block = header_block(call_fields(path))
    head = frame(HEADERS, block, flags=END_HEADERS, stream=stream)
    return head + frame(DATA, message(data), flags=flags, stream=stream)


def reset(stream: int) -> bytes:
    """The caller takes a call back."""
    return frame(RST_STREAM, b"\0\0\0\x08", stream=stream)


def send(port: int, pieces: Iterable[bytes], *, read: bool = True) -> bytes:
    """Sends on a connection of its own; what came until the server ended it, or was silent."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
        came = bytearray()
        with contextlib.suppress(OSError):
            for piece in pieces:
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)
            while read and (chunk := connection.recv(65_536)):
                came += chunk
        return bytes(came)


def call_with(fields: Iterable[tuple[bytes, bytes]], body: bytes = b"") -> bytes:
    """A whole call on a connection of its own: its headers, and one message."""
    head = frame(HEADERS, header_block(fields), flags=END_HEADERS, stream=1)
    return HELLO + head + frame(DATA, message(body), flags=END_STREAM, stream=1)


def talk(port: int, pieces: Iterable[bytes]) -> bytes:
    """Sends on a connection of its own; what came until the first call or the connection ended."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
        came = bytearray()
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                connection.sendall(piece)
            while not _over(bytes(came)) and (chunk := connection.recv(65_536)):
                came += chunk
        return bytes(came)


def _over(came: bytes) -> bool:
    """Whether a frame ends stream 1, or all of them."""
    while len(came) >= 9:
        length, kind, flags = int.from_bytes(came[:3], "big"), came[3], came[4]
        ends = kind == RST_STREAM or (kind in {DATA, HEADERS} and flags & END_STREAM)
        if len(came) >= 9 + length and (kind == GOAWAY or (ends and came[8] == 1)):
            return True
        came = came[9 + length :]
    return False


def _string(text: bytes) -> bytes:
    if len(text) < 127:
        return bytes((len(text),)) + text
    rest, out = len(text) - 127, bytearray(b"\x7f")
    while rest > 127:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes(out) + bytes((rest,)) + text
