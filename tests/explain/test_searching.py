"""What resembles a key that is not listed is looked for by one call at a time."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from global_discovery.domain.explanation import Code
from global_discovery.domain.limits import Limit, LimitReached
from global_discovery.serving.turns import MAX_LARGE_WAITING_OF_ONE
from support.page_world import a_call
from support.rest import RestUnderTest, a_rest_face


@pytest.fixture
async def rest() -> AsyncIterator[RestUnderTest]:
    async with a_rest_face() as under_test:
        yield under_test


async def test_a_search_waits_for_the_one_before_it_and_a_pool_that_is_listed_for_none(
    rest: RestUnderTest,
) -> None:
    core, there, unknown = rest.core, a_call(0).registration.key, a_call(1).registration.key
    await core.registrar.register(a_call(0))
    async with core._searches.one("somebody", 0):
        assert (await core.explain(there, "a")).verdict.code is Code.LISTED
        searches = [
            asyncio.create_task(core.explain(unknown, "a")) for _ in range(MAX_LARGE_WAITING_OF_ONE)
        ]
        await asyncio.sleep(0)
        with pytest.raises(LimitReached) as refused:
            await core.explain(unknown, "a")
        assert refused.value.limit is Limit.LARGE_CALLS
        reply = await rest.call("GET", f"/why?pool={there}")
        assert reply.status == 200
        assert not any(search.done() for search in searches)
    async with asyncio.timeout(20):
        found = await asyncio.gather(*searches)
    assert [each.verdict.code for each in found] == [Code.NOT_REGISTERED] * len(found)
