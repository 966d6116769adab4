"""A page about an error stays as it is: it asks for nothing again."""

import pytest

from support.browser import WatchedPage, a_browser
from support.page_world import PageWorld

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.mark.parametrize("path", ["/why?pool=oops", "/?page=0"])
async def test_a_page_that_was_refused_opens_no_stream_and_asks_no_more(
    world: PageWorld, path: str
) -> None:
    async with a_browser() as browser:
        page = await browser.new_page()
        watched = WatchedPage(page, world.url)
        answer = await page.goto(world.url + path)
        assert answer is not None
        assert answer.status == 400
        # Deferred scripts have run at the load event. What they asked for was asked before this.
        await page.evaluate("fetch('/page/icon.svg?last').then((answer) => answer.text())")
        asked = [url.removeprefix(world.url) for url in watched.requests]
        assert asked[0] == path
        assert "/page/icon.svg?last" in asked
        assert not {"/events", path} & set(asked[1:])
        assert not any(url.endswith(".js") for url in asked)
