"""For every reader: names, headings, tables, contrast, dark, narrow, printed, without motion."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from playwright.async_api import Page, expect

from support.browser import WatchedPage
from support.page_world import PageWorld, a_call

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
Open = Callable[..., Awaitable[WatchedPage]]
expect.set_options(timeout=30_000)
PHONE = {"width": 360, "height": 740}

CONTRAST = """
() => {
  const parse = (text) => text.match(/[0-9.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const part = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const weak = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.nodeValue.trim());
    if (!own || !element.checkVisibility() || element.closest(".unseen, .skip")) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) weak.push(`${element.tagName}.${element.className} ${ratio.toFixed(2)}`);
  }
  return weak;
}
"""
STRUCTURE = """
() => {
  const wrong = [];
  const levels = [...document.querySelectorAll("h1,h2,h3,h4")].map((h) => Number(h.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1) wrong.push("not one h1");
  levels.reduce((before, level) => {
    if (level > before + 1) wrong.push(`h${before} is followed by h${level}`);
    return level;
  }, 0);
  for (const field of document.querySelectorAll("input:not([type=hidden]), select")) {
    if (!field.labels.length) wrong.push(`no label: ${field.id}`);
  }
  for (const table of document.querySelectorAll("table")) {
    if (!table.caption?.textContent.trim()) wrong.push("a table without a caption");
    for (const th of table.querySelectorAll("th")) if (!th.scope) wrong.push("th without scope");
    const columns = table.tHead.rows[0].cells.length;
    for (const row of table.rows) {
      const cells = [...row.cells].reduce((sum, cell) => sum + cell.colSpan, 0);
      if (cells !== columns) wrong.push(`a row of ${cells} cells in ${columns} columns`);
    }
  }
  for (const one of document.querySelectorAll("a, button, summary, meter, nav, section, form")) {
    const labelled = one.getAttribute("aria-labelledby");
    const name = labelled ? document.getElementById(labelled)?.textContent
      : one.getAttribute("aria-label")
        || (/^(A|BUTTON|SUMMARY)$/.test(one.tagName) && one.textContent);
    if (!name?.trim()) wrong.push(`without a name: ${one.tagName} ${one.id}`);
  }
  for (const image of document.images) if (!image.hasAttribute("alt")) wrong.push("no alt");
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push(`id twice: ${id}`);
  if (document.documentElement.lang !== "en") wrong.push("no language");
  for (const landmark of ["header", "main", "footer"]) {
    if (document.querySelectorAll(`body > ${landmark}`).length !== 1) wrong.push(`no ${landmark}`);
  }
  return wrong;
}
"""


async def something_to_show(world: PageWorld) -> None:
    await world.register(*(a_call(number) for number in range(130)))
    name = a_call().registration.key.dgd_name
    await world.register(a_call(name=name, relay_id="relay-1", frontends=3))
    await world.register(a_call(131, frontends=0))
    world.silence(a_call(1))
    world.watch(peer="10.1.0.7")
    await world.pass_time(11)


async def open_details(page: Page) -> None:
    await page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")


PATHS = [
    "/",
    "/?group=none&q=qwen&region=eu-central",
    "/?q=nothing",
    f"/why?pool={a_call().registration.key}",
    "/why?pool=fra-1/llm/qwen3-0-6b-9999",
    "/why",
]


@pytest.mark.parametrize("path", PATHS)
async def test_every_part_has_its_name_its_place_and_its_heading(
    world: PageWorld, open_page: Open, path: str
) -> None:
    await something_to_show(world)
    page = (await open_page(world, path)).page
    assert await page.evaluate(STRUCTURE) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
async def test_every_text_can_be_read_in_both_schemes(
    world: PageWorld, open_page: Open, path: str, scheme: str
) -> None:
    await something_to_show(world)
    page = (await open_page(world, path, color_scheme=scheme)).page
    await open_details(page)
    ground = await page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert ground == ("rgb(246, 247, 249)" if scheme == "light" else "rgb(16, 21, 27)")
    assert await page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("path", PATHS)
async def test_nothing_is_wider_than_a_phone(world: PageWorld, open_page: Open, path: str) -> None:
    await something_to_show(world)
    long = "a-name-without-any-place-to-break-it-" * 5
    await world.register(a_call(140, name=long, model="m" * 900))
    page = (await open_page(world, path, viewport=PHONE)).page
    await open_details(page)
    widths = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1]


async def test_the_accessibility_tree_tells_what_matters(world: PageWorld, open_page: Open) -> None:
    await something_to_show(world)
    page = (await open_page(world)).page
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await expect(page.get_by_role("table", name="Pools, page 1 of 2")).to_be_visible()
    await expect(page.get_by_role("meter", name="Lease time left").first).to_be_visible()
    await expect(page.get_by_role("searchbox")).to_be_visible()
    await expect(page.get_by_role("navigation", name="Pages of pools")).to_be_visible()
    await expect(page.get_by_role("rowheader").first).to_be_attached()


async def test_nothing_moves_for_who_wants_that(world: PageWorld, open_page: Open) -> None:
    await world.register(a_call())
    page = (await open_page(world, reduced_motion="reduce")).page
    await world.register(a_call(1))
    row = page.locator("tr.fresh")
    await expect(row).to_have_count(1)
    name = await row.locator("td").first.evaluate("cell => getComputedStyle(cell).animationName")
    assert name == "none"


async def test_a_printed_page_leaves_out_what_paper_cannot_do(
    world: PageWorld, open_page: Open
) -> None:
    await something_to_show(world)
    page = (await open_page(world)).page
    await page.emulate_media(media="print")
    await expect(page.locator("#find")).to_be_hidden()
    await expect(page.locator("#refresh")).to_be_hidden()
    await expect(page.locator("#list")).to_be_visible()


async def test_colours_that_the_system_forces_leave_the_bars(
    world: PageWorld, open_page: Open
) -> None:
    await world.register(a_call())
    context: dict[str, Any] = {"forced_colors": "active"}
    page = (await open_page(world, **context)).page
    await expect(page.get_by_role("meter")).to_be_visible()
