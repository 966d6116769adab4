"""Brings a view to its watchers: one encoding for all, one number for each.

A watcher is a place in the view and nothing else; no queue belongs to it. When
the view moves, every waiting watcher is handed what changed since its own
place, encoded once for all that share place and filter. One that is still
writing is left alone: it finds the merged changes when it comes back. So a slow
watcher costs its own delay, and memory for what it is writing now.

The view is brought forward at once when it was quiet - or after a moment in which
what belongs together is gathered, for a source of several parts - and while it moves
50 ms after all watchers were handed the last changes: the longer that takes, the more
changes the next message merges. A watcher whose write makes no progress for too
long is ended.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from heapq import nlargest
from typing import Generic, NamedTuple, TypeVar

from global_discovery.domain.completeness import Mark
from global_discovery.domain.errors import DiscoveryError, SlowWatcher
from global_discovery.view.feed import Encoder, Feed, Frames
from global_discovery.view.view import Delta, Filter, Keyed, View

T = TypeVar("T", bound=Keyed)
TICK_SECONDS = 0.05
OFFERS_A_TURN = 16
"""How many watchers are woken in one turn of the loop.

gRPC takes new calls one by one, a turn or two each: without such a bound a
heartbeat would wait behind the writes to all watchers, and a busy loop would
take a handful of calls a second.
"""
DEFAULT_IDLE_SECONDS = 15
MIN_IDLE_SECONDS = 1
MAX_IDLE_SECONDS = 25
DEFAULT_WRITE_SECONDS = 30.0
STREAM_AGE_SECONDS = (480.0, 720.0)


@dataclass(slots=True)
class FanOutCounters:
    """How often things happened since the start."""

    opened: int = 0
    snapshots: int = 0
    merged: int = 0
    """Changes that a watcher never saw alone: a newer one of the same pool was sent."""
    slow: int = 0
    """Watchers ended because they did not read."""


class WatcherState(NamedTuple):
    """One open stream, for people. Durations are in seconds."""

    peer: str
    """The caller's address; empty where it was not given."""
    wanted: Filter
    behind: int
    """How many positions it has not been handed yet."""
    open_for: float
    quiet_for: float
    """Since it was last handed something."""


class Watcher(Generic[T]):
    """One stream's place. Used by one task, which it ends when the stream must end."""

    __slots__ = (
        "_busy_since",
        "_counters",
        "_ends_at",
        "_failure",
        "_feed",
        "_forget",
        "_future",
        "_gave_up",
        "_idle_seconds",
        "_loop",
        "_mark",
        "_opened_at",
        "_peer",
        "_sent_at",
        "_sequence",
        "_task",
        "_timer",
        "_view",
        "_write_seconds",
        "finished",
    )

    def __init__(  # noqa: PLR0913 - made by FanOut only, by keyword
        self,
        *,
        view: View[T],
        feed: Feed[T],
        sequence: int | None,
        peer: str,
        idle_seconds: float,
        write_seconds: float,
        age_seconds: float,
        counters: FanOutCounters,
        forget: Callable[["Watcher[T]"], None],
        gave_up: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """For the current task; `sequence` is where it continues, if anywhere."""
        self._view = view
        self._feed = feed
        self._sequence = sequence
        self._mark: Mark | None = None
        """What was told last; None until something was, so that a resumed stream is answered."""
        self._idle_seconds = idle_seconds
        self._write_seconds = write_seconds
        self._counters = counters
        self._forget = forget
        self._gave_up = gave_up
        self._loop = loop
        self._future: asyncio.Future[Frames] | None = None
        self._failure: DiscoveryError | None = None
        self._task = asyncio.current_task(loop)
        self._peer = peer
        self._opened_at = self._sent_at = self._busy_since = loop.time()
        self._ends_at = self._sent_at + age_seconds
        self.finished = False
        """Whether the stream is to be ended with OK once all is written."""
        self._timer = loop.call_later(min(idle_seconds, write_seconds), self._on_time)

    @property
    def behind(self) -> int:
        """How many positions it has not been handed yet."""
        return self._view.sequence - (self._sequence or 0)

    @property
    def state(self) -> WatcherState:
        """How it is doing now."""
        now = self._loop.time()
        return WatcherState(
            self._peer, self._feed.wanted, self.behind, now - self._opened_at, now - self._sent_at
        )

    async def next(self) -> Frames:
        """What to write now; waits until there is something.

        Raises the DiscoveryError with which the stream is to be ended. When the
        task is cancelled instead, `gave_up` tells whether this object did it.
        """
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        frames = self._take()
        if frames is None:
            self._future = self._loop.create_future()
            try:
                frames = await self._future
            finally:
                self._future = None
        self._sent_at = self._busy_since = self._loop.time()
        return frames

    def progress(self) -> None:
        """One of several messages was written."""
        self._busy_since = self._loop.time()

    @property
    def failure(self) -> DiscoveryError | None:
        """Why the stream is to be ended, if this object wants that."""
        return self._failure

    @property
    def gave_up(self) -> bool:
        """Whether this object has cancelled its task, because a write took too long."""
        return isinstance(self._failure, SlowWatcher)

    def close(self) -> None:
        """The stream is over."""
        self._timer.cancel()
        self._forget(self)

    def offer(self) -> None:
        """Hands the waiting task what changed for it, if anything did."""
        if self._future is not None and not self._future.done():
            try:
                frames = self._take()
            except Exception as error:  # noqa: BLE001 - it ends this stream, and no other one
                self._future.set_exception(error)
                return
            if frames is not None:
                self._future.set_result(frames)

    def end(self, failure: DiscoveryError) -> None:
        """Ends the stream: at once when it waits, else after the write that is under way."""
        self._failure = failure
        if self._future is not None and not self._future.done():
            self._future.set_exception(failure)

    def _take(self) -> Frames | None:
        """What this watcher has not seen; None when that is nothing."""
        if self._mark is not None and self._sequence == self._view.sequence:
            return None  # as nearly always when a write is done
        self._view.freshen()
        if not self._view.synced:
            return None
        if self._sequence is not None:
            found = self._feed.delta(self._sequence)
            if found is not None:
                return self._take_delta(*found)
        snapshot, frames = self._feed.snapshot()
        self._sequence, self._mark = snapshot.sequence, snapshot.mark
        self._counters.snapshots += 1
        return frames

    def _take_delta(self, delta: Delta[T], frames: Frames) -> Frames | None:
        self._sequence = delta.sequence
        self._counters.merged += delta.merged
        news = delta.entries or delta.removed or delta.unlisted or delta.mark != self._mark
        if not news:
            return None
        self._mark = delta.mark
        return frames

    def _on_time(self) -> None:
        now = self._loop.time()
        waiting = self._future is not None and not self._future.done()
        self.finished = now >= self._ends_at
        if waiting:
            if self.finished or now >= self._sent_at + self._idle_seconds:
                self._say_idle()
        elif self._future is None and now >= self._busy_since + self._write_seconds:
            self._give_up()
            return
        due = (self._sent_at + self._idle_seconds, self._busy_since + self._write_seconds)
        wait = min(due[0] if waiting else due[1], now + self._idle_seconds) - now
        self._timer = self._loop.call_later(max(wait, 0.05), self._on_time)

    def _say_idle(self) -> None:
        """Says where the stream is; whatever is new goes first, or the mark would run ahead."""
        self._view.refresh()
        self.offer()
        if self._future is not None and not self._future.done():
            sequence = self._sequence if self._view.synced else None
            self._future.set_result(self._feed.idle(sequence, self._view.mark))
        self._sent_at = self._loop.time()

    def _give_up(self) -> None:
        self._counters.slow += 1
        self._failure = SlowWatcher(self._write_seconds)
        self._gave_up()
        if self._task is not None:
            self._task.cancel()


class FanOut(Generic[T]):
    """All watchers of one view."""

    def __init__(  # noqa: PLR0913 - what its streams are like, by keyword
        self,
        view: View[T],
        encoder: Encoder[T],
        *,
        write_seconds: float = DEFAULT_WRITE_SECONDS,
        stream_age: tuple[float, float] = STREAM_AGE_SECONDS,
        gather_seconds: float = 0.0,
        ended_slow: Callable[[], None] = lambda: None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """`stream_age` is the range from which each stream's longest life is drawn.

        `gather_seconds` is how long a quiet view waits for more once its source has
        moved. `ended_slow` is called for each watcher that is ended because it does
        not read.
        """
        self.view = view
        self.counters = FanOutCounters()
        self._encoder = encoder
        self._write_seconds = write_seconds
        self._stream_age = stream_age
        self._gather_seconds = gather_seconds
        self._ended_slow = ended_slow
        self._loop = loop or asyncio.get_running_loop()
        self._feeds: dict[bytes, Feed[T]] = {}
        self._watchers: dict[Watcher[T], Feed[T]] = {}
        self._failure: DiscoveryError | None = None
        self._scheduled = False
        self._offering = False
        self._moved_at = float("-inf")
        view.on_move(self.wake)

    def __len__(self) -> int:
        """How many streams are open."""
        return len(self._watchers)

    @property
    def furthest_behind(self) -> int:
        """How many positions the slowest watcher has not been handed yet."""
        return max((watcher.behind for watcher in self._watchers), default=0)

    def furthest(self, count: int) -> list[WatcherState]:
        """The streams that are furthest behind, those first; at most `count`."""
        slowest = nlargest(count, self._watchers, key=lambda watcher: watcher.behind)
        return [watcher.state for watcher in slowest]

    def open(
        self, wanted: Filter, sequence: int | None, idle_seconds: float, *, peer: str = ""
    ) -> Watcher[T]:
        """A new watcher, for the current task.

        `sequence` is where it continues; None begins with a snapshot. `peer` is
        told to people and to nobody else. Raises what `end_all` was given.
        """
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        feed = self._feeds.get(wanted.fingerprint)
        if feed is None:
            feed = self._feeds[wanted.fingerprint] = Feed(self.view, wanted, self._encoder)
        watcher = Watcher(
            view=self.view,
            feed=feed,
            sequence=sequence,
            peer=peer,
            idle_seconds=idle_seconds,
            write_seconds=self._write_seconds,
            age_seconds=random.uniform(*self._stream_age),  # noqa: S311 - no secret
            counters=self.counters,
            forget=self._forget,
            gave_up=self._ended_slow,
            loop=self._loop,
        )
        feed.watchers += 1
        self._watchers[watcher] = feed
        self.counters.opened += 1
        self.view.refresh()
        return watcher

    def wake(self) -> None:
        """The view or its source moved: brings that to the watchers, now or within a tick."""
        if self._scheduled:
            return
        self._scheduled = True
        if not self._offering:
            self._schedule()

    def _schedule(self) -> None:
        wait = max(self._moved_at + TICK_SECONDS - self._loop.time(), self._gather_seconds)
        if wait <= 0:
            self._loop.call_soon(self.flush)
        else:
            self._loop.call_later(wait, self.flush)

    def flush(self) -> None:
        """Brings the view forward and begins to hand every waiting watcher what changed for it."""
        self._scheduled = True  # the view may say that it moved: that is now
        try:
            self.view.refresh()
        finally:
            self._scheduled = False
        self._offering = True
        self._offer(list(self._watchers), 0)

    def _offer(self, watchers: list[Watcher[T]], at: int) -> None:
        """Hands the changes to some of these watchers, and to the rest on later turns."""
        until = at + OFFERS_A_TURN
        for watcher in watchers[at:until]:
            watcher.offer()
        if until < len(watchers):
            self._loop.call_soon(self._offer, watchers, until)
            return
        self._offering = False
        self._moved_at = self._loop.time()
        if self._scheduled:
            self._schedule()

    def end_all(self, failure: DiscoveryError) -> None:
        """Ends every stream, and refuses new ones."""
        self._failure = failure
        for watcher in list(self._watchers):
            watcher.end(failure)

    def _forget(self, watcher: Watcher[T]) -> None:
        feed = self._watchers.pop(watcher, None)
        if feed is not None:
            feed.watchers -= 1
            if not feed.watchers:
                del self._feeds[feed.wanted.fingerprint]
