"""Calls of both faces, by method and code."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from global_discovery.serving.metrics.families import PREFIX, Durations

FAULTS = {"grpc": "INTERNAL", "rest": "500"}
"""By face, the code of a fault of ours."""


class CallMetrics(Collector):
    """Counts calls of both faces by method and code.

    Plain numbers, put into the library's form when they are read: its own
    counters take three locks a call, for threads that there are not.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        """Registers itself."""
        self._answered: dict[tuple[str, str, str], int] = {}
        self._seconds: dict[tuple[str, str, str], Durations] = {}
        self._refused: dict[tuple[str, str], int] = {}
        registry.register(self)

    def answered(self, face: str, method: str, code: str, seconds: float | None) -> None:
        """One call; `seconds` is None for streams."""
        name = (face, method, code)
        self._answered[name] = self._answered.get(name, 0) + 1
        if seconds is not None:
            durations = self._seconds.get(name)
            if durations is None:
                durations = self._seconds[name] = Durations()
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
            PREFIX + "call_seconds",
            "How long unary calls took.",
            labels=["face", "method", "code"],
        )
        for name, durations in self._seconds.items():
            seconds.add_metric(name, durations.cumulative(), durations.total)
        rejections = CounterMetricFamily(
            PREFIX + "rejections",
            "Calls that were refused, by fixed reason.",
            labels=["face", "reason"],
        )
        for refused, count in self._refused.items():
            rejections.add_metric(refused, count)
        # There from the start: a series that begins with its first fault shows no rise.
        faults = CounterMetricFamily(
            PREFIX + "internal_errors", "Calls that met a fault of ours.", labels=["face"]
        )
        for face, code in FAULTS.items():
            count = sum(n for (on, _, of), n in self._answered.items() if (on, of) == (face, code))
            faults.add_metric([face], count)
        yield from (calls, seconds, rejections, faults)
