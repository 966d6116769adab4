"""A small HTTP/1.1 client on a kept connection, for the reason that h2.py gives."""

import asyncio
from typing import NamedTuple


class Answer(NamedTuple):
    """What came back. The body is kept only when that was asked for."""

    status: int
    head: bytes
    length: int
    body: bytes

    def header(self, name: str) -> str:
        """A header's value; empty when it is absent."""
        for line in self.head.split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.strip().lower() == name.lower().encode():
                return value.strip().decode()
        return ""


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        """Connected by `connect`."""
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._head = b""
        self._left = 0
        self._length = 0
        self._keep = False
        self._body: list[bytes] = []

    async def ask(self, request: bytes, *, keep: bool = False) -> Answer:
        """Sends a whole request and waits for its whole answer."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._head, self._keep, self._body = b"", keep, []
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        """Ends the connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("closed before the answer"))

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if not self._left:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            self._head, data = self._head[:end], self._head[end + 4 :]
            self._length = self._left = self._content_length()
        self._left -= len(data)
        if self._keep:
            self._body.append(data)
        if self._left <= 0:
            self._end()

    def _content_length(self) -> int:
        if self._status() in {204, 304}:
            return 0
        return int(Answer(0, self._head, 0, b"").header("Content-Length"))

    def _status(self) -> int:
        return int(self._head[9:12])

    def _end(self) -> None:
        if self._answer is not None and not self._answer.done():
            body = b"".join(self._body)
            self._answer.set_result(Answer(self._status(), self._head, self._length, body))


async def connect(port: int, from_address: str = "127.0.0.1") -> Connection:
    """A connection to a server on loopback."""
    _, connection = await asyncio.get_running_loop().create_connection(
        Connection, "127.0.0.1", port, local_addr=(from_address, 0)
    )
    return connection


def request(method: str, target: str, body: bytes = b"", **headers: str) -> bytes:
    """A request's bytes; underscores in header names stand for hyphens."""
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body
