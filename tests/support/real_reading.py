"""A reader of a real API server, in the test's own loop, on a clock that can skip time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from global_discovery.domain.events import Event
from global_discovery.domain.timer import SuspendAwareTimer
from global_discovery.kubernetes.connection import ApiConnection
from global_discovery.kubernetes.credentials import Kubeconfig
from global_discovery.kubernetes.reader import Reader
from global_discovery.kubernetes.scope import ENDPOINT_SLICES
from support.kube_apiserver import PATIENCE_SECONDS, ControlPlane
from support.kube_objects import collection
from support.kube_reading import RecordingSink, read_thing

IMPORTED = "multicluster.kubernetes.io/service-name,multicluster.kubernetes.io/source-cluster"
_POLL_SECONDS = 0.05


class SkippingTimer(SuspendAwareTimer):
    """Runs as real time does, and can be put forward: those who sleep notice."""

    def __init__(self) -> None:
        self._skipped = 0.0

    def now(self) -> float:
        return super().now() + self._skipped

    async def sleep(self, seconds: float) -> None:
        due = self.now() + seconds
        while (left := due - self.now()) > 0:  # noqa: ASYNC110 - it may be skipped meanwhile
            await asyncio.sleep(min(left, _POLL_SECONDS))

    def skip(self, seconds: float) -> None:
        self._skipped += seconds


class Following:
    """A running reader, and what it has told. Made by `following`."""

    def __init__(
        self,
        plane: ControlPlane,
        connection: ApiConnection,
        timer: SkippingTimer,
        namespaces: Sequence[str],
    ) -> None:
        self.timer = timer
        self.sink = RecordingSink()
        self.events: list[tuple[Event, dict[str, Any]]] = []
        self._plane = plane
        self._namespaces = namespaces
        self.reader = Reader(
            connection,
            ENDPOINT_SLICES,
            read_thing,
            self.sink,
            label_selector=IMPORTED,
            namespaces=namespaces,
            timer=timer,
            report=self._report,
        )

    def said(self, event: Event) -> list[dict[str, Any]]:
        return [fields for name, fields in self.events if name is event]

    async def right(self) -> bool:
        """Whether the sink is in sync and holds each version that the server shows."""
        truth = {}
        for namespace in self._namespaces or [None]:
            path = collection(
                api_version="discovery.k8s.io/v1", kind="EndpointSlice", namespace=namespace
            )
            listed = await self._plane.call("GET", path, params={"labelSelector": IMPORTED})
            for item in listed["items"]:
                metadata = item["metadata"]
                truth[metadata["namespace"], metadata["name"]] = metadata["resourceVersion"]
        return self.sink.synced and self.sink.versions == truth

    async def right_again(self) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await self.right():  # noqa: ASYNC110 - it is another process's state
                await asyncio.sleep(_POLL_SECONDS)

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds():  # noqa: ASYNC110 - the sink tells nobody else
                await asyncio.sleep(_POLL_SECONDS)

    def _report(self, event: Event, **fields: object) -> None:
        self.events.append((event, fields))


@contextlib.asynccontextmanager
async def following(
    plane: ControlPlane, kubeconfig: Path, *, namespaces: Sequence[str] = ()
) -> AsyncIterator[Following]:
    """Running already; stopped at the end."""
    timer = SkippingTimer()
    connection = ApiConnection(Kubeconfig(str(kubeconfig)), timer=timer)
    found = Following(plane, connection, timer, namespaces)
    running = asyncio.create_task(found.reader.run())
    try:
        yield found
    finally:
        running.cancel()
        await asyncio.wait({running})
        await connection.close()
