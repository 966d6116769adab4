"""One list and watch: keeps a set equal to the server's, through every kind of failure.

It lists everything, then watches from the list's version, and goes on from the
last version it saw whenever a watch ends. It lists again when that version is no
longer kept, when a watch shows something that is no event or falls silent, when
the server stays behind the version, and every 10 to 30 minutes. A server whose
store was restored from an older copy accepts a version of its former future and
shows nothing, not even a bookmark, until it has come so far again: silence betrays
it, and what it wrote in the meantime only a list. While it lists no watch is open,
so that nothing old can follow the list.

Versions are opaque: they are handed back, never compared.

When the set counts as in sync is said in `sync_state`. Waits are 0.8 s doubling to
30 s and start over once a watch has lasted 30 s after its first event or bookmark;
only a watch that did so and ended normally is followed by the next one at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from global_discovery.domain.timer import Timer
from global_discovery.kubernetes.assembly import Assembly
from global_discovery.kubernetes.backoff import Backoff, Pace
from global_discovery.kubernetes.connection import ApiConnection
from global_discovery.kubernetes.envelopes import UNREADABLE, Key, read_event, read_names
from global_discovery.kubernetes.failures import (
    LOSES_ITS_PLACE,
    CallFailed,
    Failure,
    error_event,
)
from global_discovery.kubernetes.figures import Figures, Relist
from global_discovery.kubernetes.listing import list_all
from global_discovery.kubernetes.objects import Objects
from global_discovery.kubernetes.scope import Scope
from global_discovery.kubernetes.sync_state import GRACE_SECONDS, SyncState
from global_discovery.kubernetes.telling import Telling
from global_discovery.kubernetes.watching import SILENCE_SECONDS, Hooks, Watching

T = TypeVar("T")

ANSWER_SECONDS = 15.0
"""Until the headers of a watch come."""
SHORTEST_WATCH, LONGEST_WATCH = 240, 480
"""Seconds that the server is asked to keep a watch."""
SHORTEST_RELIST, LONGEST_RELIST = 600.0, 1800.0
RELIST_RETRY = 60.0
"""At least so long after a periodic list that failed, the watch being well."""
TOO_NEW_LIMIT = 3
LIST, WATCH = "list", "watch"
_HOPELESS = frozenset({Failure.FORBIDDEN, Failure.NOT_FOUND})


@dataclass(frozen=True, slots=True)
class Surroundings(Generic[T]):
    """What the lists and watches of one reader share."""

    connection: ApiConnection
    assembly: Assembly[T]
    timer: Timer
    telling: Telling
    pace: Pace
    jitter: Callable[[], float]
    """Numbers between 0 and 1."""


class ListWatch(Generic[T]):
    """One scope. `run` it once."""

    def __init__(
        self,
        part: int,
        scope: Scope,
        decode: Callable[[msgspec.Raw], T],
        around: Surroundings[T],
    ) -> None:
        """`part` is its number in the assembly."""
        self.figures = Figures()
        self._part = part
        self._scope = scope
        self._around = around
        self._timer = around.timer
        self._objects = Objects(decode, around.telling.unreadable)
        self._backoff = Backoff(around.jitter)
        self._sync = SyncState(
            around.timer,
            lambda: around.assembly.part_in_sync(part),
            lambda: around.assembly.part_out_of_sync(part),
        )
        self._version = ""
        self._relist: Relist | None = Relist.FIRST
        self._relist_at = 0.0
        self._alive_at = 0.0
        """The last sign that nothing was missed: a list, an event, the proper end of a watch."""
        self._following = False
        self._refused_once = False
        self._too_new = 0

    async def run(self) -> None:
        """For ever. No failure ends it; cancelling closes what is open."""
        try:
            while True:
                await self._timer.sleep(await self.step())
        finally:
            await self._sync.close()

    async def step(self) -> float:
        """One list or one watch, to its end; the seconds to wait before the next."""
        if self._relist is None and self._timer.now() >= self._relist_at:
            self._relist = Relist.PERIODIC
        verb = WATCH if self._relist is None else LIST
        try:
            if self._relist is not None:
                await self._list(self._relist)
                return 0.0
            return await self._watch()
        except CallFailed as failed:
            return self._failed(verb, failed)
        except Exception as error:  # noqa: BLE001 - a fault of ours is told, and must not end it
            fault = CallFailed(Failure.INTERNAL, f"{type(error).__name__}: {error}")
            return self._failed(verb, fault)

    # -- what it does --------------------------------------------------------

    async def _list(self, reason: Relist) -> None:
        self.figures.requests += 1
        self.figures.relists[reason] += 1
        self._sync.paused()
        began = self._timer.now()
        if reason is Relist.PERIODIC:
            # The watch is well: when this fails it goes on, and the next list is for later.
            self._relist = None
            self._relist_at = began + RELIST_RETRY * (1 + self._around.jitter())
        listed = await list_all(self._around.connection, self._scope, self._objects, self._timer)
        self._around.assembly.replaced(self._part, listed.items)
        now = self._timer.now()
        spread = LONGEST_RELIST - SHORTEST_RELIST
        self._relist = None
        self._relist_at = now + SHORTEST_RELIST + spread * self._around.jitter()
        self._version = listed.version
        self._alive_at = max(began, now - GRACE_SECONDS)
        self.figures.listed = self.figures.heard = now
        self._refused_once = False
        self._sync.reached()
        self._sync.paused()

    async def _watch(self) -> float:
        self.figures.requests += 1
        async with self._around.connection.get(
            self._scope.path,
            self._watch_params(),
            answer_seconds=ANSWER_SECONDS,
            read_seconds=SILENCE_SECONDS + ANSWER_SECONDS,
        ) as response:
            now = self._timer.now()
            watching = Watching(
                self._timer,
                Hooks(self._take, self._settled, self._well),
                silent_since=self._alive_at if self._sync.synced else now,
                relist_at=self._relist_at,
            )
            self._following = True
            ended_properly = await watching.follow(response.content)
            if not watching.settled:
                raise CallFailed(Failure.EMPTY, "the watch ended at once")
        self._alive_at = self._timer.now() if ended_properly else watching.heard
        return self._ended(well=watching.well)

    def _watch_params(self) -> dict[str, str]:
        seconds = SHORTEST_WATCH + (LONGEST_WATCH - SHORTEST_WATCH) * self._around.jitter()
        return {
            **self._scope.params,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(int(seconds)),
        }

    def _take(self, line: bytes) -> None:
        """One event of the watch. Raises CallFailed."""
        try:
            event = read_event(line)
            if event.type == "ERROR":
                raise error_event(bytes(event.object))
            key, version = read_names(event.object)
        except UNREADABLE as error:
            raise CallFailed(Failure.UNDECODABLE, f"not an event: {error}") from error
        if event.type != "BOOKMARK":
            self._apply(event.type, key, event.object)
        self._version = version or self._version
        self.figures.events += 1
        self.figures.heard = self._timer.now()

    def _apply(self, change: str, key: Key, raw: msgspec.Raw) -> None:
        assembly = self._around.assembly
        if change == "DELETED":
            # Deleted, or no longer selected: its content says nothing of why.
            self._objects.gone(key)
            assembly.deleted(self._part, key)
        elif change in ("ADDED", "MODIFIED"):
            item = self._objects.read_one(key, raw)
            if item is None:
                assembly.deleted(self._part, key)
            else:
                assembly.put(self._part, key, item)
        else:
            raise CallFailed(Failure.UNDECODABLE, f"an event of type {change[:40]!r}")

    # -- what follows --------------------------------------------------------

    def _settled(self) -> None:
        self._refused_once = False
        self._too_new = 0
        self._sync.reached()

    def _well(self) -> None:
        self._backoff.start_over()
        self._around.telling.healed(self._scope.namespace)

    def _ended(self, *, well: bool) -> float:
        """A watch ended as watches do, or for a list that is due."""
        self._following = False
        self._sync.paused()
        now = self._timer.now()
        if well or now >= self._relist_at:
            return 0.0
        return self._around.pace.wait(now, self._backoff.next())

    def _failed(self, verb: str, failed: CallFailed) -> float:
        failure = failed.failure
        self.figures.failures[failure] += 1
        self._judge(verb, failure)
        if failure is Failure.UNAUTHORIZED and not self._refused_once:
            # The token was rotated, most likely: the next call reads the new one.
            self._refused_once = True
            return 0.0
        self._around.telling.failed(self._scope.namespace, verb, failed)
        if failure in _HOPELESS:
            self._backoff.to_the_cap()
        wait = self._backoff.next(failed.retry_after)
        return self._around.pace.wait(self._timer.now(), wait)

    def _judge(self, verb: str, failure: Failure) -> None:
        """What a failure means for the set, and for the version to go on from."""
        following, self._following = self._following, False
        expired = verb == WATCH and failure is Failure.EXPIRED
        if expired or (following and failure is not Failure.EMPTY):
            self._sync.broken()
        else:
            self._sync.paused()
        fell_silent = following and failure is Failure.SILENT
        if verb == WATCH and (failure in LOSES_ITS_PLACE or fell_silent):
            self._relist = Relist.LOST
        elif verb == WATCH and failure is Failure.TOO_NEW:
            self._too_new += 1
            if self._too_new >= TOO_NEW_LIMIT:
                self._too_new = 0
                self._relist = Relist.TOO_NEW
