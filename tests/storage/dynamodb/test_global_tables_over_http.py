"""The same on a server: two regions' tables, with our replicator between them."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from global_discovery.domain.clock import SystemClock
from global_discovery.domain.events import ignore
from global_discovery.domain.lease import LeaseTerms
from global_discovery.domain.pool import PoolKey
from global_discovery.storage.dynamodb.store import DynamoDBStore
from global_discovery.storage.dynamodb.table import create_table
from global_discovery.storage.store import Reading, StoredShare
from support import dynamodb_server
from support.replicas import a_content
from support.replicator import GlobalTable, RegionalWay

EU, US = "eu-west-1", "us-east-1"


class Instance:
    """A store whose reads are made by hand, and what they told."""

    def __init__(self, way: RegionalWay, table: str) -> None:
        async def connect() -> RegionalWay:
            return way

        self.store = DynamoDBStore(
            connect=connect, table=table, terms=LeaseTerms(), clock=SystemClock(), report=ignore
        )
        self.shares: dict[str, StoredShare] = {}
        self.withdrawn: set[str] = set()
        self.store.on_reading(self._take, lambda: None)

    def _take(self, reading: Reading) -> None:
        self.withdrawn |= set(reading.withdrawn)
        self.shares.update({seen.share.key.dgd_name: seen.share for seen in reading.shares})


class Regions:
    def __init__(self, table: GlobalTable, eu: Instance, us: Instance) -> None:
        self.table = table
        self.eu = eu
        self.us = us

    async def catch_up(self) -> None:
        """Everything arrives, in any order, and both read."""
        await self.table.deliver(shuffle=random.Random(5))
        for instance in (self.eu, self.us):
            await instance.store.refresh()


@pytest.fixture
async def regions() -> AsyncIterator[Regions]:
    name = dynamodb_server.new_table_name()
    server = dynamodb_server.of_this_process()
    apis = {region: server.reached(SystemClock(), region=region) for region in (EU, US)}
    for api in apis.values():
        await create_table(api, name, asyncio.sleep)
    table = GlobalTable(apis, table=name)
    found = Regions(table, *(Instance(table.way(region), name) for region in (EU, US)))
    for instance in (found.eu, found.us):
        await instance.store.open()
    yield found
    for instance in (found.eu, found.us):
        await instance.store.close()
    for api in apis.values():
        await api.close()


def a_share(name: str, lease_id: str, *, model: str = "m", number: int = 1) -> StoredShare:
    return StoredShare(
        key=PoolKey("c1", "ns", name),
        identity=("relay_id", "relay"),
        lease_id=lease_id,
        granted=15.0,
        number=number,
        content=a_content(model),
        relays=("ip:10.0.0.1",),
    )


async def test_both_regions_see_what_the_other_one_stored(regions: Regions) -> None:
    await regions.eu.store.put(a_share("one", "lease-1"))
    await regions.us.store.put(a_share("two", "lease-2"))
    await regions.catch_up()
    assert set(regions.us.shares) == {"one"}
    assert set(regions.eu.shares) == {"two"}
    assert regions.eu.store.state().bound == regions.us.store.state().bound
    assert regions.eu.store.state().bound >= 12.0


async def test_a_content_that_lost_to_a_later_renewal_is_written_again(regions: Regions) -> None:
    await regions.us.store.put(a_share("one", "lease-1"))
    await regions.catch_up()
    await regions.eu.store.put(a_share("one", "lease-1", model="changed", number=2))
    assert await regions.us.store.renew(["lease-1"]) == []  # knows nothing of it, and is later
    await regions.catch_up()
    await regions.eu.store.tidy()
    await regions.catch_up()
    assert regions.us.shares["one"].content.model == "changed"


async def test_a_withdrawal_stands_whatever_the_other_region_writes(regions: Regions) -> None:
    await regions.us.store.put(a_share("one", "lease-1"))
    await regions.catch_up()
    await regions.eu.store.withdraw(["lease-1"], remember=150.0)
    assert await regions.us.store.renew(["lease-1"]) == []
    await regions.catch_up()
    assert regions.us.withdrawn == {"lease-1"}
    found = await regions.eu.store.consult(PoolKey("c1", "ns", "one"), ["lease-1"])
    assert [seen.remaining for seen in found.shares] == [0.0]
    assert set(found.withdrawn) == {"lease-1"}
