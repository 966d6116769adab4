"""What `GET /metrics` shows, with label sets that cannot grow.

Labels have values from fixed sets only: methods, routes, codes, reasons. Nothing
that a caller can make up - a key, a path, an address - is ever a label. Figures
that exist anyway are read when they are asked for, not counted twice.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from global_discovery.domain.completeness import Mark, Reason
from global_discovery.serving.core import Core
from global_discovery.sources.joined.join import JoinedPools
from global_discovery.view.fanout import FanOut

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
PREFIX = "global_discovery_"


class _Durations:
    """A histogram of seconds."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(_BUCKETS, seconds)] += 1
        self.total += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        bounds = (*map(floatToGoString, _BUCKETS), "+Inf")
        return list(zip(bounds, accumulate(self.counts), strict=True))


class CallMetrics(Collector):
    """Counts calls of both faces by method and code.

    Plain numbers, put into the library's form when they are read: its own
    counters take three locks a call, for threads that there are not.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        """Registers itself."""
        self._answered: dict[tuple[str, str, str], int] = {}
        self._seconds: dict[tuple[str, str], _Durations] = {}
        self._refused: dict[tuple[str, str], int] = {}
        registry.register(self)

    def answered(self, face: str, method: str, code: str, seconds: float | None) -> None:
        """One call; `seconds` is None for streams."""
        name = (face, method, code)
        self._answered[name] = self._answered.get(name, 0) + 1
        if seconds is not None:
            durations = self._seconds.get((face, method))
            if durations is None:
                durations = self._seconds[face, method] = _Durations()
            durations.add(seconds)

    def refused(self, face: str, reason: str) -> None:
        """One refusal; `reason` is one of the fixed ones."""
        self._refused[face, reason] = self._refused.get((face, reason), 0) + 1

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        calls = CounterMetricFamily(
            PREFIX + "calls", "Calls answered.", labels=["face", "method", "code"]
        )
        for name, count in self._answered.items():
            calls.add_metric(name, count)
        seconds = HistogramMetricFamily(
            PREFIX + "call_seconds", "How long unary calls took.", labels=["face", "method"]
        )
        for labels, durations in self._seconds.items():
            seconds.add_metric(labels, durations.cumulative(), durations.total)
        rejections = CounterMetricFamily(
            PREFIX + "rejections",
            "Calls that were refused, by fixed reason.",
            labels=["face", "reason"],
        )
        for refused, count in self._refused.items():
            rejections.add_metric(refused, count)
        yield from (calls, seconds, rejections)


class LoopLag:
    """How late the loop runs what is due: the newest figure and the largest since the start."""

    def __init__(self) -> None:
        """Nothing seen yet."""
        self.last = 0.0
        self.largest = 0.0

    def seen(self, seconds: float) -> None:
        """One late wake-up, in seconds."""
        self.last = max(seconds, 0.0)
        self.largest = max(self.largest, self.last)


class CoreCollector(Collector):
    """Reads the core's own figures at each scrape."""

    def __init__(self, core: Core, lag: LoopLag) -> None:
        """Reads only."""
        self._core = core
        self._lag = lag

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        core = self._core
        core.pools.refresh()
        mark = core.pools.mark
        registered, counters = core.registrations, core.registrations.counters
        yield gauge("pools", "Pools in the view.", len(core.pools))
        yield gauge("routers", "Routers in the view.", len(core.routers))
        yield gauge("registered_pools", "Pools with a live share.", len(registered))
        yield gauge("live_shares", "Shares inside their lease.", registered.shares)
        yield gauge("view_position", "Position of the pool view.", core.pools.sequence)
        yield gauge("view_history", "Changes kept for resuming.", core.pools.history)
        yield gauge("view_exact", "Whether the pool view is exact.", mark.exact)
        yield gauge("view_bound_seconds", "The pool view's bound.", mark.bound)
        reasons = gauge("view_estimated", "Why the pool view is estimated.", None, "reason")
        for reason in Reason:
            reasons.add_metric([reason.value], float(reason in mark.reasons))
        yield reasons
        yield counter("registrations", "Shares that began.", counters.registrations)
        yield counter("renewals", "Leases granted or renewed.", counters.renewals)
        yield counter("withdrawals", "Shares withdrawn.", counters.withdrawals)
        yield counter("lapses", "Shares whose lease ended.", counters.lapses)
        yield counter("lease_extensions", "Leases extended by us.", counters.extensions)
        yield counter("restored_shares", "Shares restored at the start.", counters.restored)
        state = core.store_state()
        yield gauge("store_failing", "Whether the store fails to read or write.", state.failing)
        yield counter("store_failures", "Times it began to fail.", state.failures)
        yield counter("stalls", "Times the process could not listen.", counters.stalls)
        yield counter("mass_lapses", "Mass lapses.", counters.mass_lapses)
        yield gauge("loop_lag_seconds", "How late the loop last ran.", self._lag.last)
        yield gauge("loop_lag_max_seconds", "Its largest lag.", self._lag.largest)
        yield from self._watchers()
        if core.joined is not None:
            yield from _join_of_both_sides(core.joined, mark)

    def _watchers(self) -> Iterator[Metric]:
        streams: dict[str, FanOut[Any]] = {
            "pools": self._core.pool_watchers,
            "routers": self._core.router_watchers,
        }
        watchers = gauge("watchers", "Open streams.", None, "view")
        behind = gauge("watcher_lag", "Positions the slowest watcher is behind.", None, "view")
        opened = counter("watchers_opened", "Streams opened.", None, "view")
        snapshots = counter("snapshots", "Snapshots handed to watchers.", None, "view")
        merged = counter("merged_changes", "Changes merged into newer ones.", None, "view")
        slow = counter("slow_watchers", "Streams ended as too slow.", None, "view")
        for view, fanout in streams.items():
            watchers.add_metric([view], len(fanout))
            behind.add_metric([view], fanout.furthest_behind)
            opened.add_metric([view], fanout.counters.opened)
            snapshots.add_metric([view], fanout.counters.snapshots)
            merged.add_metric([view], fanout.counters.merged)
            slow.add_metric([view], fanout.counters.slow)
        yield from (watchers, behind, opened, snapshots, merged, slow)


def _join_of_both_sides(joined: JoinedPools, mark: Mark) -> Iterator[Metric]:
    yield gauge("view_slices_bound_seconds", "The bound for slices.", mark.slices_bound)
    text = "Pools that only one side lists, for so long that it was told."
    one_sided = gauge("one_sided_pools", text, None, "side")
    for side, count in joined.one_sided.counts().items():
        one_sided.add_metric([side.value], count)
    yield one_sided
    without = len(joined.without_frontends)
    yield gauge("pools_without_frontends", "Listed pools without a frontend.", without)
    yield gauge("held_pools", "Pools that keep lost addresses for a moment.", joined.held)


def gauge(name: str, text: str, value: float | None, label: str = "") -> GaugeMetricFamily:
    """A gauge with its value, or with samples to be added under a label."""
    labels = [label] if label else None
    return GaugeMetricFamily(PREFIX + name, text, value=value, labels=labels)


def counter(name: str, text: str, value: float | None, label: str = "") -> CounterMetricFamily:
    """As `gauge`; its name is without `_total`."""
    labels = [label] if label else None
    return CounterMetricFamily(PREFIX + name, text, value=value, labels=labels)
