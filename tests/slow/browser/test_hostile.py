"""Names that try to be more than names, in a real browser."""

import json
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from playwright.async_api import expect

from global_discovery.domain.printable import printable
from support.browser import WatchedPage
from support.hostile_names import HOSTILE
from support.page_world import PageWorld

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
Open = Callable[..., Awaitable[WatchedPage]]
expect.set_options(timeout=30_000)


async def register(world: PageWorld) -> None:
    async with aiohttp.ClientSession() as session:
        for number, model in enumerate(HOSTILE.values()):
            body = {
                "cluster_id": "<i>c<b>",
                "namespace": "n\"'",
                "dgd_name": f"<img src=x onerror=alert({number})>",
                "model": model,
                "location": {"region": model[:60].strip()},
                "frontends": ["http://10.0.0.1:8000"],
                "relay_id": "<script>window.hacked=1</script>",
            }
            data = json.dumps(body).encode()
            headers = {"Content-Type": "application/json"}
            async with session.post(f"{world.url}/pools", data=data, headers=headers) as answer:
                assert answer.status == 200


async def assert_only_text(watched: WatchedPage) -> None:
    page = watched.page
    assert await page.evaluate("window.hacked") is None
    assert await page.locator("img").count() == 1
    assert await page.locator("script").count() == 1
    assert await page.locator("main i, main style").count() == 0


@pytest.mark.parametrize("group", ["model", "region", "none"])
async def test_hostile_names_are_shown_and_run_nothing(
    world: PageWorld, open_page: Open, group: str
) -> None:
    watched = await open_page(world, f"/?group={group}", viewport={"width": 1280, "height": 900})
    await register(world)  # so that they come in through the live update
    page = watched.page
    await expect(page.locator(".tiles")).to_have_attribute("data-pools", str(len(HOSTILE)))
    await assert_only_text(watched)
    shown = await page.locator("#list bdi").all_text_contents()
    if group != "region":
        assert {printable(model) for model in HOSTILE.values()} <= set(shown)
    await page.reload()
    await assert_only_text(watched)
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_a_hostile_pool_is_explained_and_searched_for(
    world: PageWorld, open_page: Open
) -> None:
    await register(world)
    watched = await open_page(world)
    page = watched.page
    await page.locator("#q").fill('"><script>window.hacked=1</script>')
    await expect(page.locator("#shown")).to_contain_text("1 pool found")
    await assert_only_text(watched)
    await page.locator("#list a.key").click()
    await expect(page.locator("h1")).to_contain_text("It is listed")
    await expect(page.locator("#registration")).to_contain_text("<script>window.hacked=1</script>")
    await assert_only_text(watched)
