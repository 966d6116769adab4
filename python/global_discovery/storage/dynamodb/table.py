"""How the table must look, checked before it is used and made by `create-table`."""

from collections.abc import Mapping
from typing import Any, NoReturn

from global_discovery.domain.events import Event, Report
from global_discovery.storage.dynamodb.api import CallFailed, DynamoDB, Refused
from global_discovery.storage.dynamodb.retrying import Retrying, Sleep

TTL_ATTRIBUTE = "expires_at"
KEYS = [
    {"AttributeName": "pk", "KeyType": "HASH"},
    {"AttributeName": "sk", "KeyType": "RANGE"},
]
ATTRIBUTES = [
    {"AttributeName": "pk", "AttributeType": "S"},
    {"AttributeName": "sk", "AttributeType": "S"},
]
_STRANGER = frozenset(
    {
        "UnrecognizedClientException",
        "InvalidSignatureException",
        "IncompleteSignatureException",
        "MissingAuthenticationTokenException",
        "ExpiredTokenException",
    }
)
_POLL_SECONDS = 1.0
_CREATION_SECONDS = 300.0


async def check_table(api: DynamoDB, calls: Retrying, name: str, report: Report) -> None:
    """The table is there, takes our keys and is not being deleted.

    Raises OSError with a sentence for the operator where waiting would not help,
    and CallFailed where it may. Without TTL it works, and grows: that is reported.
    """
    table = (await _asked(api, "DescribeTable", name))["Table"]
    _check_keys(table, name)
    if table.get("TableStatus") not in {"ACTIVE", "UPDATING"}:
        raise CallFailed(f"the table {name} is {table.get('TableStatus')}")
    try:
        ttl = await calls.call("DescribeTimeToLive", {"TableName": name}, until=0.0)
    except CallFailed as problem:
        report(Event.TABLE_WITHOUT_TTL, table=name, message=str(problem))
        return
    described = ttl.get("TimeToLiveDescription", {})
    if not _ttl_is_on(described):
        message = f"TTL on {TTL_ATTRIBUTE} is {described.get('TimeToLiveStatus', 'DISABLED')}"
        report(Event.TABLE_WITHOUT_TTL, table=name, message=message)


async def create_table(api: DynamoDB, name: str, sleep: Sleep) -> bool:
    """Makes the table as it must be, and waits for it; False when it was there and right.

    Can be called again and again, also after it was interrupted. Raises OSError
    with a sentence for the operator.
    """
    try:
        made = await _create(api, name)
        for _ in range(int(_CREATION_SECONDS / _POLL_SECONDS)):
            table = (await _asked(api, "DescribeTable", name))["Table"]
            _check_keys(table, name)
            if table.get("TableStatus") == "ACTIVE":
                break
            await sleep(_POLL_SECONDS)
        else:
            raise OSError(f"the table {name} is still {table.get('TableStatus')}; try again later")
        described = await api.call("DescribeTimeToLive", {"TableName": name})
        if not _ttl_is_on(described.get("TimeToLiveDescription", {})):
            made = True
            setting = {"Enabled": True, "AttributeName": TTL_ATTRIBUTE}
            await api.call(
                "UpdateTimeToLive", {"TableName": name, "TimeToLiveSpecification": setting}
            )
    except CallFailed as problem:
        raise_for_operator(problem, api, name)
    return made


async def _create(api: DynamoDB, name: str) -> bool:
    try:
        await api.call("DescribeTable", {"TableName": name})
    except Refused as missing:
        if missing.code != "ResourceNotFoundException":
            raise
    else:
        return False
    request = {
        "TableName": name,
        "KeySchema": KEYS,
        "AttributeDefinitions": ATTRIBUTES,
        "BillingMode": "PAY_PER_REQUEST",
    }
    try:
        await api.call("CreateTable", request)
    except Refused as refused:
        if refused.code != "ResourceInUseException":  # somebody else makes it right now
            raise
    return True


async def _asked(api: DynamoDB, operation: str, name: str) -> dict[str, Any]:
    try:
        return await api.call(operation, {"TableName": name})
    except Refused as problem:
        raise_for_operator(problem, api, name)


def raise_for_operator(problem: CallFailed, api: DynamoDB, name: str) -> NoReturn:
    """Raises OSError with a sentence that says what to do about it."""
    where = f"in region {api.region}"
    if problem.code == "ResourceNotFoundException":
        raise OSError(
            f"the table {name} does not exist {where}: name the right region, or make it with "
            f"`global-discovery dynamodb create-table --dynamodb-table {name}`"
        ) from problem
    if problem.code == "AccessDeniedException":
        raise OSError(
            f"the AWS credentials do not allow what is needed on the table {name} {where} "
            f"(docs/dynamodb.md has the policy): {problem}"
        ) from problem
    if problem.code in _STRANGER:
        raise OSError(f"DynamoDB {where} does not know the AWS credentials: {problem}") from problem
    raise OSError(f"the table {name} cannot be used {where}: {problem}") from problem


def _check_keys(table: Mapping[str, Any], name: str) -> None:
    keys = sorted(table.get("KeySchema", ()), key=lambda key: str(key.get("KeyType")))
    types = {a["AttributeName"]: a["AttributeType"] for a in table.get("AttributeDefinitions", ())}
    if keys != KEYS or types.get("pk") != "S" or types.get("sk") != "S":
        found = ", ".join(
            f"{key['AttributeName']} ({types.get(key['AttributeName'])}, {key['KeyType']})"
            for key in keys
        )
        raise OSError(
            f"the table {name} has other keys ({found}): it needs pk (S, HASH) and sk (S, RANGE)"
        )


def _ttl_is_on(described: Mapping[str, Any]) -> bool:
    return (
        described.get("TimeToLiveStatus") in {"ENABLED", "ENABLING"}
        and described.get("AttributeName") == TTL_ATTRIBUTE
    )
