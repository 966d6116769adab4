"""A browser and a page in it that notices everything it should not do."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from playwright.async_api import Page

from support.browser import CHROMIUM, WatchedPage, a_browser
from support.page_world import PageWorld, a_page_world

pytestmark = pytest.mark.slow
Open = Callable[..., Awaitable[WatchedPage]]


@pytest.fixture(autouse=True)
def _needs_chromium() -> None:
    if CHROMIUM is None:
        pytest.skip("there is no chromium on PATH")


@pytest.fixture
async def world(_needs_chromium: None) -> AsyncIterator[PageWorld]:
    """A service whose relays send heartbeats."""
    async with a_page_world() as world:
        yield world


@pytest.fixture
async def open_page(_needs_chromium: None) -> AsyncIterator[Open]:
    """Opens pages of one browser; each is checked at the end."""
    async with AsyncExitStack() as stack:
        browser = await stack.enter_async_context(a_browser())
        opened: list[WatchedPage] = []

        async def open_page(world: PageWorld, path: str = "/", **context: Any) -> WatchedPage:
            page: Page = await browser.new_page(**context)
            watched = WatchedPage(page, world.url)
            opened.append(watched)
            await page.goto(world.url + path)
            if context.get("java_script_enabled", True):
                await page.wait_for_selector("#live[data-state=live]")
            return watched

        yield open_page
        for watched in opened:
            watched.check()
