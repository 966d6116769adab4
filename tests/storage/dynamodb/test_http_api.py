"""The wire: what a server may answer, and what it does not."""

import asyncio
import email.utils
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import botocore.exceptions
import pytest
from aiobotocore.credentials import AioCredentials, AioDeferredRefreshableCredentials
from aiohttp import web

from global_discovery.domain.clock import SystemClock
from global_discovery.storage.dynamodb.api import (
    CallFailed,
    ConditionFailed,
    Refused,
    Throttled,
    Unreachable,
)
from global_discovery.storage.dynamodb.http_api import (
    QUIET_SECONDS,
    HttpDynamoDB,
    Seldom,
    connect,
)
from support.clock import EPOCH, FakeClock

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Scripted:
    """A server on loopback that answers as a test says."""

    def __init__(self) -> None:
        self.requests: list[web.BaseRequest] = []
        self.answer: Handler = lambda _: _answered({})
        self.url = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        self.requests.append(request)
        return await self.answer(request)

    def says(self, status: int, body: str, **headers: str) -> None:
        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            del request
            return web.Response(status=status, text=body, headers=headers)

        self.answer = answer


async def _answered(content: object) -> web.StreamResponse:
    return web.Response(text=json.dumps(content))


@pytest.fixture
async def server() -> AsyncIterator[Scripted]:
    scripted = Scripted()
    runner = web.ServerRunner(web.Server(scripted.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    scripted.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield scripted
    await runner.cleanup()


def api_to(url: str, *, clock: FakeClock | SystemClock | None = None) -> HttpDynamoDB:
    return HttpDynamoDB(
        endpoint=url,
        region="eu-west-1",
        credentials=AioCredentials("AKIATEST", "secret"),
        clock=clock or SystemClock(),
        call_seconds=30.0,
    )


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "ProvisionedThroughputExceededException", Throttled),
        (400, "RequestLimitExceeded", Throttled),
        (400, "ThrottlingException", Throttled),
        (400, "TransactionInProgressException", Throttled),
        (400, "ConditionalCheckFailedException", ConditionFailed),
        (400, "ResourceNotFoundException", Refused),
        (400, "AccessDeniedException", Refused),
        (400, "UnrecognizedClientException", Refused),
        (500, "InternalServerError", Unreachable),
        (503, "ServiceUnavailable", Unreachable),
    ],
)
async def test_each_kind_of_error_is_told_apart(
    server: Scripted, status: int, code: str, kind: type[CallFailed]
) -> None:
    server.says(status, json.dumps({"__type": f"com.amazonaws.x#{code}", "message": "why"}))
    api = api_to(server.url)
    with pytest.raises(kind) as raised:
        await api.call("Query", {})
    assert type(raised.value) is kind
    await api.close()


@pytest.mark.parametrize(
    ("reasons", "kind"),
    [(["None", "TransactionConflict"], Throttled), (["ValidationError"], Refused)],
)
async def test_a_cancelled_transaction_is_repeated_only_for_a_conflict(
    server: Scripted, reasons: list[str], kind: type[CallFailed]
) -> None:
    content = {
        "__type": "x#TransactionCanceledException",
        "CancellationReasons": [{"Code": reason} for reason in reasons],
    }
    server.says(400, json.dumps(content))
    api = api_to(server.url)
    with pytest.raises(kind):
        await api.call("TransactWriteItems", {})
    await api.close()


async def test_a_conflict_brings_what_is_there(server: Scripted) -> None:
    item = {"l": {"S": "x"}}
    content = {"__type": "x#ConditionalCheckFailedException", "Item": item}
    server.says(400, json.dumps(content))
    api = api_to(server.url)
    with pytest.raises(ConditionFailed) as conflict:
        await api.call("UpdateItem", {})
    assert conflict.value.item == item
    await api.close()


@pytest.mark.parametrize(
    ("status", "body"), [(200, "<html>"), (502, "<html>bad gateway"), (200, "")]
)
async def test_what_is_no_json_says_nothing(server: Scripted, status: int, body: str) -> None:
    server.says(status, body)
    api = api_to(server.url)
    with pytest.raises(Unreachable):
        await api.call("Query", {})
    await api.close()


async def test_a_redirect_is_not_followed(server: Scripted) -> None:
    server.says(307, "{}", Location="http://127.0.0.1:1/")
    api = api_to(server.url)
    with pytest.raises(CallFailed):
        await api.call("Query", {})
    assert len(server.requests) == 1
    await api.close()


async def test_a_server_that_does_not_answer_is_given_up(server: Scripted) -> None:
    forever = asyncio.Event()

    async def hang(request: web.BaseRequest) -> web.StreamResponse:
        del request
        await forever.wait()
        return web.Response()

    server.answer = hang
    api = HttpDynamoDB(
        endpoint=server.url,
        region="eu-west-1",
        credentials=AioCredentials("AKIATEST", "secret"),
        clock=SystemClock(),
        call_seconds=0.2,
    )
    with pytest.raises(Unreachable):
        await api.call("Query", {})
    forever.set()
    await api.close()


async def test_a_port_that_nobody_listens_on_is_unreachable() -> None:
    api = api_to("http://127.0.0.1:1")
    with pytest.raises(Unreachable):
        await api.call("Query", {})
    await api.close()


async def test_a_clock_that_is_an_hour_off_signs_with_the_servers_time(server: Scripted) -> None:
    clock = FakeClock()
    clock.step_wall(3600)
    server.says(200, "{}", Date=email.utils.formatdate(EPOCH, usegmt=True))
    api = api_to(server.url, clock=clock)
    for _ in range(2):
        await api.call("Query", {})
    first, second = (request.headers["x-amz-date"] for request in server.requests)
    assert first == "20231114T231320Z"
    assert second == "20231114T221320Z"
    await api.close()


async def test_a_clock_that_is_set_right_again_is_believed_again(server: Scripted) -> None:
    clock = FakeClock()
    clock.step_wall(3600)
    server.says(200, "{}", Date=email.utils.formatdate(EPOCH, usegmt=True))
    api = api_to(server.url, clock=clock)
    await api.call("Query", {})
    clock.step_wall(-3600)
    for _ in range(2):
        await api.call("Query", {})
    assert server.requests[-1].headers["x-amz-date"] == "20231114T221320Z"
    await api.close()


async def test_no_credentials_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    with pytest.raises(OSError, match="no AWS credentials"):
        await connect(clock=SystemClock(), region="eu-west-1")


async def test_no_region_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(OSError, match="region"):
        await connect(clock=SystemClock())


async def test_the_endpoint_is_found_as_every_aws_tool_finds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    api = await connect(clock=SystemClock(), region="cn-north-1")
    assert api.endpoint == "https://dynamodb.cn-north-1.amazonaws.com.cn"
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:9")
    api = await connect(clock=SystemClock(), region="eu-west-1")
    assert api.endpoint == "http://127.0.0.1:9"
    given = await connect(
        clock=SystemClock(), region="eu-west-1", endpoint_url="http://127.0.0.1:8"
    )
    assert given.endpoint == "http://127.0.0.1:8"


async def test_a_proxy_of_the_environment_is_used_unless_the_host_is_exempt(
    server: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", server.url)
    api = api_to("http://dynamodb.example")
    await api.call("Query", {})
    assert server.requests[-1].host == "dynamodb.example"
    await api.close()
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    direct = api_to(server.url)
    await direct.call("Query", {})
    assert len(server.requests) == 2
    await direct.close()


@pytest.mark.parametrize(
    "problem",
    [
        RuntimeError("the refreshed credentials are still expired"),
        botocore.exceptions.ClientError({"Error": {"Code": "AccessDenied"}}, "AssumeRole"),
    ],
)
async def test_credentials_that_cannot_be_renewed_are_a_failed_call(problem: Exception) -> None:
    async def refuse() -> dict[str, str]:
        raise problem

    api = HttpDynamoDB(
        endpoint="http://127.0.0.1:1",
        region="eu-west-1",
        credentials=AioDeferredRefreshableCredentials(refuse, "assume-role"),
        clock=SystemClock(),
        call_seconds=30.0,
    )
    with pytest.raises(Unreachable, match="no credentials"):
        await api.call("Query", {})
    await api.close()


def test_what_the_provider_of_credentials_logs_with_each_call_is_passed_on_seldom() -> None:
    clock = FakeClock()
    seldom = Seldom(clock)
    line = logging.makeLogRecord({"msg": "refreshing failed"})
    assert [seldom.filter(line) for _ in range(3)] == [True, False, False]
    clock.advance(QUIET_SECONDS)
    assert seldom.filter(line)
