"""Keeps a cache's view in a file: read once at the start, written at a bounded rate.

The file is a help and never a condition. Whatever is wrong with it is told (in
the state, and once in the log for each different reason), and the cache goes on
without it.
"""

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from global_discovery.client.carrying import KnownPool
from global_discovery.client.saved_view import (
    SavedView,
    UnusableFile,
    in_thread,
    read_view,
    remove_leftovers,
    write_view,
)
from global_discovery.domain.timer import Timer, within

T = TypeVar("T")

WAIT_SECONDS = 5.0
"""How long a disk is waited for."""
SAVE_EVERY_SECONDS = 5.0
"""The least time between two writes."""
REFRESH_EVERY_SECONDS = 60.0
"""An unchanged view is written that often, so that its age is known after a crash."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SavedState:
    """How the file stands."""

    path: str
    restored: int = 0
    """How many pools it began with."""
    saved_at: float | None = None
    """When it was last written by this cache, in seconds since the epoch."""
    error: str = ""
    """Why it could not be used or written last; empty when it could."""


class ViewSaver:
    """The file of one cache."""

    def __init__(
        self,
        path: Path,
        *,
        timer: Timer,
        wall: Callable[[], float],
        log: Callable[[str], None] | None = None,
    ) -> None:
        """Touches nothing yet. `wall` gives seconds since the epoch; `log` takes sentences."""
        self._path = path
        self._timer = timer
        self._wall = wall
        self._log = log or _LOG.warning
        self._tried_at = -math.inf
        self._writing = threading.Lock()
        self._saved_version = -1
        self._tidied = False
        self.state = SavedState(str(path))

    async def restore(self) -> tuple[KnownPool, ...]:
        """What was saved, with times on the timer's clock; nothing when it cannot be used."""
        try:
            saved = await self._off_loop(lambda: read_view(self._path))
        except (UnusableFile, OSError) as error:
            self._problem(f"cannot be used, and is ignored: {error}")
            return ()
        if saved is None:
            return ()
        self.state = replace(self.state, restored=len(saved.known))
        # No time of the file lies in the future, whatever the wall clock did since.
        shift, now = self._timer.now() - self._wall(), self._timer.now()
        return tuple(_moved(each, shift, latest=now) for each in saved.known)

    def is_due(self, version: int) -> bool:
        """Whether it is time to save, given a number that changes with the view."""
        since = self._timer.now() - self._tried_at
        changed = version != self._saved_version
        return since >= (SAVE_EVERY_SECONDS if changed else REFRESH_EVERY_SECONDS)

    async def save(self, known: tuple[KnownPool, ...], version: int) -> None:
        """Writes the view. A failure is told, and the next attempt is as far away as ever."""
        self._tried_at = self._timer.now()
        wall = self._wall()
        shift = wall - self._timer.now()
        view = SavedView(wall, tuple(_moved(each, shift, latest=wall) for each in known))
        try:
            await self._off_loop(lambda: self._write(view))
        except OSError as error:
            self._problem(f"cannot be written: {error.strerror or error}")
        else:
            self._saved_version = version
            self.state = replace(self.state, saved_at=wall, error="")

    async def _off_loop(self, work: Callable[[], T]) -> T:
        try:
            return await within(self._timer, WAIT_SECONDS, in_thread(work))
        except TimeoutError:
            raise OSError(f"the disk did not answer within {WAIT_SECONDS:g} s") from None
        except (ValueError, RuntimeError) as error:  # a name that is none, no more threads
            raise OSError(str(error)) from error

    def _write(self, view: SavedView) -> None:
        """One at a time: an older write that still hangs must not mix with this one."""
        with self._writing:
            if not self._tidied:
                self._tidied = True
                remove_leftovers(self._path)
            write_view(self._path, view)

    def _problem(self, what: str) -> None:
        if what == self.state.error:
            return
        self.state = replace(self.state, error=what)
        try:
            self._log(f"the saved view {self._path} {what}")
        except Exception:  # noqa: BLE001 - the caller's function may raise anything
            _LOG.exception("the log callback of a pool cache failed")


def _moved(known: KnownPool, shift: float, *, latest: float) -> KnownPool:
    return KnownPool(
        known.pool,
        min(known.listed_until + shift, latest),
        min(known.told_at + shift, latest),
        known.told_by,
    )
