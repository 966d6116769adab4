"""A whole list, page by page: one consistent set, or none."""

from typing import Generic, NamedTuple, TypeVar

import aiohttp

from global_discovery.domain.timer import Timer, within
from global_discovery.kubernetes.connection import ApiConnection
from global_discovery.kubernetes.envelopes import UNREADABLE, Key, Page, read_page
from global_discovery.kubernetes.failures import CallFailed, Failure
from global_discovery.kubernetes.objects import Objects
from global_discovery.kubernetes.scope import Scope

T = TypeVar("T")

PAGE = 500
PAGE_SECONDS = 30.0
"""For one page, answer and body."""
READ_SECONDS = 10.0
MAX_PAGE = 256 * 1024 * 1024
"""Bytes."""


class Listed(NamedTuple, Generic[T]):
    """Everything, as of `version`."""

    items: dict[Key, T]
    version: str


async def list_all(
    connection: ApiConnection, scope: Scope, objects: Objects[T], timer: Timer
) -> Listed[T]:
    """The whole set, as consistent as the server can be: no version is asked for.

    Raises CallFailed, also when the place in the list expires between two pages;
    nothing of the earlier pages counts then.
    """
    items: dict[Key, T] = {}
    faults: dict[Key, str] = {}
    params = {**scope.params, "limit": str(PAGE)}
    while True:
        page = await _page(connection, scope.path, params, timer)
        good, bad = await objects.read_all(page.items or ())
        items |= good
        faults |= bad
        if not page.metadata.more:
            break
        params["continue"] = page.metadata.more
    if not page.metadata.version:
        raise CallFailed(Failure.UNDECODABLE, "a list without a version")
    objects.listed(faults)
    return Listed(items, page.metadata.version)


async def _page(connection: ApiConnection, path: str, params: dict[str, str], timer: Timer) -> Page:
    async with connection.get(
        path, params, answer_seconds=PAGE_SECONDS, read_seconds=READ_SECONDS
    ) as response:
        body = await within(timer, PAGE_SECONDS, _body(response))
    try:
        return read_page(body)
    except UNREADABLE as error:
        raise CallFailed(Failure.UNDECODABLE, f"not a list: {error}") from error


async def _body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    while chunk := await response.content.readany():
        body += chunk
        if len(body) > MAX_PAGE:
            raise CallFailed(Failure.TOO_LONG, f"a page of more than {MAX_PAGE} bytes")
    return bytes(body)
