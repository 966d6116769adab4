"""The connections of one port: who is let in, and how all of them end."""

import asyncio
import contextlib
from collections.abc import Callable

from aiohttp import web

from global_discovery.domain.limits import Limit
from global_discovery.serving.rest.connection import Connection, Gate, Limits
from global_discovery.serving.rest.open_connections import OpenConnections


class ConnectionServer(web.Server):
    """The connections of one port."""

    def __init__(
        self,
        gate: Gate,
        limits: Limits,
        *,
        header_bytes: int,
        doors: OpenConnections | None = None,
        refused: Callable[[Limit, str], bytes] = lambda *_: b"",
    ) -> None:
        """`gate` answers. `doors` bounds how many there are.

        `refused` is told of each that was not let in, and gives what it is sent.
        """
        super().__init__(gate)
        self._header_bytes = header_bytes
        self._doors = doors
        self._refused = refused
        self.gate = gate
        self.draining = False
        self._limits = limits
        self._all: set[Connection] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()

    def __call__(self) -> Connection:
        """A protocol for one new connection."""
        return Connection(
            self,
            self._limits,
            loop=self._loop,
            access_log=None,
            keepalive_timeout=self._limits.idle_seconds,
            lingering_time=self._limits.linger_seconds,
            auto_decompress=False,
            max_line_size=self._header_bytes,
            max_field_size=self._header_bytes,
        )

    def enter(self, connection: Connection) -> bytes | None:
        """None when there is room for one more, else what it is to be sent before it ends."""
        if self._doors is None:
            return None
        limit = self._doors.enter(connection, connection.peer, connection.abort)
        return None if limit is None else self._refused(limit, connection.peer)

    def opened(self, connection: Connection) -> None:
        """A connection is there."""
        self._all.add(connection)
        self._none_left.clear()
        if self.draining:
            connection.force_close()

    def closed(self, connection: Connection) -> None:
        """A connection is gone."""
        if self._doors is not None:
            self._doors.leave(connection, connection.peer)
        self._all.discard(connection)
        if not self._all:
            self._none_left.set()

    async def drain(self, grace: float) -> None:
        """Ends idle connections at once, the others once answered, and all after `grace`."""
        self.draining = True
        for connection in list(self._all):
            connection.close_if_idle()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._none_left.wait()
        for connection in list(self._all):
            connection.abort()
        await self.shutdown(_CANCEL_SECONDS)


_CANCEL_SECONDS = 0.1
"""For a handler that was cancelled to end."""
