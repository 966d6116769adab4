"""Ends a connection whose caller reads nothing of its answer.

Guaranteed: one timer while anything waits to be read, however often writing is paused
and goes on, and none else; a caller that reads slowly, but reads, is waited for. Not
decided here: when a connection that nobody writes to is idle.
"""

import asyncio
from functools import partial

from global_discovery.serving.rest.deadline import Deadline


class UnreadAnswer:
    """Of one connection."""

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, seconds: float
    ) -> None:
        """It is ended when nothing is read in so many seconds."""
        self._transport = transport
        self._loop = loop
        self._seconds = seconds
        self._resumes = 0
        """How often the caller has read on after it had paused us."""
        self._is_paused = False
        self._timer: Deadline | None = None

    @property
    def size(self) -> int:
        """How many bytes wait for the caller to read on."""
        try:
            return self._transport.get_write_buffer_size()
        except AttributeError:  # asyncio's TLS transport was closed twice, or aborted
            return 0

    @property
    def is_watched(self) -> bool:
        """Whether it would be ended in time."""
        return self._timer is not None

    def paused(self) -> None:
        """More waits to be read than we want to hold."""
        self._is_paused = True
        if self._timer is None:
            self._watch()

    def resumed(self) -> None:
        """Enough of it was read."""
        self._is_paused = False
        self._resumes += 1

    def given_up(self) -> None:
        """Nothing is written any more; what is unread is dropped after that time."""
        if self.size:
            self._loop.call_later(self._seconds, self._transport.abort)

    def stop(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self) -> None:
        check = partial(self._check, self._resumes, self.size)
        self._timer = Deadline(self._loop, self._seconds, check)

    def _check(self, resumes: int, size: int) -> None:
        self._timer = None
        if not self._is_paused:
            return
        if self._resumes != resumes or self.size < size:
            self._watch()
        else:
            self._transport.abort()
