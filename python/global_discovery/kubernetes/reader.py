"""Follows all objects of one kind, in all namespaces or in some, and keeps a sink up to date.

What is promised: whatever the API server and what lies before it do, the sink
holds the server's set again soon after they can be asked, without a restart; the
sink is told when that may not be so. What is not: order between objects, each
state that an object passed through, and anything about a server that lies.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from global_discovery.domain.events import Report, ignore
from global_discovery.domain.timer import SuspendAwareTimer, Timer
from global_discovery.kubernetes.assembly import Assembly
from global_discovery.kubernetes.backoff import Pace
from global_discovery.kubernetes.connection import ApiConnection
from global_discovery.kubernetes.figures import ReaderFigures, summed
from global_discovery.kubernetes.list_watch import ListWatch, Surroundings
from global_discovery.kubernetes.scope import Resource, Scope
from global_discovery.kubernetes.sink import Sink
from global_discovery.kubernetes.telling import Telling

T = TypeVar("T")

RETRY_SPACING = 4.0
"""Seconds between retries of several namespaces, each of which may be a list and a watch."""
FREE_RETRIES = 6


class Reader(Generic[T]):
    """One kind. `run` it once."""

    def __init__(  # noqa: PLR0913 - what differs between uses; most have defaults
        self,
        connection: ApiConnection,
        resource: Resource,
        decode: Callable[[msgspec.Raw], T],
        sink: Sink[T],
        *,
        label_selector: str = "",
        namespaces: Sequence[str] = (),
        timer: Timer | None = None,
        report: Report = ignore,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Asks nothing yet.

        `decode` makes one object of its JSON, or raises msgspec's errors. `namespaces`
        are watched one by one, for who may not watch all of them; the sink sees one set,
        which is whole only when each was listed. None given: one watch over all.
        """
        self._timer = timer or SuspendAwareTimer()
        scopes: list[str | None] = [*sorted(set(namespaces))] or [None]
        self._assembly = Assembly(sink, len(scopes))
        around = Surroundings(
            connection=connection,
            assembly=self._assembly,
            timer=self._timer,
            telling=Telling(report, resource.kind),
            pace=Pace(RETRY_SPACING if len(scopes) > 1 else 0.0, free=FREE_RETRIES),
            jitter=jitter,
        )
        self._watches = [
            ListWatch(part, Scope(resource, namespace, label_selector), decode, around)
            for part, namespace in enumerate(scopes)
        ]

    @property
    def figures(self) -> ReaderFigures:
        """As of now."""
        return summed(
            [watch.figures for watch in self._watches],
            now=self._timer.now(),
            in_sync=self._assembly.in_sync,
        )

    async def run(self) -> None:
        """For ever; no failure of the server ends it. Cancelling closes every answer."""
        async with asyncio.TaskGroup() as group:
            for watch in self._watches:
                group.create_task(watch.run())
