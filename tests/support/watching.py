"""Watch streams without a network: the real view, fan-out and encoder, stepped by hand."""

import asyncio
import math
from typing import Any

from global_discovery.domain.clock import Clock
from global_discovery.serving import wire
from global_discovery.serving.grpc.requests import resume
from global_discovery.serving.grpc.service import _follow
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.view.fanout import FanOut
from global_discovery.view.filters import EVERYTHING
from global_discovery.view.pages import Pages
from global_discovery.view.view import Filter, View
from support.fold import FoldingClient, Key, key_of
from support.hand_loop import HandLoop, HandTask


class HandStream:
    """One WatchPools call: what the server's handler does, and a client that may stop reading."""

    def __init__(
        self,
        fanout: FanOut[Any],
        loop: HandLoop,
        *,
        wanted: Filter = EVERYTHING,
        position: str = "",
        idle_seconds: float = 15.0,
        client: FoldingClient | None = None,
    ) -> None:
        """Raises InvalidInput for a position that does not decode."""
        self.client = client or FoldingClient()
        self.client.begin_stream()
        self._room = math.inf
        self.frames: list[bytes] = []
        self.closed: list[list[pb.WatchPoolsResponse]] = []
        """What the client applied together, in order."""
        self._loop = loop
        self._window: asyncio.Future[None] | None = None
        sequence = resume(fanout.view, position, wanted)
        self.watcher = fanout.open(wanted, sequence, idle_seconds)
        self._task = HandTask(_follow(self.watcher, self))  # type: ignore[arg-type]  # a Context's write

    async def write(self, frame: bytes) -> None:
        """What a Context does: waits for as long as the client does not read."""
        while self._room <= 0:
            self._window = self._loop.create_future()
            await self._window
        self._room -= 1
        self.frames.append(frame)
        parts = self.client.take(pb.WatchPoolsResponse.FromString(frame))
        if parts:
            self.closed.append(parts)

    @property
    def reading(self) -> bool:
        return self._room > 0

    def read(self, messages: float = math.inf) -> None:
        """Reads on, for so many messages, and lets the handler run as far as it gets."""
        self._room = messages
        self.step()

    def stop_reading(self) -> None:
        self._room = 0

    def step(self) -> None:
        """The handler's task runs as far as it gets."""
        if self.reading and self._window is not None and not self._window.done():
            self._window.set_result(None)
        self._task.step()
        if self.watcher.gave_up and not self._task.done:
            self._task.throw(asyncio.CancelledError())
        if self._task.done:
            self.watcher.close()

    def cut(self) -> None:
        """The connection breaks."""
        self._task.throw(asyncio.CancelledError())
        self.watcher.close()

    def ended(self) -> bool:
        return self._task.done

    @property
    def error(self) -> BaseException | None:
        """What ended it; None when it ended with OK."""
        return self.watcher.failure if self.watcher.gave_up else self._task.error


def listed(view: View[Any], clock: Clock, wanted: Filter = EVERYTHING) -> pb.ListPoolsResponse:
    """All pages of ListPools in one."""
    pages = Pages(view, clock=clock, size_of=lambda entry: len(wire.pool_field(entry)))
    whole = pb.ListPoolsResponse()
    while not whole.position or whole.next_page_token:
        page = pages.page(wanted, 3, whole.next_page_token)
        answer = pb.ListPoolsResponse.FromString(
            wire.list_response(
                map(wire.pool_field, page.entries),
                mark=page.snapshot.mark,
                position=view.position(page.snapshot.sequence, wanted),
                next_page_token=page.next_page_token,
            )
        )
        whole.next_page_token = answer.next_page_token
        if not whole.position:
            whole.position = answer.position
            whole.mark.CopyFrom(answer.mark)
        assert (answer.position, answer.mark) == (whole.position, whole.mark)
        whole.pools.extend(answer.pools)
    return whole


def by_key(response: pb.ListPoolsResponse) -> dict[Key, Any]:
    return {key_of(pool.key): pool for pool in response.pools}
