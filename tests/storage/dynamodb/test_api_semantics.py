"""What the store relies on, of a server over HTTP and of the fake in memory alike."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from global_discovery.domain.clock import SystemClock
from global_discovery.storage.dynamodb.api import ConditionFailed, DynamoDB
from global_discovery.storage.dynamodb.items import (
    Place,
    Renewal,
    item_key,
    read_renewal,
    update_of,
)
from global_discovery.storage.dynamodb.table import create_table
from support import dynamodb_server
from support.fake_dynamodb import FakeDynamoDB

PLACE = Place("r#00", "s#pool#share")
RENEWAL = Renewal("lease", 15.0, "1", "a", "hash", 3, 1700000000.0, 1600000000.0)


class Table:
    def __init__(self, api: DynamoDB, name: str) -> None:
        self.api = api
        self.name = name

    async def call(self, operation: str, **request: Any) -> dict[str, Any]:
        return await self.api.call(operation, {"TableName": self.name, **request})

    async def update(self, new: Renewal, old: Renewal | None) -> None:
        request = update_of(self.name, PLACE, new, old=old, expires_at=1)
        await self.api.call("UpdateItem", request)

    async def item(self) -> dict[str, Any] | None:
        return (await self.call("GetItem", Key=PLACE.key, ConsistentRead=True)).get("Item")

    async def pages(self, **more: Any) -> list[list[str]]:
        request: dict[str, Any] = {
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": "r#00"}},
            "ConsistentRead": True,
            **more,
        }
        pages = []
        while True:
            answer = await self.call("Query", **request)
            pages.append([item["sk"]["S"] for item in answer["Items"]])
            if not answer.get("LastEvaluatedKey"):
                return pages
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


@pytest.fixture(params=["server", "fake"])
async def table(request: pytest.FixtureRequest) -> AsyncIterator[Table]:
    name = dynamodb_server.new_table_name()
    api: DynamoDB = FakeDynamoDB()
    if request.param == "server":
        api = dynamodb_server.of_this_process().reached(SystemClock())
        await create_table(api, name, asyncio.sleep)
    yield Table(api, name)
    await api.close()


async def test_what_is_written_is_read(table: Table) -> None:
    await table.update(RENEWAL, None)
    item = await table.item()
    assert item is not None
    assert read_renewal(item) == RENEWAL


async def test_a_new_item_replaces_none_that_is_there(table: Table) -> None:
    await table.update(RENEWAL, None)
    with pytest.raises(ConditionFailed) as conflict:
        await table.update(RENEWAL._replace(lease_id="other"), None)
    assert conflict.value.item is not None
    assert read_renewal(conflict.value.item) == RENEWAL


async def test_a_renewal_of_what_is_no_longer_there_fails_with_nothing(table: Table) -> None:
    with pytest.raises(ConditionFailed) as conflict:
        await table.update(RENEWAL._replace(counter="2"), RENEWAL)
    assert conflict.value.item is None
    assert await table.item() is None


@pytest.mark.parametrize("stale", [{"counter": "0"}, {"lease_id": "older"}])
async def test_a_write_on_stale_knowledge_changes_nothing(table: Table, stale: Any) -> None:
    await table.update(RENEWAL, None)
    with pytest.raises(ConditionFailed) as conflict:
        await table.update(RENEWAL._replace(counter="7"), RENEWAL._replace(**stale))
    assert conflict.value.item is not None
    assert read_renewal(conflict.value.item) == RENEWAL


async def test_of_writes_on_the_same_knowledge_that_meet_one_is_done(table: Table) -> None:
    await table.call("PutItem", Item={**PLACE.key, "c": {"N": "0"}})
    names = ["c", *(f"a{number}" for number in range(60))]  # so that one takes its time

    async def count_on(rival: int) -> None:
        await table.call(
            "UpdateItem",
            Key=PLACE.key,
            UpdateExpression="SET " + ", ".join(f"{name} = :{name}" for name in names),
            ConditionExpression="c = :old",
            ExpressionAttributeValues={
                ":old": {"N": "0"},
                **{f":{name}": {"N": str(rival)} for name in names},
            },
        )

    results = await asyncio.gather(*map(count_on, range(1, 9)), return_exceptions=True)
    assert results.count(None) == 1
    assert sum(isinstance(result, ConditionFailed) for result in results) == 7
    item = await table.item()
    assert item is not None
    assert {item[name]["N"] for name in names} == {str(1 + results.index(None))}


async def test_a_renewal_keeps_what_a_later_format_wrote_beside_it(table: Table) -> None:
    await table.update(RENEWAL, None)
    item = await table.item()
    await table.call("PutItem", Item={**(item or {}), "zz": {"S": "kept"}, "v": {"N": "2"}})
    await table.update(RENEWAL._replace(counter="2"), RENEWAL)
    item = await table.item()
    assert item is not None
    assert (item["zz"], item["v"], item["c"]) == ({"S": "kept"}, {"N": "2"}, {"N": "2"})
    await table.update(RENEWAL._replace(counter="3", content_hash="new"), read_renewal(item))
    item = await table.item()
    assert item is not None
    assert (item["zz"], item["h"]) == ({"S": "kept"}, {"S": "new"})


async def test_a_partition_is_read_in_order_over_several_pages(table: Table) -> None:
    if isinstance(table.api, FakeDynamoDB):
        table.api.page = 2
    names = ["d#x", "s#1", "s#2", "s#3", "s#4"]
    for name in reversed(names):  # a page ends at 1 MB
        item = {**item_key("r#00", name), "x": {"S": "x" * 350_000}, "l": {"S": "lease"}}
        await table.call("PutItem", Item=item)
    pages = await table.pages(ProjectionExpression="sk,l,g")
    assert len(pages) > 1
    assert [name for page in pages for name in page] == names


async def test_a_prefix_of_the_sort_key_is_read_alone(table: Table) -> None:
    for name in ("d#x", "s#a#1", "s#a#2", "s#b#1"):
        await table.call("PutItem", Item=item_key("r#00", name))
    pages = await table.pages(
        KeyConditionExpression="pk = :pk AND begins_with(sk, :begins)",
        ExpressionAttributeValues={":pk": {"S": "r#00"}, ":begins": {"S": "s#a#"}},
    )
    assert pages == [["s#a#1", "s#a#2"]]


async def test_several_items_are_got_and_what_is_missing_is_left_out(table: Table) -> None:
    await table.call("PutItem", Item=item_key("c#1", "c"))
    request = {
        "RequestItems": {
            table.name: {
                "Keys": [item_key("c#1", "c"), item_key("c#2", "c")],
                "ConsistentRead": True,
            }
        }
    }
    answer = await table.api.call("BatchGetItem", request)
    assert answer["Responses"] == {table.name: [item_key("c#1", "c")]}


async def test_several_items_are_put_at_once(table: Table) -> None:
    puts = [
        {"Put": {"TableName": table.name, "Item": item_key("r#00", f"d#{n}")}} for n in range(3)
    ]
    await table.api.call("TransactWriteItems", {"TransactItems": puts})
    assert await table.pages() == [["d#0", "d#1", "d#2"]]


async def test_a_conditional_delete_spares_a_newer_incarnation(table: Table) -> None:
    await table.update(RENEWAL, None)
    request: dict[str, Any] = {
        "Key": PLACE.key,
        "ConditionExpression": "l = :l",
        "ExpressionAttributeValues": {":l": {"S": "older"}},
    }
    with pytest.raises(ConditionFailed):
        await table.call("DeleteItem", **request)
    assert await table.item() is not None
    request["ExpressionAttributeValues"] = {":l": {"S": "lease"}}
    await table.call("DeleteItem", **request)
    assert await table.item() is None
    with pytest.raises(ConditionFailed):
        await table.call("DeleteItem", **request)
