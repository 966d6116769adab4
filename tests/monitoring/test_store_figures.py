"""What the stores tell of themselves, and how the calls to them are timed."""

from pathlib import Path

import pytest

from global_discovery.domain.clock import SystemClock
from global_discovery.domain.errors import StoreUnwritable
from global_discovery.serving.metrics.store import MeasuredStore
from global_discovery.storage.dynamodb.api import (
    ConditionFailed,
    Item,
    Refused,
    Throttled,
    Unreachable,
)
from global_discovery.storage.dynamodb.counting import CallCounts, CountedDynamoDB
from global_discovery.storage.memory import MemoryStore
from global_discovery.storage.sqlite.store import SqliteStore
from global_discovery.storage.store import Figure, StoredShare
from support.fake_dynamodb import FakeDynamoDB
from support.lease_world import a_seen_share


def by_name(figures: tuple[Figure, ...]) -> dict[str, dict[tuple[str, ...], float]]:
    return {figure.name: dict(figure.values) for figure in figures}


class KeepsNothing(MemoryStore):
    async def put(self, share: StoredShare) -> None:
        del share
        raise StoreUnwritable

    async def renew(self, lease_ids: object) -> tuple[str, ...]:
        del lease_ids
        return ("one of them",)


async def test_a_call_is_timed_under_what_became_of_it() -> None:
    store, failing = MeasuredStore(MemoryStore()), MeasuredStore(KeepsNothing())
    share = a_seen_share().share
    await store.put(share)
    await store.renew(["s1"])
    with pytest.raises(StoreUnwritable):
        await failing.put(share)
    assert list(await failing.renew(["s1"])) == ["one of them"]

    def counted(of: MeasuredStore) -> set[tuple[str, str]]:
        return {name for name, durations in of.durations.items() if sum(durations.counts)}

    assert counted(store) == {("put", "ok"), ("renew", "ok")}
    assert counted(failing) == {("put", "failed"), ("renew", "failed")}


async def test_sqlite_tells_what_is_kept_what_waits_and_what_was_written(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "pools.db", SystemClock())
    await store.open()
    store._keep(a_seen_share().share)
    before = by_name(tuple(store.figures()))
    assert (before["sqlite_shares"], before["sqlite_waiting"]) == ({(): 1}, {(): 2})
    await store.flush()
    after = by_name(tuple(store.figures()))
    assert (after["sqlite_shares"], after["sqlite_waiting"]) == ({(): 1}, {(): 0})
    assert after["sqlite_commits"] == {(): 1}
    assert after["sqlite_commit_seconds"][()] > 0
    await store.close()


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (None, "ok"),
        (ConditionFailed(None), "condition_failed"),
        (Throttled("ThrottlingException", "x"), "throttled"),
        (Refused("ValidationException", "x"), "refused"),
        (Unreachable("x"), "unreachable"),
    ],
)
async def test_each_attempt_at_dynamodb_is_counted(failure: Exception | None, outcome: str) -> None:
    class Fails(FakeDynamoDB):
        async def call(self, operation: str, request: object) -> dict[str, Item]:
            del operation, request
            if failure is not None:
                raise failure
            return {}

    counts = CallCounts()
    api = CountedDynamoDB(Fails(), counts)
    if failure is None:
        await api.call("Query", {})
    else:
        with pytest.raises(type(failure)):
            await api.call("Query", {})
    calls = by_name(tuple(counts.figures()))["dynamodb_calls"]
    assert calls.pop(("Query", outcome)) == 1
    assert len(calls) == 5
    assert not any(calls.values())
