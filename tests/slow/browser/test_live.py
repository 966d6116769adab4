"""The page follows what happens, without a reload and without losing its reader's place."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from playwright.async_api import Page, expect

from support.browser import WatchedPage
from support.page_world import PageWorld, a_call, a_page_world

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
Open = Callable[..., Awaitable[WatchedPage]]
expect.set_options(timeout=30_000)


async def mark(page: Page) -> None:
    """So that a reload would be seen."""
    await page.evaluate("window.kept = true")


async def assert_not_reloaded(page: Page) -> None:
    assert await page.evaluate("window.kept") is True


async def test_a_registration_appears_without_a_reload(world: PageWorld, open_page: Open) -> None:
    page = (await open_page(world)).page
    await mark(page)
    await expect(page.locator("#shown")).to_contain_text("No pool is registered")
    call = a_call()
    await world.register(call)
    row = page.locator("#list tbody tr[id^=p-]")
    await expect(row).to_contain_text(call.registration.key.dgd_name)
    await expect(page.locator(".tiles")).to_have_attribute("data-pools", "1")
    await expect(page.locator("#changes")).to_contain_text("added")
    await expect(page.locator("#news")).to_have_text("1 pools.")
    await expect(page).to_have_title(re.compile("1 pool "))
    world.silence(call)
    await world.pass_time(40)
    await expect(row).to_have_count(0)
    await expect(page.locator("#changes li").first).to_contain_text("removed")
    await assert_not_reloaded(page)


async def test_the_bar_of_a_lease_moves_while_nothing_changes(
    world: PageWorld, open_page: Open
) -> None:
    world.beating = False
    await world.register(a_call())
    page = (await open_page(world)).page
    meter = page.locator("meter")
    before = float(await meter.get_attribute("value") or 0)
    await expect(meter).not_to_have_attribute("value", str(before))
    assert float(await meter.get_attribute("value") or 0) < before


async def test_a_new_mark_is_shown_and_announced(world: PageWorld, open_page: Open) -> None:
    await world.register(a_call())
    page = (await open_page(world)).page
    await expect(page.locator("h1")).to_contain_text("Pools may be missing")
    await world.pass_time(20)
    await expect(page.locator("h1")).to_contain_text("The list is complete")
    await expect(page.locator("#news")).to_have_text("The list is complete.")


async def test_what_its_reader_opened_focused_typed_and_scrolled_to_stays(
    world: PageWorld, open_page: Open
) -> None:
    await world.register(*(a_call(number, frontends=0) for number in range(40)))
    page = (await open_page(world)).page
    await mark(page)
    trouble = page.locator("details.trouble").first
    await trouble.locator("summary").click()
    link = page.locator("#list a.key").nth(20)
    await link.focus()
    focused = await link.text_content()
    place = await page.evaluate("scrollY")
    assert place > 0
    await page.locator("#ask").evaluate("field => field.value = 'half/written'")
    for number in range(40, 44):
        await world.register(a_call(number, frontends=0))
    await expect(page.locator(".tiles")).to_have_attribute("data-pools", "44")
    assert await trouble.get_attribute("open") is not None
    assert await page.evaluate("document.activeElement.textContent") == focused
    assert await page.locator("#ask").input_value() == "half/written"
    await assert_not_reloaded(page)


async def test_an_explanation_follows_its_pool(world: PageWorld, open_page: Open) -> None:
    call = a_call()
    page = (await open_page(world, f"/why?pool={call.registration.key}")).page
    await mark(page)
    await expect(page.locator("h1")).to_contain_text("It is not listed NOT_REGISTERED")
    await world.register(call)
    await expect(page.locator("h1")).to_contain_text("It is listed")
    await expect(page.locator("#content")).to_contain_text("http://10.0.0.0:8000")
    await assert_not_reloaded(page)


async def test_a_restart_is_said_and_survived(open_page: Open) -> None:
    async with a_page_world() as first:
        port = first.service.rest.port
        await first.register(a_call())
        watched = await open_page(first)
        watched.forgives_cuts = True
        page = watched.page
        await mark(page)
        instance = await page.locator("#about code").text_content()
    await expect(page.locator("#live")).to_have_text("Connection lost, trying again")
    await expect(page.locator("#list")).to_contain_text("qwen3-0-6b-0000")
    async with a_page_world(rest_port=port) as second:
        await second.register(a_call(1))
        await expect(page.locator("#live")).to_have_text("Live")
        await expect(page.locator("#about code")).not_to_have_text(str(instance))
        await expect(page.locator("#list")).to_contain_text("qwen3-235b-a22b-0001")
        await assert_not_reloaded(page)
        await page.goto("about:blank")


async def test_without_an_event_stream_the_page_still_follows(
    world: PageWorld, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = await open_page(world)
    watched.forgives_cuts = True
    page = watched.page

    async def refuse(route: Any) -> None:
        await route.abort()

    await page.route("**/events", refuse)
    for stream in list(world.service.rest.events._streams):
        monkeypatch.setattr(type(stream), "over", property(lambda _: True))
    world.service.rest.events.look()
    await expect(page.locator("#live")).to_have_attribute("data-state", "lost")
    monkeypatch.undo()
    await world.register(a_call())
    await expect(page.locator("#list")).to_contain_text("qwen3-0-6b-0000")


async def test_a_hidden_page_holds_no_connection(world: PageWorld, open_page: Open) -> None:
    page = (await open_page(world)).page
    assert len(world.service.rest.events) == 1
    hide = "Object.defineProperty(document, 'hidden', {{get: () => {0}, configurable: true}});"
    fire = "document.dispatchEvent(new Event('visibilitychange'));"
    await page.evaluate(hide.format("true") + fire)
    while len(world.service.rest.events):
        await page.wait_for_timeout(20)
    await world.register(a_call())
    await page.evaluate(hide.format("false") + fire)
    await expect(page.locator("#list")).to_contain_text("qwen3-0-6b-0000")
    assert len(world.service.rest.events) == 1
