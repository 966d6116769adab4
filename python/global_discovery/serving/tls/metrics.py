"""What `GET /metrics` shows of TLS."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from global_discovery.serving.metrics import PREFIX
from global_discovery.serving.tls.keeper import TlsKeeper


class TlsCollector(Collector):
    """Reads the keeper's figures at each scrape; shows no series without one."""

    def __init__(self, keeper: TlsKeeper | None, wall: Callable[[], float]) -> None:
        """`wall` is in seconds since the epoch."""
        self._keeper = keeper
        self._wall = wall

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        expiry = GaugeMetricFamily(
            PREFIX + "tls_expires_in_seconds",
            "Until the certificate in use expires; negative afterwards.",
            labels=["certificate"],
        )
        looks = CounterMetricFamily(
            PREFIX + "tls_files", "New TLS files, by what became of them.", labels=["outcome"]
        )
        keeper = self._keeper
        if keeper is not None:
            for name, held in (("server", keeper.certificate), ("client_ca", keeper.client_ca)):
                if held is not None:
                    expiry.add_metric([name], held.not_after - self._wall())
            looks.add_metric(["taken"], keeper.taken)
            looks.add_metric(["refused"], keeper.refused)
        yield from (expiry, looks)
