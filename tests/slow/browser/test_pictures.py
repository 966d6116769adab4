"""The words of the documents' pictures stay within their boxes, or clear of them."""

import pytest

from support.browser import a_browser
from support.documents import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

CROWDED_WORDS = """
() => {
  const crowded = [];
  for (const text of document.querySelectorAll("svg text")) {
    const a = text.getBBox();
    for (const rect of document.querySelectorAll("svg rect")) {
      const b = rect.getBBox();
      const [right, bottom] = [b.x + b.width - a.x - a.width, b.y + b.height - a.y - a.height];
      const inside = Math.min(a.x - b.x, a.y - b.y, right, bottom);
      const outside = Math.max(
        a.x - b.x - b.width, b.x - a.x - a.width, a.y - b.y - b.height, b.y - a.y - a.height,
      );
      if (Math.max(inside, outside) < 2) crowded.push(text.textContent);
    }
  }
  return crowded;
}
"""


@pytest.mark.usefixtures("_needs_chromium")
async def test_no_word_of_a_picture_touches_an_edge() -> None:
    async with a_browser() as browser:
        page = await browser.new_page()
        for picture in sorted(ROOT.glob("docs/images/*.svg")):
            await page.set_content(picture.read_text())
            assert await page.evaluate(CROWDED_WORDS) == [], picture.name
