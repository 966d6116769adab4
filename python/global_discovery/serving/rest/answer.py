"""What a call is answered with, before it becomes an aiohttp response.

Answers are immutable and may be kept and given to any number of callers.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import orjson
from aiohttp.web import StreamResponse
from multidict import CIMultiDict, CIMultiDictProxy

from global_discovery.serving.turns import ANY_OTHER

JSON = "application/json"
PROBLEM = "application/problem+json"
INSTANCE = "X-Global-Discovery-Instance"
"""Stands in every answer: the id of the instance that gave it, as a watch tells it."""


class Answer(NamedTuple):
    """One whole answer. `Content-Length` and `Date` are added when it is sent."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes | None = None
    close: bool = False
    """Whether the connection ends with it."""
    cost: float = ANY_OTHER
    """What its caller is charged for it; see serving/turns.py."""


class Streamed(NamedTuple):
    """An answer of status 200 that goes on. `write` writes its body, and may take for ever.

    `write` raises ConnectionError, or whatever the response raises, when its caller left.
    """

    headers: CIMultiDictProxy[str]
    write: Callable[[StreamResponse], Awaitable[None]]


def headers(
    content_type: str | None, extra: Mapping[str, str] | None = None, *, cache: str = "no-store"
) -> CIMultiDictProxy[str]:
    """The headers that every answer has, and what is added to them."""
    fields = CIMultiDict(
        {
            "Server": "global-discovery",
            "Cache-Control": cache,
            "X-Content-Type-Options": "nosniff",
        }
    )
    if content_type:
        fields["Content-Type"] = content_type
    if extra:
        fields.extend(extra)
    return CIMultiDictProxy(fields)


_JSON_HEADERS = headers(JSON)


def json_answer(value: Any, status: int = 200) -> Answer:
    """A value as JSON."""
    return Answer(status, _JSON_HEADERS, orjson.dumps(value))


NO_CONTENT = Answer(204, headers(None))
