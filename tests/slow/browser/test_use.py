"""Finding a pool: by search, by keyboard alone, without JavaScript, among ten thousand."""

import re
from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import expect

from support.browser import WatchedPage
from support.page_world import PageWorld, a_call

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
Open = Callable[..., Awaitable[WatchedPage]]
expect.set_options(timeout=30_000)


async def test_a_search_is_answered_as_it_is_typed(world: PageWorld, open_page: Open) -> None:
    await world.register_many(300)
    page = (await open_page(world)).page
    await page.evaluate("window.kept = true")
    field = page.locator("#q")
    await field.press_sequentially("deepseek-r1-0008")
    await expect(page.locator("#shown")).to_contain_text("1 pool found")
    await expect(page).to_have_url(f"{world.url}/?q=deepseek-r1-0008")
    await expect(field).to_be_focused()
    await page.locator("#q").fill("")
    await expect(page.locator("#shown")).to_contain_text("300 pools")
    await page.locator("#group").select_option("region")
    await expect(page.locator(".group").first).to_contain_text("ap-south")
    assert await page.evaluate("window.kept") is True
    await page.reload()
    await expect(page.locator("#group")).to_have_value("region")


async def test_the_keyboard_is_enough(world: PageWorld, open_page: Open) -> None:
    await world.register_many(120)
    page = (await open_page(world)).page
    await page.keyboard.press("Tab")
    await expect(page.locator(".skip")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("#main")).to_be_focused()
    await page.keyboard.press("/")
    await expect(page.locator("#q")).to_be_focused()
    await page.keyboard.type("gpt-oss-120b-0005")
    await expect(page.locator("#shown")).to_contain_text("1 pool found")
    link = page.locator("#list a.key")
    for _ in range(8):
        await page.keyboard.press("Tab")
        if await link.evaluate("one => one === document.activeElement"):
            break
    await expect(link).to_be_focused()
    assert await link.evaluate("one => getComputedStyle(one).outlineStyle") == "solid"
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_contain_text("It is listed")
    await expect(page.locator("#live")).to_have_text("Live")  # its script runs
    await page.keyboard.press("/")
    await expect(page.locator("#ask")).to_be_focused()


async def test_everything_can_be_reached_without_javascript(
    world: PageWorld, open_page: Open
) -> None:
    await world.register_many(250)
    page = (await open_page(world, java_script_enabled=False)).page
    await expect(page.locator("#live")).to_contain_text("As of")
    await page.get_by_role("link", name="Next").click()
    await expect(page.locator("#shown")).to_contain_text("101\u2013200 shown")
    await page.locator("#q").fill("mistral")
    await page.locator("#group").select_option("cluster")
    await page.get_by_role("button", name="Show").click()
    await expect(page.locator("#shown")).to_contain_text("41 pools found")
    await expect(page.locator(".group").first).to_contain_text("bom-1")
    await page.locator("#list a.key").first.click()
    await expect(page.locator("h1")).to_contain_text("It is listed")
    await page.locator("#ask").fill("fra-1/llm/nobody")
    await page.get_by_role("button", name="Explain").click()
    await expect(page.locator("h1")).to_contain_text("NOT_REGISTERED")
    await page.get_by_role("link", name="All pools").click()
    await expect(page.locator("#list tr[id^=p-]")).to_have_count(100)


async def test_ten_thousand_pools_stay_usable(world: PageWorld, open_page: Open) -> None:
    await world.register_many(10_000)
    page = (await open_page(world)).page
    await expect(page.locator("#shown")).to_contain_text(re.compile(r"10.000 pools, 1.100 shown"))
    assert await page.locator("*").count() < 4_000
    await page.locator("#q").fill("gpt-oss-120b-9995")
    await expect(page.locator("#shown")).to_contain_text("1 pool found")
    await page.locator("#q").fill("")
    await page.get_by_role("link", name="Last").click()
    await expect(page.locator("#shown")).to_contain_text(re.compile(r"9.901.10.000 shown"))
    await expect(page.locator("#live")).to_have_text("Live")


async def test_a_filter_that_is_followed_can_be_taken_away(
    world: PageWorld, open_page: Open
) -> None:
    await world.register(*(a_call(number) for number in range(12)))
    page = (await open_page(world)).page
    await page.get_by_role("link", name="openai/gpt-oss-120b").click()
    await expect(page.locator("#shown")).to_contain_text("2 pools found")
    await page.get_by_role("link", name="remove this filter").click()
    await expect(page.locator("#shown")).to_contain_text("12 pools")
