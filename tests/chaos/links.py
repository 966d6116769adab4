"""Links between the parts of a system: TCP proxies whose far end moves, and that are broken."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from support.tcp_proxy import TcpProxy

_REFUSAL = (
    b'{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",'
    b'"message":"throttled by the chaos tier"}'
)
THROTTLED = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/x-amz-json-1.0\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_REFUSAL), _REFUSAL)
)


class Link(TcpProxy):
    """A proxy that can also refuse every connection, or answer in the far end's stead."""

    def __init__(self) -> None:
        super().__init__(0)
        self.refuses = False
        self.answers: bytes | None = None

    def lead_to(self, port: int) -> None:
        """Where new connections go from now on."""
        self._target_port = port

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.answers is not None:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(self.answers)
                await writer.drain()
                await reader.read(65_536)
            writer.close()
        elif self.refuses or not self._target_port:
            writer.transport.abort()
        else:
            await super().serve(reader, writer)


@contextlib.asynccontextmanager
async def a_link() -> AsyncIterator[Link]:
    """Listens until the end; leads nowhere yet."""
    link = Link()
    server = await asyncio.start_server(link.serve, "127.0.0.1", 0)
    link.port = server.sockets[0].getsockname()[1]
    try:
        yield link
    finally:
        server.close()
        await link.close()
