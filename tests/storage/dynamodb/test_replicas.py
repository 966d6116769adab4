"""Instances over one table: what one of them stored, the others list."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from global_discovery.domain.change import Departure
from global_discovery.domain.pool import PoolKey
from global_discovery.storage.dynamodb.api import Throttled, Unreachable
from support.fake_dynamodb import FakeDynamoDB, passed
from support.replicas import HOUR, STEP, TERMS, Relay, World, listed

KEY = PoolKey("c1", "ns", "pool")
LEASE = float(TERMS.lease_duration)
BOUND = 2.5
UNTIL_EXACT = 31.0
"""Nobody calls a replica for one lease, then its start lease runs."""


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.close()


async def test_a_registration_at_one_replica_is_in_the_other_ones_view(world: World) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    await world.advance(1.25)
    assert listed(b) == {KEY: "m"}


async def test_a_withdrawal_at_one_replica_leaves_the_other_ones_view_as_removed(
    world: World,
) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    await world.advance(1.25)
    assert await world.call(relay.withdraw(b))
    assert listed(b) == {}
    await world.advance(1.25)
    assert listed(a) == {}
    assert a.left[KEY] == [Departure.REMOVED]


async def test_a_relay_that_renews_at_another_replica_keeps_its_lease(world: World) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    lease = relay.lease_id
    for _ in range(10):
        await world.advance(5)
        assert await world.call(relay.beat(b))
        assert relay.lease_id == lease
    assert listed(a) == listed(b) == {KEY: "m"}
    assert not a.left
    assert not b.left


async def test_a_relay_that_renews_elsewhere_at_once_is_known_there(world: World) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    lease = relay.lease_id
    assert await world.call(relay.beat(b))
    assert relay.lease_id == lease


async def test_nothing_is_listed_longer_than_its_lease_and_the_bound(world: World) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    await world.advance(20)
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    await world.advance(14.75)
    assert KEY in a.fold
    assert KEY in b.fold
    await world.advance(BOUND)
    assert listed(a) == listed(b) == {}
    assert a.left[KEY] == b.left[KEY] == [Departure.REMOVED]


@pytest.mark.parametrize("offset", [-HOUR, HOUR])
async def test_a_wall_clock_that_is_an_hour_off_hides_no_new_pool(
    world: World, offset: float
) -> None:
    table = FakeDynamoDB()
    a = await world.add(table, name="a")
    b = await world.add(table, name="b", wall_offset=offset)
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    await world.advance(1.25)
    assert listed(b) == {KEY: "m"}
    await world.advance(15)
    assert listed(b) == {}


async def test_what_a_new_replica_finds_has_what_its_wall_time_leaves(world: World) -> None:
    table = FakeDynamoDB()
    a = await world.add(table, name="a")
    assert await world.call(Relay(KEY).beat(a))
    await world.advance(10)
    b = await world.add(table, name="b")
    assert listed(b) == {KEY: "m"}
    await world.advance(4.5)
    assert listed(b) == {KEY: "m"}
    await world.advance(1)
    assert listed(b) == {}
    assert b.left[KEY] == [Departure.UNLISTED], "it never saw it renewed"


async def test_a_new_replica_with_a_clock_ahead_lists_a_pool_once_it_is_renewed(
    world: World,
) -> None:
    table = FakeDynamoDB()
    a = await world.add(table, name="a")
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    b = await world.add(table, name="b", wall_offset=HOUR)
    assert listed(b) == {}
    assert not b.exact
    assert await world.call(relay.beat(a))
    await world.advance(1.25)
    assert listed(b) == {KEY: "m"}


async def test_a_start_lasts_as_long_as_the_longest_lease_in_the_table(world: World) -> None:
    table = FakeDynamoDB()
    a = await world.add(table, name="a")
    assert await world.call(Relay(KEY).beat(a))
    (item,) = table.of("s#")
    item["g"] = {"N": "60"}
    b = await world.add(table, name="b", wall_offset=HOUR)
    assert await world.call(Relay(PoolKey("c1", "ns", "other")).beat(b))
    assert KEY not in listed(b), "its clock says that it is dead"
    await world.advance(59)
    assert b.reasons == {"STARTING"}
    await world.advance(2)
    assert b.exact


async def test_a_clock_behind_makes_no_dead_share_live_for_longer_than_a_lease(
    world: World,
) -> None:
    table = FakeDynamoDB()
    a = await world.add(table, name="a")
    assert await world.call(Relay(KEY).beat(a))
    (content,) = table.of("c")
    del table.items[content["pk"]["S"], "c"]
    await world.advance(60)
    b = await world.add(table, name="b", wall_offset=-HOUR)
    await world.advance(5)
    assert b.ready, "one damaged item stops nobody"
    assert b.reasons == {"STARTING", "STORE_UNREADABLE"}, "a share that may live is not listed"
    await world.advance(13 + 15)
    assert b.exact


async def test_a_new_replica_with_a_clock_behind_keeps_a_dead_pool_for_one_lease(
    world: World,
) -> None:
    table = FakeDynamoDB()
    a = await world.add(table, name="a")
    assert await world.call(Relay(KEY).beat(a))
    await world.advance(60)
    b = await world.add(table, name="b", wall_offset=-HOUR)
    assert listed(b) == {KEY: "m"}
    await world.advance(15.5)
    assert listed(b) == {}


async def test_a_withdrawn_id_is_refused_by_a_replica_that_never_knew_it(world: World) -> None:
    table = FakeDynamoDB()
    a = await world.add(table, name="a")
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    lease = relay.lease_id
    assert await world.call(relay.withdraw(a))
    b = await world.add(table, name="b", wall_offset=HOUR)
    relay.lease_id = lease
    assert not await world.call(relay.beat(b))
    assert relay.lease_id == "", "it was told that the lease was withdrawn"


async def test_a_withdrawn_share_is_not_live_whatever_is_written_to_it_later(world: World) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    lease = relay.lease_id
    await world.advance(1.25)
    assert await world.call(relay.withdraw(b))
    assert await a.store.renew([lease]) == []  # it has not read the tombstone yet
    c = await world.add(table, name="c")
    await world.advance(1.25)
    assert listed(a) == listed(b) == listed(c) == {}
    assert KEY not in c.left


async def test_a_later_incarnation_that_came_and_went_between_two_reads_takes_the_known_one_along(
    world: World,
) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    await world.advance(1.25)
    assert listed(b) == {KEY: "m"}
    relay.lease_id = ""
    assert await world.call(relay.beat(a)), "a successor, which knows no id"
    assert await world.call(relay.withdraw(a))
    await world.advance(1.25)
    assert listed(a) == listed(b) == {}
    assert b.left[KEY] == [Departure.REMOVED]


async def test_a_withdrawal_elsewhere_ends_no_share_that_began_here_after_it(world: World) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    assert await world.call(relay.withdraw(a))
    assert await world.call(relay.beat(b)), "which has read neither"
    await world.advance(1.25)
    assert listed(a) == listed(b) == {KEY: "m"}
    assert KEY not in b.left


async def test_a_share_that_could_not_be_written_yet_outlives_what_was_withdrawn_before_it(
    world: World,
) -> None:
    table = FakeDynamoDB()
    a = await world.add(table, name="a")
    way = table.seen_through()
    b = await world.add(way, name="b")
    relay = Relay(KEY)
    assert await world.call(relay.beat(a)), "which b has not read"

    reads: set[str] = set()

    async def cut(operation: str, request: Mapping[str, Any]) -> None:
        del request
        if operation not in reads:
            raise Unreachable("cut")

    way.before = cut
    successor = Relay(KEY)
    assert not await world.call(successor.beat(b)), "heard, and not stored"
    assert await world.call(relay.withdraw(a))
    reads |= {"Query", "BatchGetItem"}
    await world.advance(1.25)
    assert listed(b) == {KEY: "m"}
    assert KEY not in b.left


async def test_a_tombstone_counts_for_as_long_as_it_is_there(world: World) -> None:
    table = FakeDynamoDB()
    ways = [table.seen_through() for _ in range(2)]
    a, b = [await world.add(way, name=name) for way, name in zip(ways, "ab", strict=True)]

    async def keep(operation: str, request: Mapping[str, Any]) -> None:
        del request
        if operation == "DeleteItem":
            raise Unreachable("cut")

    for way in ways:
        way.before = keep
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    lease = relay.lease_id
    assert await world.call(relay.withdraw(b))
    await world.advance(160)
    assert await a.store.renew([lease]) == []
    await world.advance(1.25)
    c = await world.add(table, name="c")
    assert listed(a) == listed(b) == listed(c) == {}
    assert KEY not in c.left


async def test_a_tombstone_and_what_it_names_are_cleared_after_ten_leases(world: World) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    await world.advance(1.25)
    assert await world.call(relay.withdraw(b))
    await world.advance(149)
    assert len(table.of("d#")) == len(table.of("s#")) == 1
    await world.advance(3)
    assert table.of("d#") == table.of("s#") == []


async def test_a_dead_replicas_tombstones_are_cleared_by_another_one(world: World) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    assert await world.call(relay.withdraw(b))
    await b.kill()
    await world.advance(150 * 1.5 + 3)
    assert table.of("d#") == table.of("s#") == []
    assert listed(a) == {}


async def test_a_change_of_content_reaches_the_other_replica(world: World) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    await world.advance(1.25)
    relay.model = "other"
    assert await world.call(relay.beat(b))
    await world.advance(1.25)
    assert listed(a) == listed(b) == {KEY: "other"}


async def test_renewals_read_and_write_no_content(world: World) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    await world.advance(2)
    table.calls.clear()
    assert await world.call(relay.beat(b))
    assert await world.call(relay.beat(a))
    await world.advance(1.25)
    operations = [name for name, request in table.calls if "beacons" not in str(request)]
    assert set(operations) == {"UpdateItem", "Query"}
    assert operations.count("UpdateItem") >= 2


async def test_a_heartbeat_without_an_id_writes_no_content_again(world: World) -> None:
    table = FakeDynamoDB()
    a = await world.add(table, name="a")
    relay = Relay(KEY)
    for _ in range(3):
        relay.lease_id = ""
        assert await world.call(relay.beat(a))
    assert [name for name, r in table.calls if "c#" in str(r)] == ["PutItem"]
    assert len(table.of("s#")) == 1


async def test_a_store_that_cannot_be_read_shortens_no_lease_and_its_lapses_are_unlisted(
    world: World,
) -> None:
    table = FakeDynamoDB()
    way = table.seen_through()
    a = await world.add(way, name="a")
    relay = Relay(KEY)
    await world.advance(UNTIL_EXACT)
    assert await world.call(relay.beat(a))
    assert a.exact
    way.before = cut
    await world.advance(5)
    assert a.reasons == {"STORE_UNREADABLE"}
    assert not await world.call(relay.beat(a)), "it was heard, and could not be stored"
    await world.advance(11)
    assert listed(a) == {KEY: "m"}, "it counts all the same"
    await world.advance(5)
    assert a.left[KEY] == [Departure.UNLISTED]


@pytest.mark.parametrize("phase", [0.0, 0.25, 0.5, 0.75])
async def test_a_renewal_at_another_instance_just_before_the_lease_ends_is_waited_for(
    world: World, phase: float
) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    relay = Relay(KEY)
    await world.advance(UNTIL_EXACT + phase)
    assert await world.call(relay.beat(a))
    await world.advance(3)
    for instance in (b, a, b):
        await world.advance(LEASE - 3.25)
        assert await world.call(relay.beat(instance))
        for _ in range(round(3 / STEP)):
            await world.advance(STEP)
            assert listed(a) == listed(b) == {KEY: "m"}
            assert a.exact
            assert b.exact
    assert a.left == b.left == {}


async def test_a_lease_that_ended_is_gone_everywhere_one_bound_later(world: World) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    await world.advance(UNTIL_EXACT)
    assert await world.call(Relay(KEY).beat(a))
    await world.advance(LEASE + a.store.state().bound)
    assert listed(a) == listed(b) == {}
    assert a.left[KEY] == b.left[KEY] == [Departure.REMOVED]


async def test_a_read_that_is_wanted_does_not_wait_for_its_period(world: World) -> None:
    table = FakeDynamoDB()
    a = await world.add(table, name="a")

    def reads() -> int:
        return sum(name == "Query" and "r#00" in str(request) for name, request in table.calls)

    begun = reads()
    await world.advance(8)
    unasked = reads() - begun
    for _ in range(round(8 / STEP)):
        a.store.read_soon()
        await world.advance(STEP)
    asked = reads() - begun - unasked
    assert (unasked, asked) == (8, 16), "each second, and no more often than twice in one"


async def test_a_store_that_can_be_read_again_is_exact_one_lease_later(world: World) -> None:
    table = FakeDynamoDB()
    way = table.seen_through()
    a = await world.add(way, name="a")
    await world.advance(UNTIL_EXACT)
    way.before = cut
    await world.advance(10)
    way.before = passed
    await world.advance(7)
    assert a.reasons == {"STORE_UNREADABLE"}
    await world.advance(15)
    assert a.exact


async def test_a_renewal_that_could_not_be_stored_is_stored_by_the_next_one(world: World) -> None:
    table = FakeDynamoDB()
    way = table.seen_through()
    a = await world.add(way, name="a")
    b = await world.add(table, name="b")
    way.before = cut
    relay = Relay(KEY)
    assert not await world.call(relay.beat(a))
    (pool,) = a.fold or {KEY: None}
    assert pool == KEY
    way.before = passed
    await world.advance(5)
    relay.lease_id = a.registrations._table.pools[KEY].shares[("relay_id", "relay")].lease_id
    assert await world.call(relay.beat(a))
    await world.advance(1.25)
    assert listed(b) == {KEY: "m"}


async def test_throttled_writes_are_repeated_and_the_caller_is_answered(world: World) -> None:
    table = FakeDynamoDB()
    way = table.seen_through()
    a = await world.add(way, name="a")
    relay = Relay(KEY)
    refusals = iter([Throttled("ThrottlingException", "slow down")] * 3)

    async def throttle(operation: str, request: Mapping[str, Any]) -> None:
        del request
        if operation == "UpdateItem" and (refusal := next(refusals, None)):
            raise refusal

    way.before = throttle
    assert await world.call(relay.beat(a))
    assert len(table.of("s#")) == 1


async def test_an_answer_that_was_lost_is_recognised_as_ones_own_write(world: World) -> None:
    table = FakeDynamoDB()
    way = table.seen_through()
    a = await world.add(way, name="a")
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    losses = iter([Unreachable("reset")])

    async def lose(operation: str, request: Mapping[str, Any]) -> None:
        del request
        if operation == "UpdateItem" and (loss := next(losses, None)):
            raise loss

    way.after = lose
    assert await world.call(relay.beat(a))
    (item,) = table.of("s#")
    assert item["c"] == {"N": "2"}, "one renewal was written once"


async def test_a_late_call_changes_nothing_at_another_replica_either(world: World) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    relay = Relay(KEY)
    assert await world.call(relay.beat(a))
    late = relay.heartbeat()._replace(sequence=1)
    relay.model = "newer"
    await world.call(a.registrar.register(relay.heartbeat()._replace(sequence=2)))
    await world.advance(2.5)
    c = await world.add(table, name="c")
    for replica in (b, c):
        await world.call(replica.registrar.register(late))
        await world.advance(2.5)
        assert [listed(each) for each in (a, b, c)] == [{KEY: "newer"}] * 3
    begun = await world.call(c.registrar.register(late._replace(lease_id="")))
    await world.advance(2.5)
    assert begun.lease_id != relay.lease_id
    assert [listed(each) for each in (a, b, c)] == [{KEY: "m"}] * 3, "it counts anew"


async def test_of_callers_that_cannot_be_told_apart_the_last_one_counts_at_whatever_replica(
    world: World,
) -> None:
    table = FakeDynamoDB()
    a, b = [await world.add(table, name=name) for name in "ab"]
    one, other = Relay(KEY), Relay(KEY)
    other.model = "other"
    assert await world.call(one.beat(a))
    assert await world.call(other.beat(b))
    await world.advance(2.5)
    for _ in range(3):  # each replica still believes what its own caller said before
        one.lease_id = other.lease_id = ""
        assert await world.call(one.beat(a))
        assert await world.call(other.beat(b))
        await world.advance(2.5)
        assert listed(a) == listed(b) == {KEY: "other"}
    one.lease_id = ""
    assert await world.call(one.beat(a))
    await world.advance(2.5)
    assert listed(a) == listed(b) == {KEY: "m"}


async def cut(operation: str, request: Mapping[str, Any]) -> None:
    del operation, request
    raise Unreachable("cut")
