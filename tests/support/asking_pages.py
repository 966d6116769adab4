"""Asks for pages as a browser does, and reads them."""

from typing import Any

import aiohttp

from support.html_page import Node, read_page
from support.rest import RestUnderTest

FOR_PEOPLE = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


async def page_of(rest: RestUnderTest, path: str = "/", *, status: int = 200) -> Node:
    """The page at a path."""
    reply = await rest.call("GET", path, headers=FOR_PEOPLE)
    assert reply.status == status, reply.body
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    return read_page(reply.body)


async def page_at(port: int, path: str = "/") -> Node:
    """The same, of a service that is known by its port."""
    async with (
        aiohttp.ClientSession(headers=FOR_PEOPLE) as session,
        session.get(f"http://127.0.0.1:{port}{path}") as answer,
    ):
        assert answer.status == 200
        return read_page(await answer.read())


def pools_on(page: Node) -> list[str]:
    """The keys of the pools in the table, in their order."""
    rows = page.by_id("list").every("tr", lambda row: "data-changed" in row.attributes)
    return [row.every("a")[0].text for row in rows]


def troubles_on(page: Node) -> dict[str, Any]:
    """How many cases there are of each code that needs attention."""
    found = page.by_class("trouble")
    return {node.every("code")[0].text: int(node.by_class("amount")[0].text) for node in found}
