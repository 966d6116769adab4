"""Counts the calls to DynamoDB, by operation and outcome: what is throttled, what fails."""

from collections import Counter
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

from global_discovery.storage.dynamodb.api import (
    CallFailed,
    ConditionFailed,
    DynamoDB,
    Refused,
    Throttled,
)
from global_discovery.storage.store import Figure, FigureKind

_FAILURES = {
    ConditionFailed: "condition_failed",
    Refused: "refused",
    Throttled: "throttled",
}
OUTCOMES = ("ok", *_FAILURES.values(), "unreachable", "cancelled")


class CallCounts:
    """The figures of one process, whatever becomes of its connections."""

    def __init__(self) -> None:
        """Nothing was called yet."""
        self._calls: Counter[tuple[str, ...]] = Counter()
        self._seconds: dict[tuple[str, ...], float] = {}

    def add(self, operation: str, outcome: str, seconds: float) -> None:
        """One attempt."""
        if (operation,) not in self._seconds:  # a rise from nothing is no rise to Prometheus
            self._calls.update({(operation, each): 0 for each in OUTCOMES})
        self._calls[operation, outcome] += 1
        self._seconds[operation,] = self._seconds.get((operation,), 0.0) + seconds

    def figures(self) -> Sequence[Figure]:
        """Counts and time, by operation."""
        counter = FigureKind.COUNTER
        return (
            Figure(
                "dynamodb_calls",
                "Calls to DynamoDB, each attempt.",
                counter,
                self._calls,
                ("operation", "outcome"),
            ),
            Figure(
                "dynamodb_call_seconds",
                "Spent waiting for DynamoDB.",
                counter,
                self._seconds,
                ("operation",),
            ),
        )


class CountedDynamoDB:
    """One region's endpoint, counted."""

    def __init__(self, api: DynamoDB, counts: CallCounts) -> None:
        """Passes every call on to `api`."""
        self._api = api
        self._counts = counts
        self.region = api.region

    async def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """See DynamoDB."""
        began = perf_counter()
        outcome = "cancelled"
        try:
            answer = await self._api.call(operation, request)
            outcome = "ok"
            return answer
        except CallFailed as failure:
            outcome = _FAILURES.get(type(failure), "unreachable")
            raise
        finally:
            self._counts.add(operation, outcome, perf_counter() - began)

    async def close(self) -> None:
        """See DynamoDB."""
        await self._api.close()
