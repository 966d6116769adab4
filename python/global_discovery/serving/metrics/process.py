"""What runs here: the version, the mode, the lease, and the process as Linux sees it."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from global_discovery.serving.core import Core
from global_discovery.serving.metrics.families import PREFIX, gauge
from global_discovery.serving.readiness import Readiness


class InstanceCollector(Collector):
    """What an instance is, and whether it is ready.

    Which instance it is, is for the scraper to say: an id that is new with each
    start would make each restart a set of new series.
    """

    def __init__(self, core: Core, readiness: Readiness) -> None:
        """Reads only."""
        self._readiness = readiness
        settings = core.settings
        self._terms = settings.terms
        self._build = {"version": settings.version}
        self._configuration = {
            "pool_discovery": settings.pool_discovery,
            "registration_storage": core.storage,
        }

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        build = InfoMetricFamily(PREFIX + "build", "The version that runs.")
        build.add_metric([], self._build)
        configuration = InfoMetricFamily(
            PREFIX + "configuration", "Where lists come from and where registrations are kept."
        )
        configuration.add_metric([], self._configuration)
        yield from (build, configuration)
        yield gauge("ready", "Whether it takes calls, as /readyz says.", self._readiness.ready())
        lease, interval = self._terms.lease_duration, self._terms.heartbeat_interval
        yield gauge("lease_duration_seconds", "The lease that is granted.", lease)
        yield gauge("heartbeat_interval_seconds", "How often relays renew it.", interval)


def register_process(registry: CollectorRegistry) -> None:
    """Adds the `process_*` series: memory, processor, open files, the start."""
    ProcessCollector(registry=registry)
