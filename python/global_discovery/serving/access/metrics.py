"""What `GET /metrics` shows of who may do what. No label names a caller."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from global_discovery.serving.access.guard import Guard
from global_discovery.serving.metrics import counter, gauge

_OUTCOMES = ("good", "bad", "failed")


class AccessCollector(Collector):
    """Reads the guard's own figures at each scrape; no series for what is not used."""

    def __init__(self, guard: Guard) -> None:
        """Reads only."""
        self._guard = guard

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        guard = self._guard
        denied = counter("access_denied", "Calls refused for who made them.", None, "reason")
        for reason, count in guard.denials.counts.items():
            denied.add_metric([reason], count)
        yield denied
        suppressed = guard.denials.suppressed
        yield counter("access_denied_untold", "Of them, those without a log line.", suppressed)
        rules = gauge("policy_rules", "Rules of the policy in force.", None)
        stale = gauge("policy_stale", "Whether the policy file cannot be used.", None)
        files = counter("policy_files", "New policies, by what became of them.", None, "outcome")
        if guard.policy is not None:
            rules.add_metric([], guard.policy.rules)
            stale.add_metric([], guard.policy.stale)
            files.add_metric(["taken"], guard.policy.taken)
            files.add_metric(["refused"], guard.policy.refused)
        yield from (rules, stale, files)
        reviews = counter("token_reviews", "Tokens reviewed, by outcome.", None, "outcome")
        known = gauge("tokens_known", "Tokens that are known to be good.", None)
        failing = gauge("token_reviews_failing", "API servers that do not review tokens.", None)
        if guard.tokens is not None:
            for outcome in _OUTCOMES:
                reviews.add_metric([outcome], guard.tokens.reviews.outcomes[outcome])
            known.add_metric([], guard.tokens.known)
            failing.add_metric([], guard.tokens.reviews.failing)
        yield from (reviews, known, failing)
