"""Two regions of a Global Table: late and reordered replication, and the last writer's rule."""

import random
from collections.abc import AsyncIterator

import pytest

from global_discovery.domain.change import Departure
from global_discovery.domain.events import Event
from global_discovery.domain.pool import PoolKey
from global_discovery.storage.dynamodb.items import beacon_item
from support.fake_dynamodb import FakeDynamoDB
from support.replicas import Relay, Replica, World, listed
from support.replicator import GlobalTable

KEY = PoolKey("c1", "ns", "pool")
UNTIL_EXACT = 31.0
EU, US = "eu-west-1", "us-east-1"


class Regions:
    """One replica in each of two regions; replication each quarter of a second unless cut."""

    def __init__(self) -> None:
        self.world = World()
        self.tables = {region: FakeDynamoDB(region=region) for region in (EU, US)}
        self.table = GlobalTable(self.tables)
        self.cut: set[str] = set()
        """Regions to which nothing is carried."""

    async def start(self) -> tuple[Replica, Replica]:
        eu = await self.world.add(self.table.way(EU), name="eu")
        us = await self.world.add(self.table.way(US), name="us")
        return eu, us

    async def advance(
        self, seconds: float, *, step: float = 0.25, shuffle: random.Random | None = None
    ) -> None:
        for _ in range(round(seconds / step)):
            await self.world.advance(step, step=step)
            for region in {EU, US} - self.cut:
                await self.table.deliver(to=region, shuffle=shuffle)


@pytest.fixture
async def regions() -> AsyncIterator[Regions]:
    regions = Regions()
    yield regions
    await regions.world.close()


async def test_each_region_lists_what_was_registered_in_the_other_one(regions: Regions) -> None:
    eu, us = await regions.start()
    await regions.world.call(Relay(KEY).beat(eu))
    other = PoolKey("c2", "ns", "pool")
    await regions.world.call(Relay(other).beat(us))
    await regions.advance(2)
    assert listed(eu) == listed(us) == {KEY: "m", other: "m"}


async def test_items_that_arrive_in_any_order_end_in_the_same_list(regions: Regions) -> None:
    eu, us = await regions.start()
    relays = [Relay(PoolKey("c1", "ns", f"pool-{n}")) for n in range(6)]
    chance = random.Random(7)
    for turn in range(6):
        for relay in relays:
            relay.model = f"m{turn if relay is relays[0] else 0}"
            await regions.world.call(relay.beat(chance.choice((eu, us))))
        await regions.advance(5, shuffle=chance)
    await regions.advance(2, shuffle=chance)
    expected = {relay.key: relay.model for relay in relays}
    assert listed(eu) == listed(us) == expected
    assert not eu.left
    assert not us.left


async def test_the_bound_is_two_beacon_intervals_longer_with_several_regions(
    regions: Regions,
) -> None:
    eu, us = await regions.start()
    alone = us.store.state().bound
    await regions.advance(7)
    assert eu.store.state().bound == us.store.state().bound == alone + 10


async def test_a_region_that_is_not_heard_makes_the_view_estimated_until_it_returns(
    regions: Regions,
) -> None:
    eu, us = await regions.start()
    await regions.advance(UNTIL_EXACT)
    assert eu.exact
    assert us.exact
    regions.cut.add(EU)
    await regions.advance(9)
    assert eu.exact
    await regions.advance(7)
    assert eu.reasons == {"REGION_SILENT"}
    assert us.exact, "it hears the other one"
    regions.cut.clear()
    await regions.advance(14)
    assert eu.reasons == {"REGION_SILENT"}, "a renewal missed so far shows within one lease"
    await regions.advance(4)
    assert eu.exact
    names = [event for event, _ in eu.events]
    assert names.count(Event.REGION_SILENT) == names.count(Event.REGION_HEARD) == 1


async def test_a_region_that_beats_more_slowly_is_not_silent_for_that(regions: Regions) -> None:
    (eu,) = [await regions.world.add(regions.table.way(EU), name="eu")]
    for counter in range(4):
        item = beacon_item(US, "us", counter=counter, interval=20.0, now=0.0)
        await regions.tables[EU].call("PutItem", {"Item": item})
        await regions.advance(20)
    assert eu.exact
    assert eu.store.state().bound == 2.0 + 40.0
    await regions.advance(30)
    assert eu.reasons == {"REGION_SILENT"}


async def test_pools_of_a_silent_region_leave_as_unlisted(regions: Regions) -> None:
    eu, us = await regions.start()
    await regions.advance(UNTIL_EXACT)
    relay = Relay(KEY)
    await regions.world.call(relay.beat(us))
    await regions.advance(2)
    assert listed(eu) == {KEY: "m"}
    regions.cut.add(EU)
    for _ in range(4):
        await regions.advance(5)
        await regions.world.call(relay.beat(us))
    assert eu.left[KEY] == [Departure.UNLISTED]


async def test_a_region_without_any_instance_is_silent_for_an_hour(regions: Regions) -> None:
    eu, us = await regions.start()
    await regions.advance(UNTIL_EXACT)
    await us.kill()
    del regions.world.replicas["us"]
    await regions.advance(20)
    assert eu.reasons == {"REGION_SILENT"}
    await regions.advance(3560, step=2)
    assert eu.reasons == {"REGION_SILENT"}
    await regions.advance(60)
    assert eu.exact
    assert eu.store.state().bound == 2.0


async def test_a_region_whose_last_instance_was_told_to_stop_has_left(regions: Regions) -> None:
    eu, us = await regions.start()
    await regions.advance(UNTIL_EXACT)
    await us.stop()
    del regions.world.replicas["us"]
    await regions.advance(30)
    assert eu.exact
    assert eu.store.state().bound == 2.0


async def test_a_new_replica_finds_a_region_silent_that_fell_silent_before(
    regions: Regions,
) -> None:
    eu, us = await regions.start()
    await regions.advance(6)
    await us.kill()
    del regions.world.replicas["us"]
    await regions.advance(60)
    new = await regions.world.add(regions.table.way(EU), name="new")
    await regions.advance(2)
    assert "REGION_SILENT" in new.reasons
    assert "REGION_SILENT" in eu.reasons


async def test_a_content_that_a_late_renewal_elsewhere_replaced_is_written_again(
    regions: Regions,
) -> None:
    eu, us = await regions.start()
    relay = Relay(KEY)
    await regions.world.call(relay.beat(us))
    await regions.advance(2)
    regions.cut = {EU, US}
    changed = Relay(KEY)
    changed.lease_id, changed.model = relay.lease_id, "other"
    await regions.world.call(changed.beat(eu))
    # The other region does not know of it, and its write is the later one: it wins as a whole.
    assert await us.store.renew([relay.lease_id]) == []
    regions.cut = set()
    await regions.advance(3)
    assert listed(eu) == listed(us) == {KEY: "other"}
    new = await regions.world.add(regions.table.way(US), name="new")
    assert listed(new) == {KEY: "other"}


async def test_a_withdrawal_stands_against_a_later_renewal_in_the_other_region(
    regions: Regions,
) -> None:
    eu, us = await regions.start()
    relay = Relay(KEY)
    await regions.world.call(relay.beat(us))
    lease = relay.lease_id
    await regions.advance(2)
    regions.cut = {EU, US}
    assert await regions.world.call(relay.withdraw(eu))
    assert await us.store.renew([lease]) == []
    regions.cut = set()
    await regions.advance(2, shuffle=random.Random(3))
    assert listed(eu) == listed(us) == {}
    await regions.advance(160)
    assert listed(eu) == listed(us) == {}


async def test_a_new_incarnation_that_lost_to_the_old_one_begins_anew(regions: Regions) -> None:
    eu, us = await regions.start()
    relay = Relay(KEY)
    await regions.world.call(relay.beat(us))
    old = relay.lease_id
    await regions.advance(2)
    regions.cut = {EU, US}
    relay.lease_id = ""
    await regions.world.call(relay.beat(eu))
    assert await us.store.renew([old]) == []  # later, so the old incarnation wins in the table
    regions.cut = set()
    for _ in range(3):
        await regions.advance(5)
        await regions.world.call(relay.beat(eu))
    await regions.advance(2)
    assert listed(eu) == listed(us) == {KEY: "m"}
    assert not eu.left
    assert not us.left
    for table in regions.tables.values():
        (item,) = table.of("s#")
        assert item["l"] == {"S": relay.lease_id}


async def test_a_share_whose_content_arrives_last_is_listed_with_it(regions: Regions) -> None:
    eu, us = await regions.start()
    await regions.advance(UNTIL_EXACT)
    regions.cut = {EU, US}
    await regions.world.call(Relay(KEY).beat(eu))
    late = [c for c in regions.table.on_its_way if c.key[0].startswith("c#")]
    regions.table.on_its_way = [c for c in regions.table.on_its_way if c not in late]
    await regions.table.deliver()
    await regions.world.advance(4)
    assert listed(us) == {}
    assert us.reasons == {"STORE_UNREADABLE"}, "it knows that something lives that it cannot list"
    regions.table.on_its_way += late
    regions.cut = set()
    await regions.advance(2)
    assert listed(us) == {KEY: "m"}
