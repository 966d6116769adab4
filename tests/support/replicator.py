"""A Global Table made of one table a region: replication that a test delays and reorders.

As DynamoDB's (version 2019.11.21, eventual consistency): a write is done in its
own region, is then carried to the others as the whole item, and of two writes
of one item the later one wins everywhere, whatever it says.
"""

import itertools
import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from global_discovery.storage.dynamodb.api import DynamoDB, Item

Key = tuple[str, str]
_WRITES = {"PutItem", "UpdateItem", "DeleteItem"}


class Carried(NamedTuple):
    """One write on its way."""

    to: str
    key: Key
    item: Item | None
    """None: it was deleted."""
    stamp: int


class GlobalTable:
    """The tables of several regions. `way(region)` is how that region's stores reach theirs."""

    def __init__(self, apis: Mapping[str, DynamoDB], *, table: str = "t") -> None:
        self._apis = apis
        self._table = table
        self._stamps = itertools.count(1)
        self._newest: dict[tuple[str, Key], int] = {}
        self.on_its_way: list[Carried] = []

    def way(self, region: str) -> "RegionalWay":
        return RegionalWay(self, region, self._apis[region])

    async def written(self, region: str, operation: str, request: Mapping[str, Any]) -> None:
        """Takes up a write that was done."""
        if operation == "TransactWriteItems":
            keys = [_key_of(action["Put"]["Item"]) for action in request["TransactItems"]]
        elif operation in _WRITES:
            keys = [_key_of(request.get("Item") or request["Key"])]
        else:
            return
        for key in keys:
            answer = await self._apis[region].call(
                "GetItem",
                {"TableName": self._table, "Key": _as_key(key), "ConsistentRead": True},
            )
            stamp = next(self._stamps)
            self._newest[region, key] = stamp
            self.on_its_way += [
                Carried(other, key, answer.get("Item"), stamp)
                for other in self._apis
                if other != region
            ]

    async def deliver(self, *, to: str = "", shuffle: random.Random | None = None) -> None:
        """Everything on its way (to one region) arrives, in an order of its own if so wanted."""
        arriving = [carried for carried in self.on_its_way if to in ("", carried.to)]
        self.on_its_way = [carried for carried in self.on_its_way if carried not in arriving]
        if shuffle:
            shuffle.shuffle(arriving)
        for carried in arriving:
            await self._arrive(carried)

    async def _arrive(self, carried: Carried) -> None:
        place = carried.to, carried.key
        if self._newest.get(place, 0) > carried.stamp:
            return
        self._newest[place] = carried.stamp
        api = self._apis[carried.to]
        if carried.item is None:
            request = {"TableName": self._table, "Key": _as_key(carried.key)}
            await api.call("DeleteItem", request)
        else:
            await api.call("PutItem", {"TableName": self._table, "Item": carried.item})


class RegionalWay:
    """One region's own endpoint."""

    def __init__(self, table: GlobalTable, region: str, api: DynamoDB) -> None:
        self.region = region
        self.count = 0
        self._global_table = table
        self._api = api

    async def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        self.count += 1
        answer = await self._api.call(operation, request)
        await self._global_table.written(self.region, operation, request)
        return answer

    async def close(self) -> None:
        """The table stays."""


def _key_of(item: Mapping[str, Any]) -> Key:
    return item["pk"]["S"], item["sk"]["S"]


def _as_key(key: Key) -> Item:
    return {"pk": {"S": key[0]}, "sk": {"S": key[1]}}
