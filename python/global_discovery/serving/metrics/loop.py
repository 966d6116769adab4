"""How late the event loop runs what is due: what every caller waits for."""

from collections.abc import Iterator

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from global_discovery.serving.metrics.families import PREFIX, Durations, gauge


class LoopLag:
    """Late wake-ups of a task that sleeps ten times a second."""

    def __init__(self) -> None:
        """Nothing seen yet."""
        self.largest = 0.0
        self._seen = Durations()

    def seen(self, seconds: float) -> None:
        """One wake-up that came so late, in seconds."""
        late = max(seconds, 0.0)
        self.largest = max(self.largest, late)
        self._seen.add(late)

    def families(self) -> Iterator[Metric]:
        """What is shown of it."""
        lag = HistogramMetricFamily(
            PREFIX + "loop_lag_seconds", "How late the event loop ran what was due."
        )
        lag.add_metric([], self._seen.cumulative(), self._seen.total)
        yield lag
        yield gauge("loop_lag_max_seconds", "The largest lag since the start.", self.largest)
