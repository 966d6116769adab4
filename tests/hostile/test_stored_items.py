"""A DynamoDB table in which anything stands: what is good is listed, bad items are told once."""

import asyncio
from typing import Any

from hypothesis import note
from hypothesis import strategies as st

from global_discovery.domain.events import Event
from global_discovery.domain.pool import PoolKey
from support.fake_dynamodb import FakeDynamoDB
from support.hostile import hostile
from support.hostile_json import any_json
from support.replicas import Relay, World, listed

KEYS = [PoolKey("c1", "ns", f"pool-{number}") for number in range(4)]
GOOD = KEYS[2:]
"""Whose items nobody touches."""
VALUES = st.one_of(
    st.sampled_from(["nan", "inf", "-1", "0", "1E+125", "9" * 38]).map(lambda text: {"N": text}),
    st.text(max_size=20).map(lambda text: {"S": text}),
    st.sampled_from(
        [
            {"S": "\ud800"},
            {"S": "x" * 2000},
            {"S": "[" * 50_000},
            {"NULL": True},
            {"BOOL": False},
            {"B": "AA=="},
            {"SS": ["a"]},
            {"L": []},
            {"M": {}},
        ]
    ),
    any_json(),
)
DAMAGE = st.tuples(
    st.integers(0, 99),
    st.sampled_from(
        ["l", "g", "c", "w", "h", "n", "t", "r", "q", "o", "j", "expires_at", "v", "x"]
    ),
    st.one_of(st.none(), VALUES),
)


@hostile(examples=12, damage=st.lists(DAMAGE, min_size=1, max_size=4))
def test_bad_items_cost_themselves_and_are_told_once(
    damage: list[tuple[int, str, Any]],
) -> None:
    note(repr(damage)[:2000])
    asyncio.run(_damaged(damage))


async def _damaged(damage: list[tuple[int, str, Any]]) -> None:
    world, table = World(), FakeDynamoDB()
    try:
        first = await world.add(table, name="a")
        relays = [Relay(key) for key in KEYS]
        for relay in relays[2:]:
            assert await world.call(relay.beat(first))
        kept = set(table.items)
        for relay in relays[:2]:
            assert await world.call(relay.beat(first))
        _do(table, sorted(set(table.items) - kept), damage)
        second = await world.add(table, name="b")
        await world.advance(2)
        for replica in (first, second):
            assert set(GOOD) <= set(listed(replica))
            assert [e for e, _ in replica.events].count(Event.STORED_ITEM_UNREADABLE) <= len(damage)
        told = len(second.events)
        for relay in relays[2:]:
            assert await world.call(relay.renew(second))
        await world.advance(8)
        repeated = [e for e, _ in second.events[told:] if e is Event.STORED_ITEM_UNREADABLE]
        assert not repeated
        # The relays of the damaged ones register again, and are listed at both once more.
        for relay in relays[:2]:
            relay.lease_id = ""
            await world.call(relay.beat(second))
        for relay in relays[2:]:
            assert await world.call(relay.withdraw(first))
        await world.advance(3)
        for replica in (first, second):
            assert not set(GOOD) & set(listed(replica))
    finally:
        await world.close()


def _do(
    table: FakeDynamoDB, places: list[tuple[str, str]], damage: list[tuple[int, str, Any]]
) -> None:
    for number, name, value in damage:
        item = table.items[places[number % len(places)]]
        if value is None:
            item.pop(name, None)
        else:
            item[name] = value
