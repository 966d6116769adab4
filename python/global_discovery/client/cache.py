"""The router's side: the pools that exist, always at hand.

A `PoolCache` follows a list of servers in the background and answers from
memory. It offers what its newest view lists, and the pools it *carries*: known
before, and not yet known to be gone. It never drops a pool because a server
cannot be reached, has restarted or does not know yet; what drops one is a
`removed`, an exact view, or its filter. `carrying.py` has the rule.

With a file it begins with the view it saved last, all of it carried, whether or
not a server answers.

No failure of a server, a connection or a disk is an exception to the caller: the
`state` tells them. A cache belongs to one event loop.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc

from global_discovery.client.cache_state import CachedPool, CacheState
from global_discovery.client.carrying import CarryingFold
from global_discovery.client.errors import CallFailed, causes
from global_discovery.client.fold import PoolKey, Update
from global_discovery.client.pool_index import PoolIndex
from global_discovery.client.servers import checked_servers
from global_discovery.client.tls import ClientTls, TlsSettings
from global_discovery.client.view_saver import ViewSaver
from global_discovery.client.watch import (
    DEFAULT_IDLE_SECONDS,
    DEFAULT_POLL_SECONDS,
    Connection,
    WatchState,
    watch_pools,
)
from global_discovery.domain.timer import SystemTimer, Timer
from global_discovery.v1 import pool_discovery_pb2 as pb

SAVER_STEP_SECONDS = 1.0
STOP_SECONDS = 5.0
AFTER_A_FAULT_SECONDS = 5.0

_LOG = logging.getLogger(__name__)


class PoolCache:
    """Follows pools for ever. An asynchronous context manager, to be entered once."""

    def __init__(  # noqa: PLR0913 - all but the first have a good default
        self,
        servers: Sequence[str],
        *,
        wanted: pb.PoolFilter | None = None,
        saved_view: str | Path | None = None,
        tls: TlsSettings | None = None,
        log: Callable[[str], None] | None = None,
        idle_seconds: int = DEFAULT_IDLE_SECONDS,
        poll_seconds: int = DEFAULT_POLL_SECONDS,
        timer: Timer | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Raises ValueError as PoolHeartbeat does; opens nothing yet.

        `servers` are gRPC targets (`host:port`), the first one preferred, and URLs
        (`http://host:port`) of servers of which only HTTP can be reached, which are
        polled each `poll_seconds` while no other one answers. `wanted` is applied by
        the servers. `saved_view` is a file for the view, in a folder that exists;
        `log` takes sentences about it (default: the logger of this package).
        Without `tls` gRPC is in plain text, and `https://` by the system's CAs.
        `idle_seconds`, 1 to 25: after three times that a silent server is left.
        """
        self._timer = timer or SystemTimer()
        self._servers = checked_servers(servers)
        self._wanted = wanted
        self._tls = tls
        ClientTls.of(tls, self._servers)  # refuses at once what would be refused later
        self._idle_seconds = idle_seconds
        self._poll_seconds = poll_seconds
        self._saver = (
            ViewSaver(Path(saved_view), timer=self._timer, wall=wall, log=log)
            if saved_view is not None
            else None
        )
        self._fold = CarryingFold()
        self._index = PoolIndex(self._timer.now)
        self._connection = Connection(self._servers[0], connected=False)
        self._fault: CallFailed | None = None
        self._heard_at: float | None = None
        self._synced = False
        self._version = 0
        self._stopped = False
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Takes the saved view, if there is one, and begins to follow; waits for no server."""
        if self._saver is not None:
            self._fold.restore(await self._saver.restore(), self._wanted)
            self._index.replace(self._fold)
            self._tasks.append(asyncio.create_task(self._keep_saved(self._saver)))
        self._tasks.append(asyncio.create_task(self._follow()))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the connection and saves the view, within seconds whatever hangs."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        self._publish()
        if self._saver is not None and self._synced:
            await self._saver.save(tuple(self._fold.known()), self._version)

    # -- what is known -------------------------------------------------------

    def pools(self, model: str | None = None) -> Sequence[CachedPool]:
        """The pools of a model, or all, sorted by key. Never waits.

        Cheap for a model: asked again it gives the same tuple until one of its pools changes.
        """
        return self._index.all() if model is None else self._index.of_model(model)

    def models(self) -> Sequence[str]:
        """The models that have a pool, sorted."""
        return self._index.models()

    @property
    def state(self) -> CacheState:
        """How things stand, for a health page."""
        now, fold = self._timer.now(), self._fold
        oldest = min((each.listed_until for each in fold.carried.values()), default=None)
        error = self._fault or self._connection.last_error
        return CacheState(
            server=self._connection.server,
            connected=self._connection.connected,
            info=self._connection.info,
            synced=self._synced,
            mark=fold.mark,
            exact=self._exact,
            listed=len(fold.listed),
            carried=len(fold.carried),
            heard_seconds_ago=None if self._heard_at is None else now - self._heard_at,
            oldest_carried_seconds=None if oldest is None else now - oldest,
            last_error=error,
            causes=tuple(causes(error)) if error is not None else (),
            saved=self._saver.state if self._saver is not None else None,
        )

    async def wait_synced(self, *, exact: bool = False) -> None:
        """Returns once a server has told its view, with `exact` once one told an exact one.

        Waits as long as that takes, or until the cache is stopped; use a timeout.
        """
        async for _ in self.changes():
            if self._exact or (self._synced and not exact):
                return

    async def changes(self) -> AsyncIterator[CacheState]:
        """The state at once, and again after each change of pools, mark or connection.

        That a server is still not reached is no change; the first failure, a lost
        connection and a new one are. Changes that come while the caller is busy are
        told as one. Ends with the cache.
        """
        seen = -1
        while not self._stopped:
            if seen != self._version:
                seen = self._version
                yield self.state
            else:
                await self._news.wait()

    @property
    def _exact(self) -> bool:
        return self._connection.connected and self._fold.following and self._fold.exact

    # -- following -----------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            try:
                async with watch_pools(
                    self._servers,
                    wanted=self._wanted,
                    fold=self._fold,
                    idle_seconds=self._idle_seconds,
                    poll_seconds=self._poll_seconds,
                    tls=self._tls,
                    timer=self._timer,
                ) as watch:
                    async for step in watch:
                        self._take(step)
            except Exception as error:  # noqa: BLE001 - no fault may end the following unseen
                _LOG.exception("a pool cache met a fault of its own and begins anew")
                self._begin_anew(error)
                await self._timer.sleep(AFTER_A_FAULT_SECONDS)

    def _take(self, step: WatchState[Any]) -> None:
        reconnected = _standing(step.connection) != _standing(self._connection)
        if step.connection.last_error is not None:
            self._fault = None
        self._connection = step.connection
        if step.connection.connected:
            self._heard_at = self._timer.now()
        update = step.update
        if update is not None:
            self._index.update(self._fold, _touched(update))
        synced_now = not self._synced and update is not None and self._fold.following
        self._synced |= synced_now
        told = update is not None and (
            update.changed or update.removed or update.carried or update.mark_changed
        )
        if told or reconnected or synced_now:
            self._publish()

    def _begin_anew(self, error: Exception) -> None:
        """What was being applied may be half done; a snapshot puts it right."""
        self._fold.forget_position()
        self._index.replace(self._fold)
        server = self._connection.server
        self._fault = CallFailed(server, grpc.StatusCode.INTERNAL, str(error))
        self._fault.__cause__ = error
        self._connection = Connection(server, connected=False)
        self._publish()

    def _publish(self) -> None:
        self._version += 1
        self._news.set()
        self._news = asyncio.Event()

    async def _keep_saved(self, saver: ViewSaver) -> None:
        while True:
            await self._timer.sleep(SAVER_STEP_SECONDS)
            if self._synced and saver.is_due(self._version):
                await saver.save(tuple(self._fold.known()), self._version)


def _standing(connection: Connection) -> tuple[object, ...]:
    """What of a connection is news; not which server is away just now, and why once more."""
    if connection.connected:
        return (True, connection.server, connection.info)
    return (False, connection.last_error is not None)


def _touched(update: Update[PoolKey, Any]) -> list[PoolKey]:
    changed = (PoolKey.of(pool.key) for pool in update.changed)
    return [*changed, *update.removed, *update.carried]
