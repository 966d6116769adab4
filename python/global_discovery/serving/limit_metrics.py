"""The metrics of the limits: what is allowed, what is used, what was refused."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from global_discovery.domain.limits import Limit
from global_discovery.serving.core import Core
from global_discovery.serving.metrics import counter, gauge
from global_discovery.serving.rest.open_connections import OpenConnections


class LimitCollector(Collector):
    """Reads them at each scrape. Limits of rates have no figure of what is used."""

    def __init__(self, core: Core, connections: OpenConnections) -> None:
        """Reads only."""
        self._core = core
        self._connections = connections

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        core, open_ = self._core, self._connections
        allowed, seats = core.limits.allowed, core.limits.seats
        registrations = allowed.registrations
        figures = {
            Limit.POOLS: (len(core.registrations), registrations.pools),
            Limit.SHARES: (core.registrations.shares, registrations.shares),
            Limit.WATCHERS: (len(seats), allowed.watchers),
            Limit.WATCHERS_OF_ONE: (seats.most_of_one, allowed.watchers_per_caller),
            Limit.HTTP_CONNECTIONS: (len(open_), allowed.http_connections),
            Limit.HTTP_CONNECTIONS_OF_ONE: (
                open_.most_of_one,
                allowed.http_connections_per_caller,
            ),
        }
        limits = gauge("limit", "How much is allowed.", None, "limit")
        used = gauge("limit_used", "How much of it is used.", None, "limit")
        for limit, (now, most) in figures.items():
            limits.add_metric([limit.value], most)
            used.add_metric([limit.value], now)
        refusals = counter("limit_refusals", "What was refused for a limit.", None, "limit")
        for limit, count in core.limits.refusals.items():
            refusals.add_metric([limit.value], count)
        yield from (limits, used, refusals)
        yield gauge(
            "calls_waiting",
            "Calls that wait for their caller's turn.",
            len(core.turns) + len(core.portions),
        )
