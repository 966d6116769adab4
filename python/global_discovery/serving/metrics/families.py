"""Families of series, in the form that prometheus_client exposes."""

from bisect import bisect_left
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.utils import floatToGoString

PREFIX = "global_discovery_"
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class Durations:
    """A histogram of seconds: plain numbers, as there are no threads to lock out."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        """Empty."""
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(_BUCKETS, seconds)] += 1
        self.total += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """As HistogramMetricFamily takes them."""
        bounds = (*map(floatToGoString, _BUCKETS), "+Inf")
        return list(zip(bounds, accumulate(self.counts), strict=True))


def gauge(name: str, text: str, value: float | None, label: str = "") -> GaugeMetricFamily:
    """A gauge with its value, or with samples to be added under a label."""
    labels = [label] if label else None
    return GaugeMetricFamily(PREFIX + name, text, value=value, labels=labels)


def counter(name: str, text: str, value: float | None, label: str = "") -> CounterMetricFamily:
    """As `gauge`; its name is without `_total`."""
    labels = [label] if label else None
    return CounterMetricFamily(PREFIX + name, text, value=value, labels=labels)
