"""Which calls are made, how many at a time, and what becomes of those that fail."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from global_discovery.domain.errors import StoreUnwritable
from global_discovery.domain.events import ignore
from global_discovery.domain.lease import Withdrawal
from global_discovery.domain.pool import PoolKey
from global_discovery.storage.dynamodb.api import Throttled, Unreachable
from global_discovery.storage.dynamodb.items import partition_of
from global_discovery.storage.dynamodb.retrying import LONGEST_DELAY_SECONDS, Retrying
from global_discovery.storage.dynamodb.store import DynamoDBStore
from support.clock import FakeClock
from support.fake_dynamodb import FakeDynamoDB, Gate, passed
from support.replicas import TERMS, Relay, World, listed

KEY = PoolKey("c1", "ns", "pool")


def key_of(number: int) -> PoolKey:
    return PoolKey("c1", "ns", f"pool-{number}")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.close()


async def test_renewals_that_come_while_one_is_written_are_answered_by_one_more(
    world: World,
) -> None:
    table = FakeDynamoDB()
    way = table.seen_through()
    a = await world.add(way, name="a")
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    gate = Gate(way, "UpdateItem")
    calls = [asyncio.create_task(a.store.renew([relay.lease_id])) for _ in range(10)]
    await world.settle()
    assert gate.waiting == 1
    gate.open.set()
    assert [list(result) for result in await asyncio.gather(*calls)] == [[]] * 10
    (item,) = table.of("s#")
    assert item["c"] == {"N": "3"}, "the registration and two renewals"


async def test_many_renewals_are_written_some_at_a_time(world: World) -> None:
    table = FakeDynamoDB()
    way = table.seen_through()
    a = await world.add(way, name="a")
    relays = [Relay(key_of(number)) for number in range(150)]
    for relay in relays:
        assert await world.call(relay.beat(a))
    gate = Gate(way, "UpdateItem")
    renewing = asyncio.create_task(a.store.renew([relay.lease_id for relay in relays]))
    await world.settle()
    assert gate.waiting == 64
    gate.open.set()
    assert await renewing == []
    assert gate.most == 64
    assert {item["c"]["N"] for item in table.of("s#")} == {"2"}


async def test_while_writing_fails_few_calls_try_and_the_others_are_refused_at_once(
    world: World,
) -> None:
    table = FakeDynamoDB()
    way = table.seen_through()
    a = await world.add(way, name="a")
    relays = [Relay(key_of(number)) for number in range(20)]
    for relay in relays:
        assert await world.call(relay.beat(a))

    async def cut(operation: str, request: Mapping[str, Any]) -> None:
        del request
        if operation == "UpdateItem":
            raise Unreachable("cut")

    way.before = cut
    assert not await world.call(relays[0].beat(a))
    assert a.store.state().failing
    gate = Gate(way, "UpdateItem")
    calls = [asyncio.create_task(a.store.renew([relay.lease_id])) for relay in relays]
    await world.settle()
    assert gate.waiting == 4
    assert sum(call.done() for call in calls) == 16
    gate.open.set()
    kept = [not await call for call in calls]
    assert sum(kept) == 4
    assert await a.store.renew([relay.lease_id for relay in relays]) == []


async def test_several_shares_are_withdrawn_by_one_transaction_or_not_at_all(
    world: World,
) -> None:
    table = FakeDynamoDB()
    way = table.seen_through()
    a = await world.add(way, name="a")
    for number in range(3):
        assert await world.call(Relay(KEY, relay_id=f"r{number}").beat(a))
    everything = Withdrawal(KEY, "10.0.0.1", all_shares=True)

    async def cut(operation: str, request: Mapping[str, Any]) -> None:
        del request
        if operation == "TransactWriteItems":
            raise Throttled("TransactionCanceledException", "conflict")

    way.before = cut
    with pytest.raises(StoreUnwritable):
        await world.call(a.registrar.withdraw(everything))
    assert listed(a) == {KEY: "m"}
    assert table.of("d#") == []
    table.calls.clear()
    way.before = passed
    assert await world.call(a.registrar.withdraw(everything)) == 3
    assert Counter(name for name, _ in table.calls)["TransactWriteItems"] == 1
    assert len(table.of("d#")) == 3
    assert listed(a) == {}


async def test_a_lease_that_nobody_knows_cannot_be_withdrawn(world: World) -> None:
    a = await world.add(FakeDynamoDB(), name="a")
    with pytest.raises(StoreUnwritable):
        await a.store.withdraw(["unknown"], remember=150.0)


async def test_a_pool_is_asked_for_at_no_cost_while_reading_fails(world: World) -> None:
    table = FakeDynamoDB()
    way = table.seen_through()
    a = await world.add(way, name="a")

    async def cut(operation: str, request: Mapping[str, Any]) -> None:
        del operation, request
        raise Unreachable("cut")

    way.before = cut
    await world.advance(7)
    assert a.store.state().failing
    calls = way.count
    with pytest.raises(StoreUnwritable):
        await a.store.consult(KEY, ["id"])
    assert way.count == calls


async def test_news_whose_content_could_not_be_read_is_told_by_the_next_read(
    world: World,
) -> None:
    table = FakeDynamoDB()
    way = table.seen_through()
    a = await world.add(table, name="a")
    b = await world.add(way, name="b")
    await world.advance(31)

    async def cut(operation: str, request: Mapping[str, Any]) -> None:
        del request
        if operation == "BatchGetItem":
            raise Unreachable("cut")

    way.before = cut
    assert await world.call(Relay(KEY).beat(a))
    await world.advance(7)
    assert listed(b) == {}
    assert b.reasons == {"STORE_UNREADABLE"}
    way.before = passed
    await world.advance(2)
    assert listed(b) == {KEY: "m"}


async def test_a_consultation_that_failed_halfway_hides_nothing(world: World) -> None:
    table = FakeDynamoDB()
    way = table.seen_through()
    a = await world.add(table, name="a")
    b = await world.add(way, name="b")
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))

    async def cut(operation: str, request: Mapping[str, Any]) -> None:
        del request
        if operation == "BatchGetItem":
            raise Unreachable("cut")

    way.before = cut
    consulting = b.store.consult(KEY, [])
    with pytest.raises(StoreUnwritable):
        await world.call(consulting)
    way.before = passed
    await world.advance(1.25)
    assert listed(b) == {KEY: "m"}


async def test_a_consultation_finds_no_share_that_was_withdrawn(world: World) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    gone, stays = Relay(KEY, relay_id="gone"), Relay(KEY, relay_id="stays")
    assert await world.call(stays.beat(a))
    gone.model = "withdrawn"
    assert await world.call(gone.beat(a))
    assert await world.call(gone.withdraw(a))
    assert await world.call(stays.beat(b))
    assert listed(b) == {KEY: "m"}
    assert b.registrations.shares == 1


async def test_a_page_that_is_older_than_ones_own_write_is_not_believed(world: World) -> None:
    table = FakeDynamoDB()
    way = table.seen_through()
    b = await world.add(table, name="b")
    relay = Relay(KEY)
    assert await world.call(relay.beat(b))
    a = await world.add(way, name="a")
    held = asyncio.Event()

    async def hold(operation: str, request: Mapping[str, Any]) -> None:
        if operation == "Query" and partition_of(KEY) in str(request):
            await held.wait()

    way.after = hold
    refreshing = asyncio.create_task(a.store.refresh())
    await world.settle()
    a.clock.advance(0.1)
    assert await a.store.renew([relay.lease_id]) == []
    held.set()
    await refreshing
    table.calls.clear()
    a.clock.advance(1)
    assert await a.store.renew([relay.lease_id]) == []
    assert [name for name, _ in table.calls] == ["UpdateItem"], "no conflict to resolve"


async def test_a_call_whose_caller_went_away_does_not_stand_for_the_next_one(
    world: World,
) -> None:
    table = FakeDynamoDB()
    way = table.seen_through()
    a = await world.add(way, name="a")
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    never = asyncio.Event()

    async def hold(operation: str, request: Mapping[str, Any]) -> None:
        del request
        if operation == "UpdateItem":
            await never.wait()

    way.after = hold
    abandoned = asyncio.create_task(a.store.renew([relay.lease_id]))
    await world.settle()
    abandoned.cancel()
    await asyncio.wait([abandoned])
    way.after = passed
    a.clock.advance(5)
    assert await a.store.renew([relay.lease_id]) == []
    (item,) = table.of("s#")
    assert item["c"] == {"N": "3"}, "what was answered was written"


@pytest.mark.parametrize("model", ["m", "other"])
async def test_an_older_incarnation_does_not_replace_a_newer_one(world: World, model: str) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    older, newer = Relay(KEY), Relay(KEY)
    assert await world.call(older.beat(a))
    await world.advance(1.25)
    assert await world.call(newer.beat(b))  # without an id, so the older one is unknown from now
    older.model = model
    assert not await world.call(older.beat(a)), "before it has read of the newer one"
    (item,) = table.of("s#")
    assert item["l"] == {"S": newer.lease_id}
    assert await a.store.renew([older.lease_id]) == [older.lease_id]
    await world.advance(1.25)
    assert (await a.registrar.renew([older.lease_id, newer.lease_id])).unknown == [older.lease_id]


async def test_a_withdrawn_id_is_refused_although_a_newer_one_is_there(world: World) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    old = relay.lease_id
    assert await world.call(relay.withdraw(a))
    assert await world.call(relay.beat(a))
    late = Relay(KEY)
    late.lease_id = old
    assert not await world.call(late.beat(b))
    assert late.lease_id == "", "it was told that the lease was withdrawn"
    await world.advance(1.25)
    assert listed(b) == {KEY: "m"}


async def test_other_work_goes_on_between_pages(world: World) -> None:
    table = FakeDynamoDB(page=5)
    way = table.seen_through()
    a = await world.add(table, name="a")
    for number in range(300):
        assert await world.call(Relay(key_of(number)).beat(a))
    b = await world.add(way, name="b")
    turns = 0
    between: list[int] = []

    async def note(operation: str, request: Mapping[str, Any]) -> None:
        del request
        if operation == "Query":
            between.append(turns)

    way.before = note
    refreshing = asyncio.create_task(b.store.refresh())
    while not refreshing.done():
        await asyncio.sleep(0)
        turns += 1
    assert len(between) >= 60
    assert max(Counter(between).values()) <= 4, "a turn handles no more than a page a partition"


async def test_contents_that_come_in_part_are_asked_for_again(world: World) -> None:
    table = FakeDynamoDB()
    a = await world.add(table, name="a")
    for number in range(40):
        assert await world.call(Relay(key_of(number)).beat(a))
    table.page = 1
    b = await world.add(table, name="b")
    await world.advance(5)
    assert len(listed(b)) == 40


async def test_a_beacon_on_its_way_does_not_arrive_after_it_was_deleted(world: World) -> None:
    table = FakeDynamoDB()
    way = table.seen_through()
    a = await world.add(way, name="a")
    gate = Gate(way, "PutItem")
    await world.advance(6)
    assert gate.waiting == 1
    stopping = asyncio.create_task(a.stop())
    await world.settle()
    assert not stopping.done()
    gate.open.set()
    await stopping
    assert not [key for key in table.items if key[0] == "beacons"]


async def test_close_says_nothing_to_a_table_that_was_never_reached() -> None:
    async def connect() -> FakeDynamoDB:
        raise OSError("no credentials")

    store = DynamoDBStore(
        connect=connect,
        table="t",
        terms=TERMS,
        clock=FakeClock(),
        report=ignore,
    )
    with pytest.raises(OSError, match="no credentials"):
        await store.open()
    await store.close()


async def test_a_call_is_repeated_with_longer_and_longer_pauses_until_its_time_is_up() -> None:
    clock = FakeClock()
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock.advance(seconds)

    async def refuse(operation: str, request: Mapping[str, Any]) -> None:
        del operation, request
        raise Throttled("ThrottlingException", "slow down")

    way = FakeDynamoDB().seen_through(before=refuse)
    calls = Retrying(way, clock, sleep)
    until = clock.monotonic() + 20
    with pytest.raises(Throttled):
        await calls.call("Query", {}, until=until)
    assert clock.monotonic() < until
    assert way.count == len(pauses) + 1
    assert pauses[0] <= 0.05
    assert all(p >= q / 4 for q, p in itertools.pairwise(pauses))
    assert 0.5 * LONGEST_DELAY_SECONDS <= max(pauses) <= LONGEST_DELAY_SECONDS
    assert len(set(pauses)) == len(pauses), "no two instances repeat in step"
