"""DynamoDB in memory, behind the store's own small interface, and in the hands of a test.

It does what the store asks of DynamoDB (conditions, old values on a conflict,
pages, all-or-nothing transactions) and nothing more; that this is what a server
does is checked by running the same tests over moto. A test can have calls fail
before or after they were done, take time, or answer in small pages.
"""

import asyncio
import copy
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from global_discovery.storage.dynamodb.api import ConditionFailed, Item, Refused

Key = tuple[str, str]
Hook = Callable[[str, Mapping[str, Any]], Awaitable[None]]


async def _nothing(operation: str, request: Mapping[str, Any]) -> None:
    del operation, request


class FakeDynamoDB:
    """One region with one table. Several stores may use one of them."""

    def __init__(self, *, region: str = "eu-west-1", page: int = 1000) -> None:
        self.region = region
        self.items: dict[Key, Item] = {}
        self.page = page
        self.calls: deque[tuple[str, Mapping[str, Any]]] = deque(maxlen=1000)
        """The last ones."""
        self.count = 0
        self.closed = False

    async def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        self.calls.append((operation, request))
        self.count += 1
        answer: dict[str, Any] = getattr(self, _snake(operation))(request)
        return answer

    async def close(self) -> None:
        self.closed = True

    def seen_through(self, *, before: Hook = _nothing, after: Hook = _nothing) -> "Through":
        """The same table over a network that a test commands."""
        return Through(self, before, after)

    def of(self, prefix: str) -> list[Item]:
        """The items whose sort key begins so."""
        return [item for (_, sk), item in sorted(self.items.items()) if sk.startswith(prefix)]

    # -- operations ----------------------------------------------------------

    def _describe_table(self, request: Mapping[str, Any]) -> dict[str, Any]:
        del request
        kinds = (("pk", "HASH"), ("sk", "RANGE"))
        return {
            "Table": {
                "TableStatus": "ACTIVE",
                "KeySchema": [{"AttributeName": n, "KeyType": k} for n, k in kinds],
                "AttributeDefinitions": [
                    {"AttributeName": n, "AttributeType": "S"} for n, _ in kinds
                ],
            }
        }

    def _describe_time_to_live(self, request: Mapping[str, Any]) -> dict[str, Any]:
        del request
        return {
            "TimeToLiveDescription": {
                "TimeToLiveStatus": "ENABLED",
                "AttributeName": "expires_at",
            }
        }

    def _put_item(self, request: Mapping[str, Any]) -> dict[str, Any]:
        item = copy.deepcopy(request["Item"])
        self.items[_key_of(item)] = item
        return {}

    def _get_item(self, request: Mapping[str, Any]) -> dict[str, Any]:
        item = self.items.get(_key_of(request["Key"]))
        return {} if item is None else {"Item": copy.deepcopy(item)}

    def _update_item(self, request: Mapping[str, Any]) -> dict[str, Any]:
        key = _key_of(request["Key"])
        old = self.items.get(key)
        values = request["ExpressionAttributeValues"]
        self._check(request, old)
        assert request["UpdateExpression"].startswith("SET ")
        new = dict(old or request["Key"])
        for part in request["UpdateExpression"][4:].split(", "):
            name, value = part.split(" = ")
            new[name] = values[value]
        self.items[key] = copy.deepcopy(new)
        return {}

    def _delete_item(self, request: Mapping[str, Any]) -> dict[str, Any]:
        key = _key_of(request["Key"])
        self._check(request, self.items.get(key))
        self.items.pop(key, None)
        return {}

    def _transact_write_items(self, request: Mapping[str, Any]) -> dict[str, Any]:
        for action in request["TransactItems"]:
            self._put_item(action["Put"])
        return {}

    def _query(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert request["ConsistentRead"] is True
        values = request["ExpressionAttributeValues"]
        begins = values.get(":begins", {"S": ""})["S"]
        start = request.get("ExclusiveStartKey")
        after = _key_of(start)[1] if start else ""
        keys = sorted(
            (pk, sk)
            for pk, sk in self.items
            if pk == values[":pk"]["S"] and sk.startswith(begins) and sk > after
        )
        names = request.get("ProjectionExpression")
        items = [copy.deepcopy(self.items[key]) for key in keys[: self.page]]
        if names:
            items = [{n: item[n] for n in names.split(",") if n in item} for item in items]
        answer: dict[str, Any] = {"Items": items}
        if len(keys) > self.page:
            pk, sk = keys[self.page - 1]
            answer["LastEvaluatedKey"] = {"pk": {"S": pk}, "sk": {"S": sk}}
        return answer

    def _batch_get_item(self, request: Mapping[str, Any]) -> dict[str, Any]:
        ((table, asked),) = request["RequestItems"].items()
        keys = asked["Keys"]
        assert len({_key_of(key) for key in keys}) == len(keys) <= 100
        answered, left = keys[: self.page], keys[self.page :]
        found = [self.items[_key_of(key)] for key in answered if _key_of(key) in self.items]
        answer: dict[str, Any] = {"Responses": {table: copy.deepcopy(found)}}
        if left:
            answer["UnprocessedKeys"] = {table: {**asked, "Keys": left}}
        return answer

    def _check(self, request: Mapping[str, Any], old: Item | None) -> None:
        condition = request.get("ConditionExpression", "")
        values = request.get("ExpressionAttributeValues", {})
        for part in condition.split(" AND ") if condition else []:
            if part == "attribute_not_exists(pk)":
                holds = old is None
            else:
                name, value = part.split(" = ")
                holds = old is not None and old.get(name) == values[value]
            if not holds:
                wanted = request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
                raise ConditionFailed(copy.deepcopy(old) if wanted else None)


class Through:
    """A way to a FakeDynamoDB on which a test decides what happens."""

    def __init__(self, api: FakeDynamoDB, before: Hook, after: Hook) -> None:
        self.region = api.region
        self.count = 0
        self._api = api
        self.before = before
        """Called before a call is done; what it raises, the call raises, undone."""
        self.after = after
        """Called before it answers; what it raises, the call raises, though it was done."""

    async def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        self.count += 1
        await self.before(operation, request)
        answer = await self._api.call(operation, request)
        await self.after(operation, request)
        return answer

    async def close(self) -> None:
        """The table stays."""


class Missing(FakeDynamoDB):
    """A region without the table."""

    def _describe_table(self, request: Mapping[str, Any]) -> dict[str, Any]:
        del request
        raise Refused("ResourceNotFoundException", "not found")


def _snake(operation: str) -> str:
    return re.sub("([A-Z])", r"_\1", operation).lower()


def _key_of(item: Mapping[str, Any]) -> Key:
    return item["pk"]["S"], item["sk"]["S"]


async def passed(operation: str, request: Mapping[str, Any]) -> None:
    """The hook of a way on which nothing happens."""
    del operation, request


class Gate:
    """Holds the calls of one operation until it is opened, and counts those that wait."""

    def __init__(self, way: Through, operation: str) -> None:
        self.waiting = 0
        self.most = 0
        self.open = asyncio.Event()
        self._operation = operation
        way.before = self._hold

    async def _hold(self, operation: str, request: Mapping[str, Any]) -> None:
        del request
        if operation == self._operation:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            await self.open.wait()
            self.waiting -= 1
