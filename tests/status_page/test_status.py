"""What stands on the status page."""

import pytest

from global_discovery.domain.lease import Heartbeat
from global_discovery.domain.pool import Router
from global_discovery.view.filters import EVERYTHING, PoolFilter
from support.asking_pages import page_of, pools_on, troubles_on
from support.html_page import Node
from support.page_world import a_call
from support.rest import RestUnderTest, a_body, a_rest_face


async def register(rest: RestUnderTest, *calls: Heartbeat) -> list[str]:
    return [(await rest.core.registrar.register(call)).lease_id for call in calls]


def figures(page: Node) -> dict[str, str]:
    tiles = page.by_class("tiles")[0].every("div")
    return {tile.every("dt")[0].text: tile.every("dd")[0].text for tile in tiles}


async def test_an_instance_that_starts_says_that_pools_may_be_missing_and_what_to_do(
    rest: RestUnderTest,
) -> None:
    verdict = (await page_of(rest)).by_id("verdict")
    assert verdict.attributes["data-exact"] == "false"
    assert "Pools may be missing" in verdict.text
    assert "ESTIMATED" in verdict.text
    assert "STARTING" in verdict.text
    assert "Wait" in verdict.text


async def test_a_complete_list_is_said_to_be_complete(rest: RestUnderTest) -> None:
    await rest.post(a_body())
    rest.end_of_starting()
    page = await page_of(rest)
    assert "The list is complete" in page.by_id("verdict").text
    assert "EXACT" in page.by_id("verdict").text
    assert page.every("title")[0].text.startswith("Complete, 0 pools")


async def test_the_figures_are_those_of_the_whole_list(rest: RestUnderTest) -> None:
    await register(rest, *(a_call(number) for number in range(31)))
    assert figures(await page_of(rest, "/?q=deepseek")) == {
        "Pools": "31",
        "Models": "6",
        "Regions": "3",
        "Clusters": "5",
        "GPUs": str(5 * (2 + 16 + 32 + 8 + 4 + 8) + 2),
        "Watchers": "0",
    }


async def test_each_pool_has_the_time_left_of_its_longest_lease(rest: RestUnderTest) -> None:
    await register(rest, a_call(relay_id="a"))
    rest.pass_time(4)
    await register(rest, a_call(relay_id="b"))
    rest.pass_time(1)
    [meter] = (await page_of(rest)).every("meter")
    assert float(meter.attributes["value"]) == 14.0
    assert meter.attributes["max"] == "15.0"
    assert meter.attributes["aria-label"]


async def test_a_lease_is_low_once_a_heartbeat_was_missed(rest: RestUnderTest) -> None:
    await register(rest, a_call())
    rest.pass_time(10.5)
    page = await page_of(rest)
    [meter] = page.every("meter")
    value, low = float(meter.attributes["value"]), float(meter.attributes["low"])
    assert value < low
    assert "heartbeat missed" in page.by_id("list").text


async def test_missed_heartbeats_need_attention_but_not_while_starting(rest: RestUnderTest) -> None:
    await register(rest, a_call())
    rest.pass_time(11)
    assert troubles_on(await page_of(rest)) == {}
    await register(rest, a_call())
    rest.pass_time(11)
    assert troubles_on(await page_of(rest)) == {"HEARTBEAT_OVERDUE": 1}


async def test_pools_stand_in_groups_with_their_sizes(rest: RestUnderTest) -> None:
    await register(rest, *(a_call(number) for number in range(12)))
    page = await page_of(rest)
    headings = [row.text for row in page.by_class("group")]
    assert headings[0] == "2 Qwen/Qwen3-0.6B"
    assert len(headings) == 6
    by_region = [row.text for row in (await page_of(rest, "/?group=region")).by_class("group")]
    assert by_region == ["12 eu-central"]
    assert (await page_of(rest, "/?group=none")).by_class("group") == []


async def test_what_narrows_the_list_can_be_taken_away_one_by_one(rest: RestUnderTest) -> None:
    await register(rest, *(a_call(number) for number in range(12)))
    page = await page_of(rest, "/?region=eu-central&q=gpt&group=region")
    assert len(pools_on(page)) == 2
    links = [chip.attributes["href"] for chip in page.by_class("chip")]
    assert links == ["/?q=gpt&group=region", "/?region=eu-central&group=region"]


async def test_a_search_that_finds_nothing_says_so(rest: RestUnderTest) -> None:
    await register(rest, a_call())
    page = await page_of(rest, "/?q=nothing")
    assert "No pool matches" in page.by_id("shown").text
    assert pools_on(page) == []


@pytest.mark.parametrize(
    "found", ["DEEPSEEK", "deepseek-AI/deepseek", "bom-1", "ap-SOUTH", "llm/deepseek-r1", "r1-0026"]
)
async def test_a_search_looks_at_key_model_and_region_whatever_the_case(
    rest: RestUnderTest, found: str
) -> None:
    await register(rest, *(a_call(number) for number in range(30)))
    assert "bom-1/llm/deepseek-r1-0026" in pools_on(await page_of(rest, f"/?q={found}"))


async def test_a_hundred_pools_are_on_a_page_and_all_pages_have_all_of_them(
    rest: RestUnderTest,
) -> None:
    await register(rest, *(a_call(number) for number in range(250)))
    pages = [await page_of(rest, f"/?page={number}") for number in (1, 2, 3)]
    assert [len(pools_on(page)) for page in pages] == [100, 100, 50]
    assert len({key for page in pages for key in pools_on(page)}) == 250
    assert "continued" in pages[1].by_class("group")[0].text
    assert "101\u2013200 shown" in pages[1].by_id("shown").text
    next_link, _ = (link for link in pages[0].by_class("pager")[0].every("a"))
    assert next_link.attributes["href"] == "/?page=2"
    beyond = await page_of(rest, "/?page=999")
    assert pools_on(beyond) == pools_on(pages[2])


async def test_the_last_changes_are_told_with_their_times(rest: RestUnderTest) -> None:
    [lease] = await register(rest, a_call())
    await page_of(rest)
    await register(rest, a_call(frontends=3)._replace(lease_id=lease))
    await page_of(rest)
    rest.pass_time(20)
    changes = (await page_of(rest)).by_id("changes").every("li")
    assert [change.by_class("what")[0].text for change in changes] == [
        "removed",
        "changed",
        "added",
    ]
    assert "frontends" in changes[1].text
    assert "20 s ago" in changes[1].text


async def test_a_pool_without_frontends_needs_attention(rest: RestUnderTest) -> None:
    await register(rest, a_call(frontends=0), a_call(1))
    page = await page_of(rest)
    assert troubles_on(page) == {"NO_FRONTENDS_REGISTERED": 1}
    assert "no frontend" in page.by_id("list").text
    assert "/why?pool=" in page.by_id("attention").every("a")[0].attributes["href"]


async def test_relays_that_disagree_need_attention(rest: RestUnderTest) -> None:
    name = a_call().registration.key.dgd_name
    await register(rest, a_call(), a_call(name=name, relay_id="b", frontends=3))
    page = await page_of(rest)
    assert troubles_on(page) == {"RELAYS_DISAGREE": 1}
    assert "relays disagree" in page.by_id("list").text


async def test_lists_of_what_is_wrong_are_bounded_and_counted(rest: RestUnderTest) -> None:
    await register(rest, *(a_call(number, frontends=0) for number in range(130)))
    page = await page_of(rest)
    assert troubles_on(page) == {"NO_FRONTENDS_REGISTERED": 130}
    items = page.by_class("items")[0].every("li")
    assert len(items) == 101
    assert items[-1].text == "and 30 more"


async def test_watchers_are_shown_with_what_they_want_and_how_far_they_are_behind(
    rest: RestUnderTest,
) -> None:
    await register(rest, a_call())
    streams = rest.core.pool_watchers
    models = PoolFilter(models=frozenset(f"m{number}" for number in range(6)))
    fast = streams.open(EVERYTHING, rest.core.pools.sequence, 5.0, peer="10.1.1.1")
    slow = streams.open(models, rest.core.pools.sequence, 5.0, peer="10.1.1.2")
    try:
        await register(rest, a_call(1))
        rest.core.pools.refresh()
        await fast.next()
        page = (await page_of(rest)).by_id("watchers")
    finally:
        fast.close()
        slow.close()
    first, second = (row.text for row in page.every("tbody")[0].every("tr"))
    assert first.startswith("10.1.1.2 pools: model: m0, m1, m2, m3 and 2 more 1 ")
    assert second.startswith("10.1.1.1 pools: everything 0 ")
    assert "the slowest is 1 change behind" in page.text


async def test_routers_are_shown_as_text() -> None:
    async with a_rest_face(routers=[Router("eu-1", "http://10.0.0.1:1")]) as rest:
        routers = (await page_of(rest)).by_id("routers")
        assert [row.text for row in routers.every("tr")][1:] == ["eu-1 http://10.0.0.1:1"]
        assert routers.every("a") == []


async def test_the_page_names_instance_version_mode_and_lease(rest: RestUnderTest) -> None:
    about = (await page_of(rest)).by_id("about").text
    settings = rest.core.settings
    assert settings.instance_id in about
    assert settings.version in about
    assert "registrations, memory store" in about
    assert "15 s, heartbeat each 5 s" in about


async def test_no_page_shows_a_lease_id(rest: RestUnderTest) -> None:
    leases = await register(rest, a_call(), a_call(1))
    for path in ("/", f"/why?pool={a_call().registration.key}"):
        reply = await rest.call("GET", path)
        assert not [lease for lease in leases if lease.encode() in reply.body]


async def test_the_page_keeps_its_calm_while_nothing_is_wrong(rest: RestUnderTest) -> None:
    await register(rest, a_call())
    attention = (await page_of(rest)).by_id("attention")
    assert attention.text == "Nothing needs attention"
