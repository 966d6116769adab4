"""A reader of the fake API server, whose waits take no time: the clock jumps over them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from global_discovery.domain.events import Event
from global_discovery.kubernetes.connection import ApiConnection
from global_discovery.kubernetes.credentials import Kubeconfig
from global_discovery.kubernetes.reader import Reader
from global_discovery.kubernetes.scope import ENDPOINT_SLICES
from support.fake_kube_api import FakeKubeApi
from support.timer import MovedTimer

PATIENCE_SECONDS = 30


class ThingMeta(msgspec.Struct):
    name: str
    namespace: str = ""
    version: str = msgspec.field(name="resourceVersion", default="")
    labels: dict[str, str] | None = None


class Thing(msgspec.Struct):
    """Any object; one whose `weight` is no number cannot be decoded."""

    metadata: ThingMeta
    endpoints: list[Any] | None = None
    weight: int = 0


read_thing = msgspec.json.Decoder(Thing).decode


def a_slice(name: str, namespace: str = "ns", **fields: Any) -> dict[str, Any]:
    """An EndpointSlice of no special meaning."""
    labels = fields.pop("labels", {"app": "x"})
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, **fields}


class RecordingSink:
    """Keeps the set as it was told, and every call."""

    def __init__(self, now: Callable[[], float] = lambda: 0.0) -> None:
        self._now = now
        self.lost_at: list[float] = []
        """When it was told that it may be old."""
        self.items: dict[tuple[str, str], Thing] = {}
        self.synced = False
        self.calls: list[str] = []

    def replaced(self, items: Sequence[Thing]) -> None:
        self.calls.append("replaced")
        self.items = {(item.metadata.namespace, item.metadata.name): item for item in items}

    def put(self, item: Thing) -> None:
        self.calls.append("put")
        self.items[item.metadata.namespace, item.metadata.name] = item

    def deleted(self, namespace: str, name: str) -> None:
        self.calls.append("deleted")
        self.items.pop((namespace, name), None)

    def in_sync(self) -> None:
        self.calls.append("in_sync")
        self.synced = True

    def out_of_sync(self) -> None:
        self.calls.append("out_of_sync")
        self.lost_at.append(self._now())
        self.synced = False

    @property
    def versions(self) -> dict[tuple[str, str], str]:
        return {names: item.metadata.version for names, item in self.items.items()}


class Reading:
    """A reader whose first list and watch is stepped by hand."""

    def __init__(self, api: FakeKubeApi, connection: ApiConnection, timer: MovedTimer) -> None:
        self.api = api
        self.timer = timer
        self.connection = connection
        self.sink = RecordingSink(lambda: self.passed)
        self.events: list[tuple[Event, dict[str, Any]]] = []
        self.waits: list[float] = []
        self._began = timer.now()
        self.reader: Reader[Thing]
        self._driving: asyncio.Task[None] | None = None

    def report(self, event: Event, **fields: object) -> None:
        self.events.append((event, fields))

    def read(self, **options: Any) -> None:
        self.reader = Reader(
            self.connection,
            options.pop("resource", ENDPOINT_SLICES),
            read_thing,
            self.sink,
            timer=self.timer,
            report=self.report,
            jitter=lambda: 0.5,
            **options,
        )

    @property
    def passed(self) -> float:
        """Seconds of the moved clock since the beginning."""
        return self.timer.now() - self._began

    @property
    def driving(self) -> "asyncio.Task[None]":
        assert self._driving is not None
        return self._driving

    def drive(self, *, until: float = float("inf")) -> None:
        """Lists and watches until so many seconds have been waited."""
        self._driving = asyncio.create_task(self._drive(until))

    async def _drive(self, until: float) -> None:
        while self.passed < until:
            wait = await self.reader._watches[0].step()
            self.waits.append(wait)
            self.timer.advance(wait)
            await asyncio.sleep(0)

    async def until(self, holds: Callable[[], object]) -> None:
        """Lets the loop run until something holds; no time passes but what is waited."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds():
                if self._driving is not None and self._driving.done():
                    self._driving.result()
                    assert holds(), "driven to the end"
                await asyncio.sleep(0.001)

    async def following(self) -> None:
        """Returns once a watch is open and has shown a bookmark."""
        before = self.reader.figures.events
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.reader.figures.events == before:
                self.api.bookmark()
                await asyncio.sleep(0.002)

    def right(self) -> bool:
        """Whether the sink holds exactly what the server does, and knows it."""
        (objects,) = [
            objects
            for collection, objects in self.api.store.collections.items()
            if collection.plural == "endpointslices"
        ]
        truth = {names: item["metadata"]["resourceVersion"] for names, item in objects.items()}
        return self.sink.synced and self.sink.versions == truth

    async def right_again(self) -> None:
        await self.until(self.right)

    def said(self, event: Event) -> list[dict[str, Any]]:
        return [fields for name, fields in self.events if name is event]


@contextlib.asynccontextmanager
async def reading(api: FakeKubeApi, folder: Path, **options: Any) -> AsyncIterator[Reading]:
    """A reader that asks nothing yet; what it opened is closed at the end."""
    timer = MovedTimer()
    user = options.pop("user", {})
    connection = ApiConnection(
        Kubeconfig(str(api.kubeconfig(folder, **user))),
        timer=timer,
        strict_x509=options.pop("strict_x509", True),
    )
    found = Reading(api, connection, timer)
    found.read(**options)
    try:
        yield found
    finally:
        if found._driving is not None:
            found._driving.cancel()
            await asyncio.wait({found._driving})
        for watch in found.reader._watches:
            await watch._sync.close()
        await connection.close()
