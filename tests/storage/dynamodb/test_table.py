"""The table at startup, and the command that makes it: what an operator is told."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from global_discovery.domain.clock import SystemClock
from global_discovery.domain.events import Event
from global_discovery.domain.lease import LeaseTerms
from global_discovery.storage.dynamodb.api import DynamoDB, Refused, Unreachable
from global_discovery.storage.dynamodb.items import KEPT_SECONDS
from global_discovery.storage.dynamodb.store import DynamoDBStore
from global_discovery.storage.dynamodb.table import create_table
from support import dynamodb_server
from support.client_process import ran
from support.fake_dynamodb import FakeDynamoDB

Events = list[tuple[Event, dict[str, object]]]


def a_store(api: DynamoDB, table: str, events: Events) -> DynamoDBStore:
    async def connect() -> DynamoDB:
        return api

    return DynamoDBStore(
        connect=connect,
        table=table,
        terms=LeaseTerms(),
        clock=SystemClock(),
        report=lambda event, **fields: events.append((event, fields)),
    )


async def create(table: str, **changes: Any) -> None:
    api = dynamodb_server.of_this_process().reached(SystemClock())
    request: dict[str, Any] = {
        "TableName": table,
        "KeySchema": [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        "AttributeDefinitions": [
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
        "BillingMode": "PAY_PER_REQUEST",
    }
    await api.call("CreateTable", {**request, **changes})
    await api.close()


async def opened(table: str, events: Events) -> None:
    api = dynamodb_server.of_this_process().reached(SystemClock())
    store = a_store(api, table, events)
    try:
        await store.open()
    finally:
        await store.close()


async def test_a_table_that_is_not_there_is_named_with_its_region_and_the_remedy() -> None:
    with pytest.raises(OSError, match=r"nowhere does not exist in region eu-west-1.*create-table"):
        await opened("nowhere", [])


@pytest.mark.parametrize(
    "changes",
    [
        {
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        },
        {
            "AttributeDefinitions": [
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "sk", "AttributeType": "N"},
            ],
        },
        {
            "KeySchema": [
                {"AttributeName": "sk", "KeyType": "HASH"},
                {"AttributeName": "pk", "KeyType": "RANGE"},
            ],
        },
    ],
)
async def test_a_table_with_other_keys_is_refused(changes: Any) -> None:
    table = dynamodb_server.new_table_name()
    await create(table, **changes)
    with pytest.raises(OSError, match=f"{table} has other keys.*pk .S, HASH. and sk .S, RANGE."):
        await opened(table, [])


async def test_a_table_without_ttl_works_and_is_warned_about() -> None:
    table = dynamodb_server.new_table_name()
    await create(table)
    events: Events = []
    await opened(table, events)
    assert [event for event, _ in events] == [Event.TABLE_WITHOUT_TTL]
    assert "DISABLED" in str(events[0][1]["message"])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("AccessDeniedException", "do not allow"),
        ("UnrecognizedClientException", "does not know the AWS credentials"),
        ("ExpiredTokenException", "does not know the AWS credentials"),
        ("ValidationException", "cannot be used"),
    ],
)
@pytest.mark.parametrize("operation", ["DescribeTable", "PutItem", "Query"])
async def test_what_waiting_would_not_help_is_a_sentence(
    code: str, said: str, operation: str
) -> None:
    async def refuse(called: str, request: Mapping[str, Any]) -> None:
        del request
        if called == operation:
            raise Refused(code, "no")

    with pytest.raises(OSError, match=said):
        await a_store(FakeDynamoDB().seen_through(before=refuse), "t", []).open()


async def test_a_table_that_may_not_be_asked_for_its_ttl_works() -> None:
    async def refuse(called: str, request: Mapping[str, Any]) -> None:
        del request
        if called == "DescribeTimeToLive":
            raise Refused("AccessDeniedException", "no")

    events: Events = []
    store = a_store(FakeDynamoDB().seen_through(before=refuse), "t", events)
    await store.open()
    assert [event for event, _ in events] == [Event.TABLE_WITHOUT_TTL]
    await store.close()


async def test_a_store_that_cannot_be_reached_at_the_start_is_waited_for() -> None:
    failures = iter([Unreachable("cut")] * 3)
    slept: list[float] = []

    async def cut(called: str, request: Mapping[str, Any]) -> None:
        del called, request
        if failure := next(failures, None):
            raise failure

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert store.state().failing
        await asyncio.sleep(0)

    events: Events = []
    way = FakeDynamoDB().seen_through(before=cut)

    async def connect() -> DynamoDB:
        return way

    store = DynamoDBStore(
        connect=connect,
        table="t",
        terms=LeaseTerms(),
        clock=SystemClock(),
        report=lambda event, **fields: events.append((event, fields)),
        sleep=sleep,
    )
    await store.open()
    assert len(slept) == 3
    assert [event for event, _ in events] == [Event.STORE_FAILING]
    assert not store.state().failing
    await store.close()


async def test_create_table_makes_what_open_takes_and_can_be_repeated() -> None:
    server = dynamodb_server.of_this_process()
    table = dynamodb_server.new_table_name()
    command = ("dynamodb", "create-table", "--dynamodb-table", table)
    where = {**server.environment, "GLOBAL_DISCOVERY_DYNAMODB_ENDPOINT_URL": server.url}
    first = await ran(*command, **where)
    assert (first.status, first.out, first.err) == (0, f"{table} is made\n", "")
    second = await ran(*command, **where)
    assert (second.status, second.out) == (0, f"{table} was there, and is right\n")
    events: Events = []
    await opened(table, events)
    assert events == []


async def test_create_table_turns_on_a_ttl_that_was_forgotten() -> None:
    table = dynamodb_server.new_table_name()
    await create(table)
    api = dynamodb_server.of_this_process().reached(SystemClock())
    assert await create_table(api, table, asyncio.sleep)
    assert not await create_table(api, table, asyncio.sleep)
    await api.close()


async def test_create_table_refuses_a_table_with_other_keys() -> None:
    server = dynamodb_server.of_this_process()
    table = dynamodb_server.new_table_name()
    await create(
        table,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
    )
    result = await ran(
        *("dynamodb", "create-table", "--dynamodb-table", table),
        *("--dynamodb-endpoint-url", server.url),
        **server.environment,
    )
    assert (result.status, result.out) == (1, "")
    assert f"{table} has other keys" in result.err
    assert "Traceback" not in result.err


async def test_create_table_says_what_it_cannot_reach() -> None:
    result = await ran(
        *("dynamodb", "create-table", "--dynamodb-table", "table"),
        *("--dynamodb-endpoint-url", "http://127.0.0.1:1"),
        **dynamodb_server.of_this_process().environment,
    )
    assert (result.status, result.out) == (1, "")
    assert "cannot be used" in result.err
    assert "Traceback" not in result.err


def test_ttl_leaves_everything_alone_for_a_week() -> None:
    assert KEPT_SECONDS == 7 * 24 * 3600
