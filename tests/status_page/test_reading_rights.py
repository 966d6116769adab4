"""Who may not read a pool learns nothing of it from any page."""

from collections.abc import AsyncIterator

import pytest

from global_discovery.domain.access import NO_KEY, Grant, Rights, Scope
from global_discovery.domain.pool import PoolKey
from global_discovery.view.filters import EVERYTHING
from support.asking_pages import page_of, pools_on, troubles_on
from support.event_stream import following
from support.page_world import a_call
from support.rest import RestUnderTest, a_rest_face

HIDDEN = "secret-cluster"


ONLY_THE_OTHERS = Rights(Scope(frozenset({Grant(("fra-*", "iad-*", "bom-*"))})), NO_KEY)


@pytest.fixture
async def restricted() -> AsyncIterator[RestUnderTest]:
    """A face whose callers may not read one cluster, in which everything happens."""
    async with a_rest_face(anonymous=ONLY_THE_OTHERS) as rest:
        register = rest.core.registrar.register
        await register(a_call(0))
        for number in range(1, 4):
            call = a_call(number, cluster=HIDDEN, region="secret-region", model=f"secret-{number}")
            await register(call)
        await register(a_call(1, cluster=HIDDEN, name="secret-1-0001", relay_id="b", model="other"))
        await register(a_call(5, cluster=HIDDEN, frontends=0))
        yield rest


@pytest.mark.parametrize(
    "path",
    ["/", "/?group=region", "/?group=cluster", "/?q=s", "/?group=none", "/why?pool=c/llm/x"],
)
async def test_no_page_names_what_its_caller_may_not_read(
    restricted: RestUnderTest, path: str
) -> None:
    assert b"secret" not in (await restricted.call("GET", path)).body


async def test_events_tell_only_that_something_moved(restricted: RestUnderTest) -> None:
    async with following(restricted) as stream:
        while (event := await stream.next()).name != "pools":
            pass
        assert event.data == {}
        restricted.pass_time(4)
        restricted.face.events.look()
        while (event := await stream.next()).name != "summary":
            pass
        assert event.data == {}


async def test_figures_troubles_and_changes_are_those_of_what_may_be_read(
    restricted: RestUnderTest,
) -> None:
    page = await page_of(restricted)
    assert page.by_class("tiles")[0].attributes["data-pools"] == "1"
    assert len(pools_on(page)) == 1
    assert troubles_on(page) == {}
    assert len(page.by_id("changes").every("li")) == 1


async def test_what_concerns_the_instance_is_not_shown(restricted: RestUnderTest) -> None:
    watcher = restricted.core.pool_watchers.open(EVERYTHING, None, 5.0, peer="10.66.66.66")
    try:
        page = await page_of(restricted)
    finally:
        watcher.close()
    assert "10.66.66.66" not in page.text
    assert page.every(where=lambda node: node.attributes.get("id") == "watchers") == []
    assert page.by_id("sources").every("li") == []


async def test_a_key_that_may_not_be_read_is_refused_alike_whether_or_not_it_exists(
    restricted: RestUnderTest,
) -> None:
    there = a_call(5, cluster=HIDDEN).registration.key
    answers = []
    for key in (there, PoolKey(HIDDEN, "llm", "nobody")):
        reply = await restricted.call("GET", f"/why?pool={key}")
        answers.append((reply.status, reply.body))
    assert answers[0] == answers[1]
    assert answers[0][0] == 401, "its caller has no identity"
