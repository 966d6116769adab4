"""Debian's Chromium, without a window, driven from Python."""

import contextlib
import shutil
from collections.abc import AsyncIterator

from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextlib.asynccontextmanager
async def a_browser() -> AsyncIterator[Browser]:
    """Running; needs CHROMIUM."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, headless=True, args=ARGUMENTS
        )
        try:
            yield browser
        finally:
            await browser.close()


class WatchedPage:
    """A page, and what it should not have done."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.console: list[str] = []
        self.requests: list[str] = []
        self.forgives_cuts = False
        """Whether the test itself cuts connections, which a browser writes to the console."""
        self._origin = origin
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.console.append(f"error: {error}"))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", lambda dialog: self.console.append(f"dialog: {dialog.message}"))

    def _said(self, message: ConsoleMessage) -> None:
        self.console.append(f"{message.type}: {message.text}")

    def check(self) -> None:
        """No word on the console, no violation of a policy, no request to another host."""
        said = [line for line in self.console if not (self.forgives_cuts and "ERR_" in line)]
        assert said == []
        away = [url for url in self.requests if not url.startswith(f"{self._origin}/")]
        assert away == []
