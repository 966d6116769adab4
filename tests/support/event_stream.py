"""Reads `GET /events` from a socket, event by event."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from support.rest import PATIENCE_SECONDS, RestUnderTest


@dataclass(frozen=True)
class Event:
    """One event of a stream."""

    name: str
    data: Any
    id: str


class EventStream:
    """An open one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._body = b""
        self.writer = writer
        self.head = ""

    async def begin(self) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            self.head = (await self._reader.readuntil(b"\r\n\r\n")).decode()

    async def next(self) -> Event:
        """The next event; EOFError when the stream is over."""
        while True:
            block = await self._block()
            fields = dict(line.split(": ", 1) for line in block.splitlines())
            if "event" in fields:
                data = json.loads(fields["data"])
                return Event(fields["event"], data, fields.get("id", ""))

    async def ended(self) -> None:
        """Reads on until the answer has its end."""
        with contextlib.suppress(EOFError):
            while True:
                await self.next()

    async def _block(self) -> str:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while b"\n\n" not in self._body:
                size = int((await self._reader.readuntil(b"\r\n")).strip() or b"0", 16)
                if not size:
                    raise EOFError
                self._body += await self._reader.readexactly(size)
                await self._reader.readexactly(2)
        block, _, self._body = self._body.partition(b"\n\n")
        return block.decode()


@contextlib.asynccontextmanager
async def following(rest: RestUnderTest, **headers: str) -> AsyncIterator[EventStream]:
    """A stream whose head was read; header names with `_` for `-`."""
    async with following_port(rest.face.port, **headers) as stream:
        yield stream


@contextlib.asynccontextmanager
async def following_port(port: int, **headers: str) -> AsyncIterator[EventStream]:
    """The same, of a service that is known by its port."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    fields = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    stream = EventStream(reader, writer)
    try:
        writer.write(f"GET /events HTTP/1.1\r\nHost: a\r\n{fields}\r\n".encode())
        await stream.begin()
        yield stream
    finally:
        writer.close()
