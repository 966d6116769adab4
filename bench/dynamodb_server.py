"""A small DynamoDB with one table in memory, as a process of its own.

It speaks the real protocol - signed JSON over HTTPS, conditions, pages of 1 MB
and the headers that AWS sends - as far as the service uses it, and answers at
once, so that what the service itself spends on a call is what is measured. What
it does not have is the way to AWS and AWS's own time. Signatures are not checked.
It prints its port as one line of JSON, writes its certificate's authority to
the file that is its only argument, and ends when its standard input is closed.
"""

import asyncio
import email.utils
import json
import ssl
import sys
import time
import zlib
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import trustme

Item = dict[str, Any]
PAGE_ITEMS = 6_000
"""About a megabyte of renewal items, where DynamoDB ends a page."""
_HEAD = (
    "HTTP/1.1 %s\r\nServer: Server\r\nDate: %s\r\nContent-Type: application/x-amz-json-1.0\r\n"
    "Content-Length: %d\r\nConnection: keep-alive\r\n"
    "x-amzn-RequestId: 3VQ3E1C8T3A2KJ5N6P7Q8R9S0TVV4KQNSO5AEMVJF66Q9ASUAAJG\r\n"
    "x-amz-crc32: %d\r\n\r\n"
)


class ConditionFailed(Exception):
    """The item that is there instead."""

    def __init__(self, item: Item | None) -> None:
        """None: there is none."""
        super().__init__()
        self.item = item


class Table:
    """String keys `pk` and `sk`; one method an operation."""

    def __init__(self) -> None:
        """Empty."""
        self._items: dict[str, dict[str, Item]] = defaultdict(dict)
        self._order: dict[str, list[str]] = defaultdict(list)
        self.operations: dict[str, Callable[[Mapping[str, Any]], Item]] = {
            "DescribeTable": self._describe_table,
            "DescribeTimeToLive": self._describe_time_to_live,
            "PutItem": self._put_item,
            "UpdateItem": self._update_item,
            "DeleteItem": self._delete_item,
            "BatchGetItem": self._batch_get_item,
            "Query": self._query,
        }

    def _describe_table(self, _: Mapping[str, Any]) -> Item:
        keys = {"pk": "HASH", "sk": "RANGE"}
        schema = [{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()]
        types = [{"AttributeName": name, "AttributeType": "S"} for name in keys]
        table = {"TableStatus": "ACTIVE", "KeySchema": schema, "AttributeDefinitions": types}
        return {"Table": table}

    def _describe_time_to_live(self, _: Mapping[str, Any]) -> Item:
        ttl = {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"}
        return {"TimeToLiveDescription": ttl}

    def _put_item(self, request: Mapping[str, Any]) -> Item:
        self._keep(request["Item"])
        return {}

    def _update_item(self, request: Mapping[str, Any]) -> Item:
        old = self._find(request["Key"])
        values = request["ExpressionAttributeValues"]
        _check(request, old)
        new = dict(old or request["Key"])
        for assignment in request["UpdateExpression"].removeprefix("SET ").split(", "):
            name, _, value = assignment.partition(" = ")
            new[name] = values[value]
        self._keep(new)
        return {}

    def _delete_item(self, request: Mapping[str, Any]) -> Item:
        old = self._find(request["Key"])
        _check(request, old)
        if old is not None:
            pk, sk = _names(request["Key"])
            del self._items[pk][sk]
            self._order[pk].remove(sk)
        return {}

    def _batch_get_item(self, request: Mapping[str, Any]) -> Item:
        ((table, asked),) = request["RequestItems"].items()
        found = [item for key in asked["Keys"] if (item := self._find(key)) is not None]
        return {"Responses": {table: found}, "UnprocessedKeys": {}}

    def _query(self, request: Mapping[str, Any]) -> Item:
        values = request["ExpressionAttributeValues"]
        pk = values[":pk"]["S"]
        begins = values.get(":begins", {"S": ""})["S"]
        order, items = self._order[pk], self._items[pk]
        start = request.get("ExclusiveStartKey")
        first = bisect_right(order, _names(start)[1]) if start else 0
        page = order[first : first + PAGE_ITEMS]
        found = [items[sk] for sk in page if sk.startswith(begins)]
        if wanted := request.get("ProjectionExpression"):
            names = wanted.split(",")
            found = [{name: item[name] for name in names if name in item} for item in found]
        answer: Item = {"Count": len(found), "ScannedCount": len(found), "Items": found}
        if first + len(page) < len(order):
            answer["LastEvaluatedKey"] = {"pk": {"S": pk}, "sk": {"S": page[-1]}}
        return answer

    def _find(self, key: Mapping[str, Any]) -> Item | None:
        pk, sk = _names(key)
        return self._items[pk].get(sk)

    def _keep(self, item: Item) -> None:
        pk, sk = _names(item)
        if sk not in self._items[pk]:
            insort(self._order[pk], sk)
        self._items[pk][sk] = item


def _names(key: Mapping[str, Any]) -> tuple[str, str]:
    return key["pk"]["S"], key["sk"]["S"]


def _check(request: Mapping[str, Any], old: Item | None) -> None:
    """The two kinds of conditions that the service writes."""
    condition = request.get("ConditionExpression", "")
    for part in condition.split(" AND ") if condition else ():
        if part == "attribute_not_exists(pk)":
            holds = old is None
        else:
            name, _, value = part.partition(" = ")
            holds = old is not None and old.get(name) == request["ExpressionAttributeValues"][value]
        if not holds:
            raise ConditionFailed(old)


class Connection(asyncio.Protocol):
    """One connection of a client that waits for each answer."""

    def __init__(self, table: Table) -> None:
        """Answers from `table`."""
        self._table = table
        self._data = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._data += data
        head, ended, body = self._data.partition(b"\r\n\r\n")
        if not ended or len(body) < int(_header(head, b"content-length")):
            return
        self._data = b""
        assert self._transport is not None
        self._transport.write(self._answer(_header(head, b"x-amz-target"), body))

    def _answer(self, target: bytes, body: bytes) -> bytes:
        operation = target.rpartition(b".")[2].decode()
        status = "200 OK"
        try:
            answer = self._table.operations[operation](orjson.loads(body))
        except ConditionFailed as failed:
            status = "400 Bad Request"
            kind = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"
            answer = {"__type": kind, "message": "The conditional request failed"}
            answer |= {"Item": failed.item} if failed.item else {}
        text = orjson.dumps(answer)
        date = email.utils.formatdate(time.time(), usegmt=True)
        return (_HEAD % (status, date, len(text), zlib.crc32(text))).encode() + text


def _header(head: bytes, name: bytes) -> bytes:
    for line in head.split(b"\r\n"):
        key, _, value = line.partition(b":")
        if key.lower() == name:
            return value.strip()
    raise ValueError(f"a request without {name.decode()}")


async def serve(authority_file: Path) -> None:
    """Runs until standard input is closed."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(authority_file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    table = Table()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(table), "127.0.0.1", 0, ssl=context)
    print(json.dumps({"https": server.sockets[0].getsockname()[1]}), flush=True)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
