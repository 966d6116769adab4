"""What real services show, read once for all tests of a file."""

import asyncio

import pytest

from support.scrapes import Scrape, scrapes


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scrape]:
    """By mode."""
    return asyncio.run(scrapes(tmp_path_factory.mktemp("scrapes")))
