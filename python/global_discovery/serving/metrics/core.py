"""The lists, the leases, the watchers, and how far all of it can be trusted."""

from collections.abc import Iterator
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from global_discovery.domain.completeness import Mark, Reason
from global_discovery.serving.core import Core
from global_discovery.serving.metrics.families import counter, gauge
from global_discovery.serving.metrics.loop import LoopLag
from global_discovery.sources.joined.join import JoinedPools
from global_discovery.sources.registered.registrations import Registrations
from global_discovery.view.fanout import FanOut
from global_discovery.view.view import View


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
        core.routers.refresh()
        mark = core.pools.mark
        yield gauge("pools", "Pools in the view.", len(core.pools))
        yield gauge("routers", "Routers in the view.", len(core.routers))
        yield from _view("view", "pool", core.pools)
        yield gauge("view_bound_seconds", "The pool view's bound.", mark.bound)
        yield from _view("routers_view", "router", core.routers)
        yield from _registrations(core.registrations)
        state = core.store_state()
        yield gauge("store_failing", "Whether the store fails to read or write.", state.failing)
        yield counter("store_failures", "Times it began to fail.", state.failures)
        yield from self._lag.families()
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


def _view(name: str, of: str, view: View[Any]) -> Iterator[Metric]:
    yield gauge(f"{name}_position", f"Position of the {of} view.", view.sequence)
    yield gauge(f"{name}_history", "Changes kept for resuming.", view.history)
    yield gauge(f"{name}_exact", f"Whether the {of} view is exact.", view.mark.exact)
    reasons = gauge(f"{name}_estimated", f"Why the {of} view is estimated.", None, "reason")
    for reason in Reason:
        reasons.add_metric([reason.value], float(reason in view.mark.reasons))
    yield reasons


def _registrations(registered: Registrations) -> Iterator[Metric]:
    counters = registered.counters
    yield gauge("registered_pools", "Pools with a live share.", len(registered))
    yield gauge("live_shares", "Shares inside their lease.", registered.shares)
    leases = gauge("leases", "Leases that run, by how they do.", None, "state")
    for state, count in registered.leases().items():
        leases.add_metric([state.value], count)
    yield leases
    # There is no sample before the first heartbeat: no age would be right.
    age = gauge("heartbeat_age_seconds", "Since the last registration or renewal heard.", None)
    if (seconds := registered.heartbeat_age) is not None:
        age.add_metric([], seconds)
    yield age
    yield counter("registrations", "Shares that began.", counters.registrations)
    yield counter("renewals", "Leases granted or renewed.", counters.renewals)
    yield counter("withdrawals", "Shares withdrawn.", counters.withdrawals)
    yield counter("lapses", "Shares whose lease ended.", counters.lapses)
    yield counter("lease_extensions", "Leases extended by us.", counters.extensions)
    yield counter("restored_shares", "Shares restored at the start.", counters.restored)
    yield counter("stalls", "Times the process could not listen.", counters.stalls)
    yield counter("mass_lapses", "Mass lapses.", counters.mass_lapses)


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
