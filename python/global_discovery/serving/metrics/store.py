"""The store as its callers meet it, and what it tells of itself."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from time import perf_counter
from types import TracebackType
from typing import Self

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from global_discovery.domain.pool import PoolKey
from global_discovery.serving.metrics.families import PREFIX, Durations
from global_discovery.serving.tracing.tracer import Tracer
from global_discovery.storage.store import (
    Figure,
    FigureKind,
    MovedLease,
    Reading,
    RegistrationStore,
    StoredShare,
    StoreState,
    TellsFigures,
)

_OPERATIONS = ("put", "renew", "withdraw", "consult")
_OUTCOMES = ("ok", "failed")


class MeasuredStore:
    """A store whose calls are timed. It answers as the one inside does."""

    def __init__(self, store: RegistrationStore, tracer: Tracer | None = None) -> None:
        """Adds nothing to what `store` does, but spans where there is a tracer."""
        self._tracer = None if store.name == "memory" else tracer
        self._store = store
        self.name = store.name
        self.shared = store.shared
        self.durations = {
            (operation, outcome): Durations() for operation in _OPERATIONS for outcome in _OUTCOMES
        }

    def state(self) -> StoreState:
        """See RegistrationStore."""
        return self._store.state()

    def figures(self) -> Sequence[Figure]:
        """Those of the store inside."""
        return self._store.figures() if isinstance(self._store, TellsFigures) else ()

    def read_soon(self) -> None:
        """See RegistrationStore."""
        self._store.read_soon()

    def on_reading(self, take: Callable[[Reading], None], changed: Callable[[], None]) -> None:
        """See RegistrationStore."""
        self._store.on_reading(take, changed)

    async def open(self) -> Reading:
        """See RegistrationStore."""
        return await self._store.open()

    async def run(self) -> None:
        """See RegistrationStore."""
        await self._store.run()

    def _timed(self, operation: str) -> "_Timed":
        tracer = self._tracer
        span = None if tracer is None else tracer.store(self.name, operation)
        return _Timed(self.durations, operation, span)

    async def consult(self, key: PoolKey, lease_ids: Sequence[str]) -> Reading:
        """See RegistrationStore."""
        with self._timed("consult"):
            return await self._store.consult(key, lease_ids)

    async def put(self, share: StoredShare) -> None:
        """See RegistrationStore."""
        with self._timed("put"):
            await self._store.put(share)

    async def renew(self, lease_ids: Sequence[str]) -> Sequence[str]:
        """See RegistrationStore; failed when one of them could not be kept."""
        with self._timed("renew") as timed:
            not_kept = await self._store.renew(lease_ids)
            timed.failed = bool(not_kept)
        return not_kept

    def leases_judged(self, now: float, moved: Sequence[MovedLease]) -> None:
        """See RegistrationStore."""
        self._store.leases_judged(now, moved)

    async def withdraw(self, lease_ids: Sequence[str], *, remember: float) -> None:
        """See RegistrationStore."""
        with self._timed("withdraw"):
            await self._store.withdraw(lease_ids, remember=remember)

    async def close(self) -> None:
        """See RegistrationStore."""
        await self._store.close()


class _Timed:
    """One call. A plain class: this is done for every heartbeat."""

    __slots__ = ("_began", "_durations", "_operation", "_span", "failed")

    def __init__(
        self,
        durations: dict[tuple[str, str], Durations],
        operation: str,
        span: AbstractContextManager[None] | None,
    ) -> None:
        self._durations = durations
        self._operation = operation
        self._span = span
        self.failed = False

    def __enter__(self) -> Self:
        if self._span is not None:
            self._span.__enter__()
        self._began = perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        outcome = "failed" if self.failed or raised is not None else "ok"
        self._durations[self._operation, outcome].add(perf_counter() - self._began)
        if self._span is not None:
            self._span.__exit__(kind, raised, trace)


class StoreCollector(Collector):
    """Reads at each scrape."""

    def __init__(self, store: MeasuredStore) -> None:
        """Reads only."""
        self._store = store

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        calls = HistogramMetricFamily(
            PREFIX + "store_call_seconds",
            "How long the store took for what calls need of it.",
            labels=["operation", "outcome"],
        )
        for name, durations in self._store.durations.items():
            calls.add_metric(name, durations.cumulative(), durations.total)
        yield calls
        yield from map(_family, self._store.figures())


def _family(figure: Figure) -> Metric:
    counts = figure.kind is FigureKind.COUNTER
    kind = CounterMetricFamily if counts else GaugeMetricFamily
    family = kind(PREFIX + figure.name, figure.text, labels=figure.labels)
    for labels, value in figure.values.items():
        family.add_metric(labels, value)
    return family
