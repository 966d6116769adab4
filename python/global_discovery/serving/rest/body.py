"""Reads a JSON body within its limits of size and time.

What can be refused by the headers alone is refused before a byte is read; a
body without a length is read up to the limit and no further.
"""

import asyncio
from collections.abc import Callable

from aiohttp import web
from aiohttp.http import HttpVersion11
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestPayloadError

from global_discovery.serving.rest import problem
from global_discovery.serving.rest.connection import CallerGone, Limits
from global_discovery.serving.rest.deadline import let_in
from global_discovery.serving.rest.problem import Problem
from global_discovery.serving.rest.request_parts import is_json

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


async def read_json_body(
    request: web.BaseRequest,
    limits: Limits,
    *,
    max_bytes: int,
    took: Callable[[int], None],
) -> bytes:
    """The body's bytes, `max_bytes` at the most.

    `took` is told its size, before it is read where the headers say it. Raises what
    that raises, Problem (400, 408, 413, 415) and CallerGone.
    """
    size = _check_headers(request, max_bytes)
    if size is not None:
        took(size)
    body = await _read_body(request, limits, max_bytes)
    if size is None:
        took(len(body))
    return body


async def _read_body(request: web.BaseRequest, limits: Limits, max_bytes: int) -> bytes:
    content = request.content
    try:
        if content.is_eof():
            return content.read_nowait()
        await _say_continue(request)
        return await _read(content, limits, max_bytes)
    except TimeoutError:
        raise problem.too_slow("the body") from None
    except RequestPayloadError:
        raise problem.malformed("the body is not framed as HTTP has it", close=True) from None
    except OSError as error:
        raise CallerGone from error


async def _read(content: StreamReader, limits: Limits, max_bytes: int) -> bytes:
    loop = asyncio.get_running_loop()
    end = loop.time() + limits.body_seconds
    chunks: list[bytes] = []
    room = max_bytes
    while True:
        deadline = min(loop.time() + limits.body_stall_seconds, end)
        try:
            async with asyncio.timeout_at(deadline):
                chunk = await content.readany()
        except TimeoutError:
            # What we ourselves slept through is not the caller's.
            end += loop.time() - deadline
            await let_in()
            chunk = content.read_nowait()
            if not chunk and not content.is_eof():
                raise
        if not chunk:
            return b"".join(chunks)
        room -= len(chunk)
        if room < 0:
            raise _too_large(max_bytes)
        chunks.append(chunk)


def _check_headers(request: web.BaseRequest, max_bytes: int) -> int | None:
    """Refuses what the headers alone tell; the length of the body, when they tell it."""
    headers = request.headers
    if not is_json(headers.get("Content-Type", "")):
        raise Problem(
            415,
            "UNSUPPORTED_MEDIA_TYPE",
            "Content-Type must be application/json in UTF-8",
            header_fields={"Accept-Post": "application/json"},
        )
    for coding in headers.getall("Content-Encoding", ()):
        if coding.strip().lower() not in {"", "identity"}:
            raise Problem(
                415,
                "UNSUPPORTED_CONTENT_ENCODING",
                "the body must have no Content-Encoding",
                header_fields={"Accept-Encoding": "identity"},
            )
    length = headers.get("Content-Length", "")
    if not (length.isascii() and length.isdigit()):
        return None
    if _exceeds(length, max_bytes):
        raise _too_large(max_bytes)
    return int(length)


def _exceeds(digits: str, limit: int) -> bool:
    digits = digits.lstrip("0")
    return len(digits) > len(str(limit)) or int(digits or "0") > limit


async def _say_continue(request: web.BaseRequest) -> None:
    """Tells a caller that waits with its body that it may send it (RFC 9110, 10.1.1)."""
    expects = request.headers.get("Expect", "").lower() == "100-continue"
    if expects and request.version == HttpVersion11 and request.transport is not None:
        request.transport.write(_CONTINUE)


def _too_large(max_bytes: int) -> Problem:
    return Problem(413, "BODY_TOO_LARGE", f"the body is larger than {max_bytes} bytes", close=True)
