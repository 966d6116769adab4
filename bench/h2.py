"""A small HTTP/2 client for gRPC calls with raw messages, so that the server is what is measured.

A grpc.aio client costs about as much CPU a call as the server does, and then the
table would compare the client with itself. This one costs a few microseconds a
message, and every side of every row is measured with it. It is made for
loopback and for servers that behave: flow control is kept when sending, windows
are as large as they can be when receiving, and the only sign of a failed call
is that it ends without a message.
"""

import asyncio
import struct
from collections.abc import Callable

OnMessage = Callable[[bytes], None]

_FRAME = struct.Struct(">HBBBI")
_SETTING = struct.Struct(">HI")
_DATA, _HEADERS, _RST, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS, _PADDED = 0x1, 0x1, 0x4, 0x8
_INITIAL_WINDOW_SETTING = 4
_DEFAULT_WINDOW = 65_535
_LARGEST_WINDOW = 2**31 - 1
_MAX_FRAME = 16_384
_REFILL_AFTER = 2**29
_STATIC_HEADERS = 61


class CallFailed(Exception):
    """A call ended without the message it should have had, or could not begin."""


def _frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    length = len(payload)
    return _FRAME.pack(length >> 8, length & 0xFF, kind, flags, stream_id) + payload


class Stream:
    """One call."""

    __slots__ = ("_channel", "buffer", "ended", "half_closed", "id", "on_message", "out", "window")

    def __init__(
        self, channel: "Channel", stream_id: int, window: int, on_message: OnMessage
    ) -> None:
        """Made by Channel."""
        self._channel = channel
        self.id = stream_id
        self.window = window
        self.on_message = on_message
        self.buffer = bytearray()
        self.out = bytearray()
        self.half_closed = False
        self.ended: Callable[[], None] | None = None

    def send(self, message: bytes, *, last: bool = False) -> None:
        """Sends one message, as soon as the windows allow."""
        self.out += b"\0" + len(message).to_bytes(4, "big") + message
        self.half_closed = last
        self._channel.pump(self)

    def cancel(self) -> None:
        """Ends the call."""
        self._channel.reset(self)

    def received(self, payload: bytes) -> None:
        """Data came: hands on the messages that are whole."""
        if not self.buffer and len(payload) == 5 + int.from_bytes(payload[1:5], "big"):
            self.on_message(payload[5:])
            return
        self.buffer += payload
        while len(self.buffer) >= 5:
            end = 5 + int.from_bytes(self.buffer[1:5], "big")
            if len(self.buffer) < end:
                return
            message = bytes(self.buffer[5:end])
            del self.buffer[:end]
            self.on_message(message)


class Channel(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        """Connected by `connect`."""
        self._transport: asyncio.Transport | None = None
        self._streams: dict[int, Stream] = {}
        self._next_id = 1
        self._rest = b""
        self._window = _DEFAULT_WINDOW
        self._initial_window = _DEFAULT_WINDOW
        self._waiting: dict[int, Stream] = {}
        self._unacknowledged = 0
        self._indexed: dict[tuple[bytes, bytes], int] = {}
        self._settled = asyncio.get_running_loop().create_future()
        self._goodbye = ""
        """Why the connection ended, once it has."""

    # -- calls ---------------------------------------------------------------

    async def unary(self, path: str, message: bytes) -> bytes:
        """One call with one answer. Raises CallFailed."""
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def ended() -> None:
            if not future.done():
                future.set_exception(CallFailed(f"{path} {self._goodbye}"))

        def answered(answer: bytes) -> None:
            if not future.done():  # else nobody waits for it any more
                future.set_result(answer)

        stream = self.open(path, answered)
        stream.ended = ended
        stream.send(message, last=True)
        return await future

    def stream(self, path: str, message: bytes, on_message: OnMessage) -> Stream:
        """One call with any number of answers."""
        stream = self.open(path, on_message)
        stream.send(message, last=True)
        return stream

    def open(self, path: str, on_message: OnMessage) -> Stream:
        """A call to which any number of messages may be sent."""
        if self._goodbye:
            raise CallFailed(f"{path} {self._goodbye}")
        stream = Stream(self, self._next_id, self._initial_window, on_message)
        self._next_id += 2
        self._streams[stream.id] = stream
        self._write(_frame(_HEADERS, _END_HEADERS, stream.id, self._headers(path)))
        return stream

    def reset(self, stream: Stream) -> None:
        """Ends a call; nothing more is heard of it."""
        if self._streams.pop(stream.id, None) is not None:
            self._waiting.pop(stream.id, None)
            self._write(_frame(_RST, 0, stream.id, (8).to_bytes(4, "big")))

    @property
    def is_closed(self) -> bool:
        """Whether no call can begin any more."""
        return bool(self._goodbye)

    def close(self) -> None:
        """Ends the connection."""
        if self._transport is not None:
            self._transport.close()

    def pump(self, stream: Stream) -> None:
        """Writes what the windows allow of what a stream has to send."""
        frames = []
        while stream.out:
            size = min(len(stream.out), _MAX_FRAME, self._window, stream.window)
            if size <= 0:
                self._waiting[stream.id] = stream
                break
            payload = bytes(stream.out[:size])
            del stream.out[:size]
            self._window -= size
            stream.window -= size
            last = stream.half_closed and not stream.out
            frames.append(_frame(_DATA, _END_STREAM if last else 0, stream.id, payload))
        self._write(b"".join(frames))

    def _write(self, data: bytes) -> None:
        if self._transport is not None and data:
            self._transport.write(data)

    def _headers(self, path: str) -> bytes:
        """HPACK: each header literally once, by its index ever after."""
        out = bytearray()
        for header in (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", path.encode()),
            (b":authority", b"localhost"),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
        ):
            known = self._indexed.get(header)
            if known is None:
                self._indexed[header] = len(self._indexed)
                name, value = header
                out += b"\x40" + bytes([len(name)]) + name + bytes([len(value)]) + value
            else:
                out.append(0x80 | _STATIC_HEADERS + len(self._indexed) - known)
        return bytes(out)

    # -- what the server says --------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        settings = _SETTING.pack(_INITIAL_WINDOW_SETTING, _LARGEST_WINDOW)
        grown = (_LARGEST_WINDOW - _DEFAULT_WINDOW).to_bytes(4, "big")
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        self._write(preface + _frame(_SETTINGS, 0, 0, settings) + _frame(_WINDOW, 0, 0, grown))

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._goodbye = self._goodbye or f"after the connection was lost: {exc}"
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            if stream.ended is not None:
                stream.ended()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        while end - at >= 9:
            high, low, kind, flags, stream_id = _FRAME.unpack_from(data, at)
            until = at + 9 + (high << 8 | low)
            if until > end:
                break
            if kind == _DATA:
                self._data(stream_id, flags, data[at + 9 : until])
            else:
                self._other(kind, flags, stream_id, data[at + 9 : until])
            at = until
        self._rest = data[at:]

    def _data(self, stream_id: int, flags: int, payload: bytes) -> None:
        self._unacknowledged += len(payload)
        if self._unacknowledged > _REFILL_AFTER:
            self._write(_frame(_WINDOW, 0, 0, self._unacknowledged.to_bytes(4, "big")))
            self._unacknowledged = 0
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        if flags & _PADDED:
            payload = payload[1 : len(payload) - payload[0]]
        if payload:
            stream.received(payload)
        if flags & _END_STREAM:
            self._end(stream_id)

    def _other(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if kind == _RST or (kind == _HEADERS and flags & _END_STREAM):
            self._end(stream_id)
        elif kind == _WINDOW:
            self._window_grew(stream_id, int.from_bytes(payload, "big") & _LARGEST_WINDOW)
        elif kind == _GOAWAY:
            self._goodbye = f"after GOAWAY: {payload[4:]!r}"
        elif kind == _PING and not flags & _ACK:
            self._write(_frame(_PING, _ACK, 0, payload))
        elif kind == _SETTINGS and not flags & _ACK:
            for name, value in _SETTING.iter_unpack(payload):
                if name == _INITIAL_WINDOW_SETTING:
                    self._initial_window_is(value)
            self._write(_frame(_SETTINGS, _ACK, 0))
            if not self._settled.done():
                self._settled.set_result(None)

    def _window_grew(self, stream_id: int, by: int) -> None:
        if stream_id == 0:
            self._window += by
        elif stream_id in self._streams:
            self._streams[stream_id].window += by
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for stream in waiting.values():
                self.pump(stream)

    def _initial_window_is(self, value: int) -> None:
        for stream in self._streams.values():
            stream.window += value - self._initial_window
        self._initial_window = value

    def _end(self, stream_id: int) -> None:
        stream = self._streams.pop(stream_id, None)
        self._waiting.pop(stream_id, None)
        if stream is not None and stream.ended is not None:
            stream.ended()

    async def settled(self) -> None:
        """Waits for the server's settings."""
        await self._settled


async def connect(port: int, from_address: str = "127.0.0.1") -> Channel:
    """A channel to a server on loopback, ready for calls."""
    loop = asyncio.get_running_loop()
    _, channel = await loop.create_connection(
        Channel, "127.0.0.1", port, local_addr=(from_address, 0)
    )
    await channel.settled()
    return channel
