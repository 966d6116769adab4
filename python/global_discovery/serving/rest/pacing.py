"""Spreads over time the reading of requests that come in crumbs.

A caller with thousands of connections that sends a byte on each in the same moment
would have all of them read in one turn of the loop, in which nobody else is served.
Here a request that came no further in a while is not read for one to two times that
while, a random one: what is sent in the meantime waits in the system's buffers and is
read in one piece. Who sends without pauses is read as it sends; nobody's last byte
waits longer than twice the longest pause before it, and never longer than
`LONGEST_SECONDS`.

Not bounded here: how long a request may take (see `connection`).
"""

import asyncio
import random
from collections.abc import Callable

SHORTEST_SECONDS = 0.005
"""A shorter pause of the caller is none."""
LONGEST_SECONDS = 2.5
CRUMB_BYTES = 16 * 1024
"""A piece of so many bytes or more is none."""


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
        self._waits_since: float | None = None
        """Since when there was nothing to be read of an unfinished request."""
        self._pause = 0.0
        """The caller's, as far as it was seen: what was sent while nobody read tells nothing."""
        self._timer: asyncio.TimerHandle | None = None

    def begin_anew(self) -> None:
        """What came in was the end of a request, or of its head."""
        self._waits_since = None
        self._pause = 0.0

    def unfinished(self, size: int) -> None:
        """A piece of a request came in, and it is not the last one."""
        now = self._loop.time()
        since, self._waits_since = self._waits_since, now
        if since is not None and now - since >= SHORTEST_SECONDS:
            self._pause = now - since
        if not self._pause or self._timer is not None or size >= CRUMB_BYTES:
            return
        longest = min(2 * self._pause, LONGEST_SECONDS)
        self._transport.pause_reading()
        seconds = random.uniform(longest / 2, longest)  # noqa: S311 - no secret
        self._timer = self._loop.call_later(seconds, self._read_on)

    def hold(self) -> None:
        """Somebody else may just have let the connection be read on."""
        if self._timer is not None:
            self._transport.pause_reading()

    def stop(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()

    def _read_on(self) -> None:
        self._timer = None
        self._waits_since = self._loop.time()
        if self._has_room():
            self._transport.resume_reading()
