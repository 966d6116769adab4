"""`GET /events`: tells open pages that there is something new (WHATWG HTML, 9.2).

An event says *what* is new and how much, never the pools themselves: the page then
asks for what it shows, by the way that any caller uses. So a stream has no queue:
all that a slow one misses is merged into what it is told next, and one that does
not read at all is ended by its connection.

`mark` is sent when the mark or its reasons change, `pools` with the position as id
when the view moved, `summary` each few seconds, as leases are renewed without a
new position. The first event says where the view is; one that comes back with the
newest position as Last-Event-ID is spared it.
"""

import asyncio
import random
from collections.abc import Iterator
from functools import partial
from typing import cast

import orjson
from aiohttp import web

from global_discovery.domain.completeness import Mark
from global_discovery.domain.errors import DiscoveryError
from global_discovery.domain.explanation import MayRead, everything
from global_discovery.serving.access.guard import Visit
from global_discovery.serving.core import Core
from global_discovery.serving.limits import counted
from global_discovery.serving.rest.answer import Streamed, headers
from global_discovery.serving.rest.connection import Connection
from global_discovery.serving.rest.list_body import reason_codes
from global_discovery.serving.rest.problem import Problem
from global_discovery.view.filters import EVERYTHING
from global_discovery.view.position import BadPosition

MAX_STREAMS, MAX_STREAMS_OF_ONE = 64, 32
"""In all, and of one caller."""
LOOK_SECONDS = 0.5
SUMMARY_SECONDS = 3.0
RETRY_MILLISECONDS = 2_000
EVENT_STREAM = "text/event-stream; charset=utf-8"
HEADERS = headers(EVENT_STREAM, {"X-Accel-Buffering": "no"})


class EventStreams:
    """All of one instance. While there are none nothing is done."""

    def __init__(self, core: Core) -> None:
        """Belongs to the core's loop."""
        self._core = core
        self._streams: set[_Stream] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.ended = False
        """Whether no stream goes on: the instance stops."""

    def __len__(self) -> int:
        """How many are open."""
        return len(self._streams)

    def answer(self, request: web.BaseRequest, visit: Visit, may_read: MayRead) -> Streamed:
        """A stream for a caller, which ends with its rights. Raises Problem (429)."""
        account = counted(visit.caller)
        mine = sum(stream.account == account for stream in self._streams)
        if len(self._streams) >= MAX_STREAMS or mine >= MAX_STREAMS_OF_ONE:
            detail = (
                f"as many event streams are open as there may be: {MAX_STREAMS} in all, "
                f"{MAX_STREAMS_OF_ONE} of one caller"
            )
            raise Problem(
                429, "TOO_MANY_EVENT_STREAMS", detail, header_fields={"Retry-After": "30"}
            )
        self._core.pools.refresh()
        resumed = self._sequence_of(request.headers.get("Last-Event-ID", ""))
        return Streamed(HEADERS, partial(self._write, request, visit, may_read, resumed))

    def end_all(self) -> None:
        """Ends every stream at once, and new ones after their first event."""
        self.ended = True
        self.look()

    def look(self) -> None:
        """Lets each stream see whether there is something for it."""
        self._core.pools.refresh()
        for stream in self._streams:
            stream.woken.set()

    def _sequence_of(self, last_event_id: str) -> int | None:
        """Where a page comes back from; a damaged or foreign position is none."""
        try:
            return self._core.pools.resume(last_event_id, EVERYTHING)
        except BadPosition:
            return None

    async def _write(
        self,
        request: web.BaseRequest,
        visit: Visit,
        may_read: MayRead,
        resumed: int | None,
        response: web.StreamResponse,
    ) -> None:
        account = counted(visit.caller)
        stream = _Stream(self._core, request, resumed, account, whole=may_read is everything)
        self._streams.add(stream)
        self._keep_looking()
        try:
            with visit.following(stream.end):
                await self._follow(stream, response)
        finally:
            self._streams.discard(stream)

    async def _follow(self, stream: "_Stream", response: web.StreamResponse) -> None:
        await response.write(f"retry: {RETRY_MILLISECONDS}\n\n".encode())
        while True:
            # Cleared first: what comes while this one writes wakes it again.
            stream.woken.clear()
            for event in stream.news():
                await response.write(event)
            if self.ended or stream.over:
                return
            await stream.woken.wait()

    def _keep_looking(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(LOOK_SECONDS, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        if self._streams:
            self.look()
            self._keep_looking()


class _Stream:
    """One page's place in the view."""

    def __init__(
        self,
        core: Core,
        request: web.BaseRequest,
        sequence: int | None,
        account: str,
        *,
        whole: bool,
    ) -> None:
        now = core.clock.monotonic()
        self.account = account
        self.woken = asyncio.Event()
        self._core = core
        self._connection = cast("Connection | None", request.protocol)
        self._whole = whole
        """Whether its caller may know how many pools and watchers there are."""
        self._sequence = sequence
        self._mark: Mark | None = None
        self._summary_due = now + SUMMARY_SECONDS
        self._ends_at = now + random.uniform(*core.settings.stream_age)  # noqa: S311 - no secret

    def end(self, why: DiscoveryError) -> None:
        """What its caller may read has changed: the page comes back, and is asked anew."""
        del why
        self._ends_at = self._core.clock.monotonic()
        self.woken.set()

    @property
    def over(self) -> bool:
        """Whether its time is up, or its caller gone."""
        gone = self._connection is None or self._connection.sends_no_more
        return gone or self._core.clock.monotonic() >= self._ends_at

    def news(self) -> Iterator[bytes]:
        """The events that it was not told, each as it is when it is taken."""
        view, now = self._core.pools, self._core.clock.monotonic()
        if view.mark != self._mark:
            self._mark = view.mark
            mark = {"complete": view.mark.exact, "reasons": reason_codes(view.mark)}
            yield _event("mark", mark)
        if view.sequence != self._sequence:
            self._sequence = view.sequence
            position = view.position(view.sequence, EVERYTHING)
            yield _event("pools", {"pools": len(view)} if self._whole else {}, position)
        if now >= self._summary_due:
            self._summary_due = now + SUMMARY_SECONDS
            yield _event("summary", self._summary() if self._whole else {})

    def _summary(self) -> dict[str, int]:
        watchers = self._core.pool_watchers
        return {
            "pools": len(self._core.pools),
            "watchers": len(watchers),
            "furthest_behind": watchers.furthest_behind,
        }


def _event(name: str, data: dict[str, object] | dict[str, int], position: str = "") -> bytes:
    """JSON has no line ends, which would end the event."""
    where = f"id: {position}\n" if position else ""
    return f"event: {name}\n{where}data: {orjson.dumps(data).decode()}\n\n".encode()
