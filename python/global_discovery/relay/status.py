"""How a relay stands, as its `/health` and its `/metrics` tell it.

No lease id and nothing secret is in either.
"""

from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from global_discovery.client.errors import causes
from global_discovery.client.topology import UnregisteredReason
from global_discovery.relay.about import MISMATCH
from global_discovery.relay.relay import Relay

PREFIX = "global_discovery_relay_"


def health_document(relay: Relay) -> dict[str, Any]:
    """The JSON of `/health`."""
    return {
        "healthy": relay.healthy,
        "routing_pool_unregistered_reason": relay.unregistered_reason,
        "pool": relay.settings.pool._asdict(),
        "cluster": {
            "property": relay.cluster.property,
            "reason": MISMATCH if relay.cluster.mismatch else None,
        },
        "relay_id": relay.settings.relay_id,
        "model": relay.topology.choice.model,
        "model_server": _model_server(relay),
        "lease": _lease(relay),
    }


def _model_server(relay: Relay) -> dict[str, Any]:
    poll = relay.last_poll
    error = None if poll is None else poll.error
    return {
        "ready": relay.ready,
        "models": sorted({entry.name for entry in relay.topology.models if not entry.parent}),
        "last_good_poll_secs_ago": _ago(relay, relay.last_good_poll),
        "last_error": None if error is None else list(causes(error)),
    }


def _lease(relay: Relay) -> dict[str, Any]:
    state = relay.heartbeat
    lease = state.lease
    next_attempt = state.next_attempt
    return {
        "server": state.server,
        "duration_secs": None if lease is None else lease.seconds,
        "heartbeat_interval_secs": None if lease is None else lease.heartbeat_seconds,
        "expires_in_secs": None if lease is None else round(relay.lease_left, 3),
        "can_withdraw": state.can_withdraw,
        "failing": state.failing,
        "last_success_secs_ago": _ago(relay, state.last_success),
        "next_attempt_in_secs": None
        if next_attempt is None
        else max(0.0, -_ago_of(relay, next_attempt)),
        "last_error": None if state.last_error is None else list(causes(state.last_error)),
    }


def _ago(relay: Relay, moment: float | None) -> float | None:
    return None if moment is None else _ago_of(relay, moment)


def _ago_of(relay: Relay, moment: float) -> float:
    return round(relay.timer.now() - moment, 3)


class RelayCollector(Collector):
    """The metrics, read from the relay when they are asked for."""

    def __init__(self, relay: Relay) -> None:
        """One relay, one process."""
        self._relay = relay

    def collect(self) -> Iterator[Metric]:
        """All families, always; labels come from fixed sets."""
        relay, counters = self._relay, self._relay.counters
        reason = relay.unregistered_reason
        yield _gauge("registered", "Whether the pool is registered.", reason is None)
        unregistered = GaugeMetricFamily(
            PREFIX + "unregistered", "Why it is not registered.", labels=["reason"]
        )
        for known in UnregisteredReason:
            unregistered.add_metric([known.value.replace(" ", "_")], float(known is reason))
        yield unregistered
        yield _gauge("lease_remaining_seconds", "Until the lease ends.", relay.lease_left)
        yield _gauge("model_server_ready", "Whether its health URL answers 2xx.", relay.ready)
        yield _gauge(
            "cluster_id_mismatch",
            "Whether the cluster calls itself by another name.",
            relay.cluster.mismatch,
        )
        yield _outcomes(
            "heartbeat_calls",
            "Registrations and renewals.",
            counters.good_calls,
            counters.failed_calls,
        )
        yield _outcomes(
            "model_server_polls",
            "Polls of the model server.",
            counters.good_polls,
            counters.failed_polls,
        )


def _gauge(name: str, what: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, what, value=float(value))


def _outcomes(name: str, what: str, good: int, failed: int) -> Metric:
    family = CounterMetricFamily(PREFIX + name, what, labels=["outcome"])
    family.add_metric(["ok"], good)
    family.add_metric(["failed"], failed)
    return family
