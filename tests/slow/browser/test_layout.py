"""Words stay whole, and counts stay beside what they count.

Whatever the width and the scheme; names may break, since nobody chose their length.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from global_discovery.domain.lease import LeaseTerms
from support.browser import WatchedPage
from support.page_world import PageWorld, a_call, a_page_world

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
Open = Callable[..., Awaitable[WatchedPage]]

WIDTHS = [320, 375, 500, 1280]
LONG = "meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8-with-a-suffix-that-nobody-needs"
DISPUTED = a_call(3).registration.key
PATHS = ["/", "/?group=none", "/?group=region", f"/why?pool={DISPUTED}"]
A_DAY = LeaseTerms(lease_duration=86_400, heartbeat_interval=5)
"""Its remaining time is the longest text that a lease has: `23 h 59 min`."""

BROKEN_WORDS = """
() => {
  const ours = ".note, .badge, .amount, .left, .what, .when, .state, time, thead th, dt, summary b";
  const broken = [];
  for (const part of document.querySelectorAll(ours)) {
    if (!part.checkVisibility()) continue;
    const texts = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
      if (text.parentElement.closest(".unseen")) continue;
      for (const word of text.data.matchAll(/[^ \\n]+/g)) {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
        if (lines.size > 1) broken.push(`${part.className || part.tagName}: ${word[0]}`);
      }
    }
  }
  return [...new Set(broken)];
}
"""
PARTED_COUNTS = """
() => {
  const parted = [];
  for (const amount of document.querySelectorAll(".chip .amount, .group .amount")) {
    const count = amount.getBoundingClientRect();
    const holder = amount.closest(".chip, .group").getBoundingClientRect();
    const said = amount.closest(".chip, .group").querySelector("bdi");
    const seen = said.getBoundingClientRect();
    const range = document.createRange();
    range.selectNodeContents(said);
    const gaps = [...range.getClientRects()].map((line) => {
      const [left, right] = [Math.max(line.left, seen.left), Math.min(line.right, seen.right)];
      const above = count.bottom < line.top || count.top > line.bottom;
      return above ? Infinity : Math.max(count.left - right, left - count.right);
    });
    const within = count.left >= holder.left && count.right <= holder.right;
    if (!within || Math.min(...gaps) > 12) parted.push(said.textContent);
  }
  return parted;
}
"""


@pytest.fixture
async def odd(_needs_chromium: None) -> AsyncIterator[PageWorld]:
    """Pools with long names and models, badges and long leases."""
    async with a_page_world(terms=A_DAY, beats=False) as world:
        await world.register(*(a_call(number) for number in range(12)))
        name = DISPUTED.dgd_name
        await world.register(a_call(3, name=name, relay_id="relay-1", model="other"))
        await world.register(a_call(3, name=name, relay_id="relay-0", frontends=0))
        await world.register(a_call(20, name="n" * 63, model=LONG), a_call(21, model=LONG))
        world.watch(peer="10.1.0.7")
        world.beating = False
        await world.pass_time(75)
        yield world


def at(width: int, scheme: str) -> dict[str, Any]:
    return {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
async def test_no_word_of_ours_is_broken_and_no_count_parted(
    odd: PageWorld, open_page: Open, width: int, scheme: str
) -> None:
    for path in PATHS:
        page = (await open_page(odd, path, **at(width, scheme))).page
        assert await page.evaluate(BROKEN_WORDS) == [], path
        assert await page.evaluate(PARTED_COUNTS) == [], path
        wide = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1], path
        await page.close()


async def test_the_page_has_what_could_break(odd: PageWorld, open_page: Open) -> None:
    page = (await open_page(odd, **at(375, "light"))).page
    shown = await page.locator("main").inner_text()
    for word in ("relays disagree", "no frontend", r"23\xa0h \d+\xa0min", r"1\xa0min \d+\xa0s"):
        assert re.search(word, shown), word
    assert await page.locator(".chip bdi", has_text=LONG).count() == 1
