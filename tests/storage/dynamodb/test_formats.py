"""Items of this format and of a later one, side by side; and how large they may be."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from global_discovery.domain.events import Event
from global_discovery.domain.pool import Content, Location, PoolKey
from global_discovery.storage.dynamodb.api import Item
from global_discovery.storage.dynamodb.items import (
    PARTITIONS,
    Place,
    Renewal,
    partition_of,
    place_of,
    read_content,
    read_renewal,
    texts_of,
    update_of,
)
from global_discovery.storage.store import StoredShare
from support.fake_dynamodb import FakeDynamoDB
from support.replicas import Relay, World, listed

KEY = PoolKey("c1", "ns", "pool")
LONG = "x" * 253


def a_share(key: PoolKey = KEY, **changes: Any) -> StoredShare:
    share = StoredShare(
        key=key,
        identity=("relay_id", "relay"),
        lease_id="lease",
        granted=15.0,
        number=1,
        content=Content("m", Location("r1")),
        relays=("ip:10.0.0.1",),
    )
    return share._replace(**changes)


def size_of(item: Item) -> int:
    """As DynamoDB counts: names and strings in UTF-8, numbers two digits a byte and one more."""
    size = 0
    for name, ((kind, value),) in ((name, list(v.items())) for name, v in item.items()):
        digits = value.replace("-", "").replace(".", "").strip("0")
        size += len(name) + (len(value.encode()) if kind == "S" else len(digits) // 2 + 2)
    return size


async def test_the_largest_renewal_item_has_at_most_300_bytes() -> None:
    place = place_of(PoolKey(LONG, LONG, LONG), ("relays", LONG))
    renewal = Renewal(
        lease_id="l" * 64,
        granted=86_400.0,
        counter=str(10**15),
        writer="w" * 12,
        content_hash="h" * 22,
        number=10**9,
        renewed_time=4e9 + 0.1,
        registered_time=4e9 + 0.1,
    )
    table = FakeDynamoDB()
    await table.call("UpdateItem", update_of("t", place, renewal, old=None, expires_at=5 * 10**9))
    (item,) = table.items.values()
    assert size_of(item) <= 300


def test_partitions_spread() -> None:
    counts = dict.fromkeys(PARTITIONS, 0)
    for number in range(16_000):
        counts[partition_of(PoolKey("c1", "ns", f"pool-{number:06}"))] += 1
    assert min(counts.values()) > 850
    assert max(counts.values()) < 1150


def test_shares_of_one_pool_lie_together_and_apart() -> None:
    places = {place_of(KEY, ("relay_id", f"r{n}")) for n in range(100)}
    assert len(places) == 100
    assert {place.pk for place in places} == {partition_of(KEY)}
    assert len({place.sk.rpartition("#")[0] for place in places}) == 1


def test_names_are_the_ones_that_every_version_uses() -> None:
    share = a_share()
    assert place_of(KEY, share.identity) == Place(
        "r#09", "s#k1W841L7AsQ1Wf1pepu2FQ#uRh451pjFfoRKVobNZ4YrQ"
    )
    texts = texts_of(share)
    assert texts.owner == (
        '{"key":["c1","ns","pool"],"identity":["relay_id","relay"],"relays":["ip:10.0.0.1"]}'
    )
    assert texts.content == '{"model":"m","region":"r1"}'
    assert texts.content_hash == "Jq6jxytqJN0TNVC-YC9-Xw"


@pytest.mark.parametrize("name", ["l", "g", "c", "w", "h", "n", "t", "r"])
async def test_a_renewal_item_without_an_attribute_of_every_format_is_passed_over_and_told(
    world: World, name: str
) -> None:
    table = FakeDynamoDB()
    a = await world.add(table, name="a")
    assert await world.call(Relay(KEY).beat(a))
    other = PoolKey("c1", "ns", "other")
    assert await world.call(Relay(other).beat(a))
    damaged = table.items[place_of(KEY, ("relay_id", "relay"))]
    del damaged[name]
    b = await world.add(table, name="b")
    await world.advance(2)
    assert listed(b) == {other: "m"}
    assert [e for e, _ in b.events].count(Event.STORED_ITEM_UNREADABLE) == 1
    await world.advance(31)
    assert b.exact


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.close()


def as_the_next_version(table: FakeDynamoDB) -> None:
    """Marks every item and says more in each than this version knows."""
    for item in table.items.values():
        item["v"] = {"N": "2"}
        item["zz"] = {"M": {"deep": {"L": [{"N": "1"}]}}}
        if "j" in item:
            item["j"]["S"] = item["j"]["S"][:-1] + ',"labels":{"a":"b"}}'
            item["o"]["S"] = item["o"]["S"][:-1] + ',"tenant":"x"}'


@pytest.mark.parametrize("name", ["h", "l"])
@pytest.mark.parametrize("value", ["", "x" * 3000])
async def test_a_name_that_is_no_part_of_a_key_costs_its_share_and_no_other(
    world: World, name: str, value: str
) -> None:
    table = FakeDynamoDB()
    a = await world.add(table, name="a")
    assert await world.call(Relay(KEY).beat(a))
    other = PoolKey("c1", "ns", "other")
    assert await world.call(Relay(other).beat(a))
    table.items[place_of(KEY, ("relay_id", "relay"))][name] = {"S": value}
    b = await world.add(table, name="b")
    await world.advance(2)
    assert listed(b) == {other: "m"}
    assert [e for e, _ in b.events].count(Event.STORED_ITEM_UNREADABLE) == 1


async def test_what_a_later_version_stored_is_listed_renewed_and_kept(world: World) -> None:
    table = FakeDynamoDB()
    a = await world.add(table, name="a")
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    await a.kill()
    as_the_next_version(table)
    lease = relay.lease_id
    b = await world.add(table, name="b")
    assert listed(b) == {KEY: "m"}
    for _ in range(3):
        await world.advance(5)
        assert await world.call(relay.beat(b))
    assert relay.lease_id == lease
    (renewal,) = table.of("s#")
    assert renewal["zz"] == {"M": {"deep": {"L": [{"N": "1"}]}}}
    assert renewal["v"] == {"N": "2"}
    (content,) = table.of("c")
    assert '"labels"' in content["j"]["S"], "the same content is not written over"


async def test_a_new_content_does_not_destroy_that_of_a_later_version(world: World) -> None:
    table = FakeDynamoDB()
    a = await world.add(table, name="a")
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    await a.kill()
    as_the_next_version(table)
    b = await world.add(table, name="b")
    relay.model = "other"
    assert await world.call(relay.beat(b))
    (renewal,) = table.of("s#")
    assert "zz" in renewal
    contents = table.of("c")
    assert len(contents) == 2
    assert sum('"labels"' in content["j"]["S"] for content in contents) == 1
    assert listed(b) == {KEY: "other"}


async def test_tombstones_and_kinds_of_a_later_version_are_understood_or_left_alone(
    world: World,
) -> None:
    table = FakeDynamoDB()
    a = await world.add(table, name="a")
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    lease = relay.lease_id
    assert await world.call(relay.withdraw(a))
    await a.kill()
    as_the_next_version(table)
    strange = {"pk": {"S": partition_of(KEY)}, "sk": {"S": "q#later"}, "zz": {"S": "?"}}
    await table.call("PutItem", {"Item": strange})
    b = await world.add(table, name="b")
    relay.lease_id = lease
    assert not await world.call(relay.beat(b))
    await world.advance(31)
    assert b.exact
    assert Event.STORED_ITEM_UNREADABLE not in [event for event, _ in b.events]
    assert table.of("q#") == [strange]


async def test_a_content_that_cannot_be_read_makes_the_view_estimated_while_its_lease_runs(
    world: World,
) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    await world.advance(31)
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    (content,) = table.of("c")
    content["j"]["S"] = "{}"
    await world.advance(3)
    assert listed(b) == {}
    assert b.reasons == {"STORE_UNREADABLE"}
    assert [e for e, _ in b.events].count(Event.STORED_ITEM_UNREADABLE) == 1
    other = Relay(PoolKey("c1", "ns", "other"))
    assert await world.call(other.beat(a))
    assert await world.call(other.beat(b)), "others can still be asked for and withdrawn"
    assert await world.call(other.withdraw(b))
    await world.advance(15 + 15)
    assert b.exact, "nobody renewed it"


async def test_the_content_of_another_share_is_not_taken_for_ones_own(world: World) -> None:
    table = FakeDynamoDB()
    a = await world.add(table, name="a")
    other = PoolKey("c1", "ns", "other")
    assert await world.call(Relay(KEY).beat(a))
    assert await world.call(Relay(other).beat(a))
    mine, theirs = (table.items[place_of(key, ("relay_id", "relay"))] for key in (KEY, other))
    theirs["h"] = mine["h"]
    b = await world.add(table, name="b")
    await world.advance(1)
    assert other not in listed(b)


async def test_a_content_in_use_is_written_again_each_day(world: World) -> None:
    table = FakeDynamoDB()
    a = await world.add(table, name="a")
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    (content,) = table.of("c")
    first = int(content["expires_at"]["N"])
    a.clock.step_wall(86_000)
    assert await world.call(relay.beat(a))
    assert int(table.of("c")[0]["expires_at"]["N"]) == first
    a.clock.step_wall(500)
    assert await world.call(relay.beat(a))
    assert int(table.of("c")[0]["expires_at"]["N"]) == first + 86_500
    b = await world.add(table, name="b")
    b.clock.step_wall(3 * 86_400)
    await world.advance(2)
    assert await world.call(relay.beat(b))
    assert int(table.of("c")[0]["expires_at"]["N"]) > first + 2 * 86_400


def test_a_content_is_read_as_it_was_written() -> None:
    share = a_share(
        content=Content(
            "m ü",
            Location("r", "a", "d"),
            ("chat",),
            (("H100", 8),),
            ("http://[fd00::1]:8000",),
        ),
        relays=("ip:10.0.0.1", "ip:10.0.0.2"),
    )
    texts = texts_of(share)
    said = read_content({"o": {"S": texts.owner}, "j": {"S": texts.content}})
    assert said.of(share)


def test_absurd_numbers_are_damage() -> None:
    good: Item = {
        "l": {"S": "x"},
        "g": {"N": "15"},
        "c": {"N": "1"},
        "w": {"S": "w"},
        "h": {"S": "h"},
        "n": {"N": "1"},
        "t": {"N": "1"},
        "r": {"N": "1"},
    }
    read_renewal(good)
    for name, value in (("g", "0"), ("g", "1e9"), ("g", "-1"), ("c", "1.5"), ("n", "x")):
        with pytest.raises(Exception, match="renewal item"):
            read_renewal({**good, name: {"N": value}})
