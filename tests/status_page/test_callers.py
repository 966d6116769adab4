"""No caller of the pages takes them from the others, and refusals count as anywhere."""

from contextlib import AsyncExitStack
from ipaddress import ip_network

import pytest

from global_discovery.domain.limits import Limit
from global_discovery.serving.page import events
from global_discovery.serving.turns import MISTAKE
from support.access import NOTHING
from support.asking_pages import FOR_PEOPLE
from support.event_stream import following
from support.rest import a_rest_face

PROXY = ip_network("127.0.0.0/8")


async def test_a_caller_with_its_part_of_the_event_streams_leaves_the_rest_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "MAX_STREAMS_OF_ONE", 2)
    async with a_rest_face(trusted=[PROXY]) as rest, AsyncExitStack() as stack:
        for _ in range(2):
            stream = following(rest, X_Forwarded_For="10.0.0.1")
            await (await stack.enter_async_context(stream)).next()
        refused = await rest.call("GET", "/events", headers={"X-Forwarded-For": "10.0.0.1"})
        assert refused.status == 429
        assert refused.json["code"] == "TOO_MANY_EVENT_STREAMS"
        async with following(rest, X_Forwarded_For="10.0.0.2") as other:
            await other.next()


@pytest.mark.parametrize("path", ["/", "/why?pool=a/b/c", "/events"])
@pytest.mark.parametrize("headers", [{}, FOR_PEOPLE], ids=["document", "page"])
async def test_who_fails_to_prove_who_it_is_too_often_is_told_so_on_pages_too(
    path: str, headers: dict[str, str]
) -> None:
    async with a_rest_face(anonymous=NOTHING) as rest:
        allowed = rest.core.settings.limits.failed_authentications_per_second
        replies = [await rest.call("GET", path, headers=headers) for _ in range(allowed + 1)]
        assert [reply.status for reply in replies] == [401] * allowed + [429]
        assert "retry-after" in replies[-1].headers
        assert rest.core.limits.refusals[Limit.FAILED_AUTHENTICATIONS] == 1


@pytest.mark.parametrize("headers", [{}, FOR_PEOPLE], ids=["document", "page"])
async def test_a_mistake_costs_its_caller_the_same_as_a_page(
    headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_rest_face() as rest:
        charged: list[float] = []
        spend = rest.core.budget.spend

        async def counting(account: str, seconds: float) -> None:
            charged.append(seconds)
            await spend(account, seconds)

        monkeypatch.setattr(rest.core.budget, "spend", counting)
        assert (await rest.call("GET", "/?bad=1", headers=headers)).status == 400
        assert charged == [MISTAKE]
