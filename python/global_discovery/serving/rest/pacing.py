"""Spreads over time the reading of requests that come in crumbs.

A caller with thousands of connections that sends a byte on each in the same moment
would have all of them read in one turn of the loop, in which nobody else is served.
Here a request that is still unfinished after some pieces is not read for a while,
a random one and longer each time: what is sent in the meantime waits in the system's
buffers and is read in one piece. That delays no request by more than it had already
taken to come in, and none by more than `LONGEST_SECONDS` after its last byte.

Not bounded here: how long a request may take (see `connection`).
"""

import asyncio
import random
from collections.abc import Callable

FREE_PIECES = 4
"""Of a request, that are read as they come; most requests come in one or two."""
CRUMB_BYTES = 16 * 1024
"""A piece of so many bytes or more is none."""
FIRST_SECONDS = 0.02
LONGEST_SECONDS = 2.5


class Pacing:
    """Of one connection."""

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        """Nothing of a request has come in.

        `has_room` tells whether the connection's own flow control would read on.
        """
        self._transport = transport
        self._loop = loop
        self._has_room = has_room
        self._crumbs = 0
        self._timer: asyncio.TimerHandle | None = None

    def got(self, size: int) -> None:
        """A piece of a request came in, and it is not the last one."""
        if size >= CRUMB_BYTES:
            return
        self._crumbs += 1
        doublings = self._crumbs - FREE_PIECES
        if doublings <= 0 or self._timer is not None:
            return
        longest = min(FIRST_SECONDS * 2.0**doublings, LONGEST_SECONDS)
        self._transport.pause_reading()
        seconds = random.uniform(longest / 2, longest)  # noqa: S311 - no secret
        self._timer = self._loop.call_later(seconds, self._read_on)

    def hold(self) -> None:
        """Somebody else may just have let the connection be read on."""
        if self._timer is not None:
            self._transport.pause_reading()

    def finished(self) -> None:
        """The request is whole; the next one begins anew."""
        self._crumbs = 0

    def stop(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()

    def _read_on(self) -> None:
        self._timer = None
        if self._has_room():
            self._transport.resume_reading()
