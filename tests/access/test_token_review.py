"""What is made of an API server's answers to a TokenReview."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from global_discovery.domain.timer import SystemTimer
from global_discovery.kubernetes.connection import ApiConnection
from global_discovery.kubernetes.credentials import Kubeconfig
from global_discovery.kubernetes.token_review import PATH, TokenReviewer
from global_discovery.serving.access.reviews import ReviewFailed
from global_discovery.serving.reviewing import ApiServerReviewer
from support.access import AUDIENCE, a_token

USER = "system:serviceaccount:dynamo:relay"
GOOD = {"authenticated": True, "user": {"username": USER}, "audiences": [AUDIENCE]}


class Api:
    """Answers each POST as a test says."""

    def __init__(self, reviewer: ApiServerReviewer) -> None:
        self.reviewer = reviewer
        self.asked: list[dict[str, Any]] = []
        self.answer: Callable[[dict[str, Any]], web.Response] = lambda _: status(GOOD)


def status(told: Any, code: int = 201) -> web.Response:
    return web.json_response({"kind": "TokenReview", "status": told}, status=code)


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    server = web.Application()
    runner = web.AppRunner(server)
    path = tmp_path / "kubeconfig"
    connection = ApiConnection(Kubeconfig(str(path)), timer=SystemTimer())
    made = Api(ApiServerReviewer(TokenReviewer(connection, audience=AUDIENCE, timer=SystemTimer())))

    async def review(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer own"
        made.asked.append(await request.json())
        return made.answer(made.asked[-1])

    server.router.add_post(PATH, review)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr] # it is started
    named = {"server": f"http://127.0.0.1:{port}"}
    config = {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": named}],
        "users": [{"name": "test", "user": {"token": "own"}}],
    }
    path.write_text(yaml.safe_dump(config))
    try:
        yield made
    finally:
        await made.reviewer.close()
        await runner.cleanup()


async def test_the_token_is_shown_with_our_audience(api: Api) -> None:
    assert await api.reviewer.review(a_token()) == USER
    assert api.asked == [
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": a_token(), "audiences": [AUDIENCE]},
        }
    ]


@pytest.mark.parametrize(
    "told",
    [
        {"authenticated": False, "error": "expired"},
        {"authenticated": False} | {"user": GOOD["user"], "audiences": [AUDIENCE]},
        GOOD | {"audiences": None},
        GOOD | {"audiences": []},
        GOOD | {"audiences": ["https://kubernetes.default.svc"]},
        GOOD | {"user": None},
        {},
    ],
)
async def test_a_token_is_good_only_for_our_audience(api: Api, told: dict[str, Any]) -> None:
    api.answer = lambda _: status(told)
    assert await api.reviewer.review(a_token()) is None


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (lambda: web.Response(status=403, text="no"), "forbidden"),
        (lambda: web.Response(status=401, text="no"), "unauthorized"),
        (lambda: web.Response(status=500, text="oops"), "server_error"),
        (lambda: web.Response(status=429, text="later"), "throttled"),
        (lambda: web.Response(status=201, text="<html>"), "undecodable"),
        (lambda: web.Response(status=201, body=b"\xff"), "undecodable"),
        (lambda: web.json_response([], status=201), "undecodable"),
        (lambda: status({"authenticated": "yes"}), "undecodable"),
        (lambda: status({"error": "x" * 300_000}), "too_long"),
    ],
)
async def test_an_answer_that_says_nothing_is_a_failed_review(
    api: Api, answer: Callable[[], web.Response], failure: str
) -> None:
    api.answer = lambda _: answer()
    with pytest.raises(ReviewFailed, match=failure):
        await api.reviewer.review(a_token())


async def test_a_server_that_repeats_the_token_is_not_quoted(api: Api) -> None:
    api.answer = lambda asked: web.Response(status=422, text=json.dumps(asked))
    with pytest.raises(ReviewFailed) as failed:
        await api.reviewer.review("short.token.x")
    assert "short.token.x" not in str(failed.value)


async def test_nobody_who_answers_is_a_failed_review(tmp_path: Path) -> None:
    connection = ApiConnection(Kubeconfig(str(tmp_path / "none")), timer=SystemTimer())
    reviewer = ApiServerReviewer(TokenReviewer(connection, audience=AUDIENCE, timer=SystemTimer()))
    async with asyncio.timeout(30):
        with pytest.raises(ReviewFailed, match="credentials"):
            await reviewer.review(a_token())
    await reviewer.close()
