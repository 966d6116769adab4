"""A TCP proxy on loopback that can swallow, delay and cut traffic, and count bytes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from global_discovery.domain.timer import SystemTimer, Timer


class TcpProxy:
    """Forwards to one port. Made by `tcp_proxy`."""

    def __init__(self, target_port: int, timer: Timer | None = None) -> None:
        self.port = 0
        self.bytes_to_client = 0
        self.delay_seconds = 0.0
        """By how much each piece of data is late, on the timer; the order stays."""
        self._timer = timer or SystemTimer()
        self._target_port = target_port
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()

    def swallow(self) -> None:
        """From now on nothing passes, and nobody is told: the peer looks dead."""
        self._open.clear()

    def pass_on(self) -> None:
        """What was swallowed goes on."""
        self._open.set()

    def cut(self) -> None:
        """Closes every connection at once."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            target = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:  # nobody is there: the caller sees its connection break
            writer.transport.abort()
            self._writers.discard(writer)
            return
        upstream_reader, upstream = target
        self._writers.add(upstream)
        pumps = {
            asyncio.create_task(self._pump(reader, upstream, counted=False)),
            asyncio.create_task(self._pump(upstream_reader, writer, counted=True)),
        }
        self._pumps |= pumps
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, upstream):
            end.transport.abort()
            self._writers.discard(end)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        self._pumps -= pumps

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counted: bool
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                await self._open.wait()
                if self.delay_seconds:
                    await self._timer.sleep(self.delay_seconds)
                if counted:
                    self.bytes_to_client += len(data)
                writer.write(data)
                await writer.drain()

    async def close(self) -> None:
        self.cut()
        for pump in list(self._pumps):
            pump.cancel()


@contextlib.asynccontextmanager
async def tcp_proxy(target_port: int, timer: Timer | None = None) -> AsyncIterator[TcpProxy]:
    """A proxy in front of a port of this machine."""
    proxy = TcpProxy(target_port, timer)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
        await server.wait_closed()
