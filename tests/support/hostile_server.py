"""An HTTP server whose answers are bytes, right or wrong, with or without an end."""

import asyncio
import contextlib
import functools
import gzip
import itertools
import json
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

OK = b"HTTP/1.1 200 OK\r\n"
JSON = b"Content-Type: application/json\r\n"
ENDLESS = 1 << 28
PIECE = 65_536


class HostileServer:
    """Each connection has one answer: the pieces that `answer` gives, one after the other."""

    def __init__(self) -> None:
        self.url = ""
        self.answer: Callable[[], Iterable[bytes]] = tuple
        self.asked = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            if b"Content-Length: " in head:
                await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r")[0]))
            self.asked += 1
            for piece in self.answer():
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)  # others are served between any two pieces
        writer.close()


@contextlib.asynccontextmanager
async def hostile_server() -> AsyncIterator[HostileServer]:
    """Listens on loopback until the end."""
    hostile = HostileServer()
    server = await asyncio.start_server(hostile.serve, "127.0.0.1", 0)
    hostile.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield hostile
    finally:
        server.close()


def good(document: Any, *headers: bytes) -> list[bytes]:
    """What a server that means well answers."""
    body = json.dumps(document).encode()
    lines = (*headers, b"Content-Length: %d" % len(body), b"Connection: close", b"", body)
    return [OK + JSON + b"\r\n".join(lines)]


def whole(body: bytes, *headers: bytes) -> list[bytes]:
    """An answer with a body of a length that is told."""
    lines = (*headers, b"Content-Length: %d" % len(body), b"", b"")
    return [OK + JSON + b"\r\n".join(lines), body]


def endless(head: bytes, piece: bytes) -> Iterator[bytes]:
    """An answer that does not end before a quarter of a gibibyte of it was taken."""
    return itertools.chain([head], itertools.repeat(piece, ENDLESS // len(piece)))


@functools.cache
def bomb(wbits: int) -> bytes:
    """An eighth of a gibibyte of white space, which JSON may begin with, compressed."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, wbits)
    some = b" " * (1 << 20)
    return b"".join([*(compressor.compress(some) for _ in range(128)), compressor.flush()])


_CHUNKED = OK + JSON + b"Transfer-Encoding: chunked\r\n\r\n"
ANSWERS: dict[str, Callable[[], Iterable[bytes]]] = {
    "a gzip bomb": lambda: whole(bomb(31), b"Content-Encoding: gzip"),
    "a deflate bomb": lambda: whole(bomb(15), b"Content-Encoding: deflate"),
    "a bomb in a bomb": lambda: whole(gzip.compress(bomb(31)), b"Content-Encoding: gzip, gzip"),
    "an unknown coding": lambda: whole(b"x" * 100, b"Content-Encoding: br"),
    "no gzip": lambda: whole(b"x" * 100, b"Content-Encoding: gzip"),
    "lists in lists": lambda: whole(b'{"pools":' + b"[" * 1_000_000),
    "millions of objects": lambda: whole(b'{"pools":[' + b"{}," * 10_000_000 + b"{}]}"),
    "a number of a million digits": lambda: whole(
        b'{"pools":[],"bound_secs":' + b"9" * 1_000_000 + b"}"
    ),
    "a page for people": lambda: [OK + b"Content-Type: text/html\r\n\r\n<html>"],
    "headers without an end": lambda: endless(OK, b"X: " + b"a" * 8000 + b"\r\n"),
    "short headers without an end": lambda: endless(OK, b"A: b\r\n" * 10_000),
    "a header without an end": lambda: endless(OK + b"X: ", b"a" * PIECE),
    "a status line without an end": lambda: endless(b"HTTP/1.1 200 ", b"a" * PIECE),
    "a body without an end": lambda: endless(OK + JSON + b"\r\n", b" " * PIECE),
    "a chunk's length without an end": lambda: endless(_CHUNKED, b"0" * PIECE),
    "a chunk's extension without an end": lambda: endless(_CHUNKED + b"1;", b"a" * PIECE),
    "trailers without an end": lambda: endless(_CHUNKED + b"0\r\n", b"A: b\r\n" * 10_000),
    "a chunk that is cut": lambda: [_CHUNKED + b"ff\r\n{"],
    "a body that is cut": lambda: [OK + JSON + b"Content-Length: 99999999999\r\n\r\n{"],
    "two lengths": lambda: whole(b"{}", b"Content-Length: 1"),
    "a length below nothing": lambda: [OK + b"Content-Length: -1\r\n\r\n{}"],
    "a way that goes in a circle": lambda: [
        b"HTTP/1.1 307 x\r\nLocation: /pools\r\nContent-Length: 0\r\n\r\n"
    ],
    "not modified": lambda: [b'HTTP/1.1 304 x\r\nETag: "another"\r\n\r\n'],
    "switching protocols": lambda: [b"HTTP/1.1 101 x\r\nUpgrade: h2c\r\n\r\n"],
    "a status of six digits": lambda: [b"HTTP/1.1 200200 x\r\n\r\n"],
    "a retry in a million years": lambda: [
        b"HTTP/1.1 503 x\r\nRetry-After: 99999999999999\r\nContent-Length: 0\r\n\r\n"
    ],
    "http/2": lambda: [b"\0\0\0\x04\0\0\0\0\0"],
    "noise": lambda: [bytes(range(256)) * 40],
    "nothing": list,
}
SLOW = {
    "interim answers without an end": lambda: endless(b"", b"HTTP/1.1 100 a\r\n\r\n" * 2000),
    "chunks without an end": lambda: endless(_CHUNKED, b"1\r\n \r\n" * 10_000),
    "a drip": lambda: endless(OK + b"X: ", b"a"),
}
"""Those that only the caller's deadline ends."""
