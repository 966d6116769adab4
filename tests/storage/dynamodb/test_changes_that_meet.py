"""What counts where writes of several replicas meet, fail, or come too late."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from global_discovery.domain.errors import StoreUnwritable
from global_discovery.domain.lease import Heartbeat
from global_discovery.domain.pool import PoolKey, Registration
from global_discovery.storage.dynamodb.api import Unreachable
from support.fake_dynamodb import FakeDynamoDB, Gate, passed
from support.replicas import Relay, World, a_content, listed

KEY = PoolKey("c1", "ns", "pool")


def key_of(number: int) -> PoolKey:
    return PoolKey("c1", "ns", f"pool-{number}")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.close()


async def test_of_changes_that_did_not_know_of_each_other_the_later_one_counts(
    world: World,
) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    await world.advance(1.25)
    for replica, model in ((b, "one"), (b, "two"), (a, "three")):
        relay.model = model
        assert await world.call(relay.beat(replica))
    await world.advance(1.25)
    assert listed(a) == listed(b) == {KEY: "three"}
    (item,) = table.of("s#")
    assert item["n"] == {"N": "4"}
    relay.model = "four"
    assert await world.call(relay.beat(a))
    assert table.of("s#")[0]["n"] == {"N": "5"}, "its number was told"
    await world.advance(1.25)
    assert listed(a) == listed(b) == {KEY: "four"}


async def test_a_change_of_relays_alone_gives_way_to_a_change_of_content(world: World) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    await world.advance(1.25)
    relay.model = "newer"
    assert await world.call(relay.beat(b))
    old = Registration(KEY, a_content("m"), ("ip:10.9.9.9",))
    with pytest.raises(StoreUnwritable):
        await world.call(a.registrar.register(Heartbeat(old, "10.0.0.1", "relay", relay.lease_id)))
    await world.advance(1.25)
    assert listed(b) == listed(a) == {KEY: "newer"}


@pytest.mark.parametrize("relays", [(), ("ip:10.9.9.9",)])
async def test_a_change_that_could_not_be_stored_is_stored_by_the_next_renewal(
    world: World, relays: tuple[str, ...]
) -> None:
    table = FakeDynamoDB()
    way = table.seen_through()
    a, b = await world.add(way, name="a"), await world.add(table, name="b")
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    await world.advance(1.25)

    async def cut(operation: str, request: Mapping[str, Any]) -> None:
        del request
        if operation in {"UpdateItem", "PutItem"}:
            raise Unreachable("cut")

    way.before = cut
    model = "m" if relays else "newer"
    changed = Registration(KEY, a_content(model), relays)
    heartbeat = Heartbeat(changed, "10.0.0.1", "relay", relay.lease_id)
    with pytest.raises(StoreUnwritable):
        await world.call(a.registrar.register(heartbeat))
    way.before = passed
    await world.call(a.registrar.register(heartbeat))
    await world.advance(1.25)
    assert listed(b) == {KEY: model}
    assert b.fold[KEY].relays == (relays or ("ip:10.0.0.1",))


@pytest.mark.parametrize("models", [("theirs",), ("theirs", "theirs again")])
async def test_a_change_that_could_not_be_stored_gives_way_to_one_that_was(
    world: World, models: tuple[str, ...]
) -> None:
    table = FakeDynamoDB()
    way = table.seen_through()
    a, b = await world.add(way, name="a"), await world.add(table, name="b")
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    await world.advance(1.25)

    async def cut(operation: str, request: Mapping[str, Any]) -> None:
        del request
        if operation in {"UpdateItem", "PutItem"}:
            raise Unreachable("cut")

    way.before = cut
    relay.model = "ours"
    assert not await world.call(relay.beat(a))
    for relay.model in models:
        assert await world.call(relay.beat(b))
    way.before = passed
    await world.advance(1.25)
    assert listed(a) == listed(b) == {KEY: models[-1]}
    assert await a.store.renew([relay.lease_id]) == []
    await world.advance(1.25)
    assert listed(a) == listed(b) == {KEY: models[-1]}


async def test_a_renewal_does_not_bring_an_older_content_back(world: World) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    await world.advance(1.25)
    relay.model = "newer"
    assert await world.call(relay.beat(b))
    assert await a.store.renew([relay.lease_id]) == []  # before it has read of the change
    a.clock.step_wall(6.5 * 86_400)  # and once more when the content is due to be touched
    assert await a.store.renew([relay.lease_id]) == []
    await world.advance(1.25)
    assert await a.store.renew([relay.lease_id]) == []
    await world.advance(1.25)
    assert listed(b) == listed(a) == {KEY: "newer"}
    assert [item["n"] for item in table.of("s#")] == [{"N": "2"}]


@pytest.mark.parametrize("noticed", [0.0, 2.5])
@pytest.mark.parametrize("who", ["a", "b"])
async def test_what_was_deleted_from_the_table_is_written_again_by_its_next_renewal(
    world: World, who: str, noticed: float
) -> None:
    table = FakeDynamoDB()
    replicas = {name: await world.add(table, name=name) for name in "ab"}
    relay = Relay(KEY)
    assert await world.call(relay.beat(replicas["a"]))
    await world.advance(2.5)  # the other one read it
    table.items.clear()
    await world.advance(noticed)
    here = replicas[who]
    assert (await world.call(here.registrar.renew([relay.lease_id]))).not_stored == []
    (again,) = table.of("s#")
    assert again["l"]["S"] == relay.lease_id
    late = await world.add(table, name="late")
    assert listed(late) == {KEY: "m"}, "its content is there again too"


async def test_a_table_that_is_away_for_long_and_returns_empty_is_filled_by_renewals(
    world: World,
) -> None:
    table = FakeDynamoDB()
    ways = [table.seen_through() for _ in "ab"]
    a, b = [await world.add(way, name=name) for way, name in zip(ways, "ab", strict=True)]
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    await world.advance(2.5)

    async def cut(operation: str, request: Mapping[str, Any]) -> None:
        raise Unreachable(f"{operation}: {len(request)}")

    for way in ways:
        way.before = cut
    for _ in range(60):
        await world.call(b.registrar.renew([relay.lease_id]))
        await world.advance(2)
    table.items.clear()
    for way in ways:
        way.before = passed
    await world.advance(2.5)
    assert (await world.call(b.registrar.renew([relay.lease_id]))).not_stored == []
    assert len(table.of("s#")) == 1


async def test_what_is_written_again_replaces_no_newer_incarnation(world: World) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    relay, legacy = Relay(KEY), Relay(KEY)
    assert await world.call(relay.beat(a))
    for gone in table.of("s#"):
        del table.items[gone["pk"]["S"], gone["sk"]["S"]]
    await world.advance(2.5)
    assert await world.call(legacy.beat(b))
    assert await a.store.renew([relay.lease_id]) == [relay.lease_id]
    assert [item["l"]["S"] for item in table.of("s#")] == [legacy.lease_id]


async def test_a_read_that_meets_a_change_being_written_here_casts_no_doubt(world: World) -> None:
    table = FakeDynamoDB()
    way = table.seen_through()
    a, b = await world.add(way, name="a"), await world.add(table, name="b")
    relay = Relay(KEY)
    assert await world.call(relay.beat(b))
    await world.advance(2.5)
    relay.model = "older"
    assert await world.call(relay.beat(b))
    gate = Gate(way, "BatchGetItem")
    refreshing = asyncio.create_task(a.store.refresh())
    await world.settle()
    assert gate.waiting == 1, "it asks for the older content"
    relay.model = "changed"
    assert await relay.beat(a)
    gate.open.set()
    await refreshing
    assert a.store.state().reasons == frozenset()
    await world.advance(2.5)
    assert listed(a) == listed(b) == {KEY: "changed"}
