"""What every HTTP call of this package holds to: bounded answers, no redirects, no cookies."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import aiohttp

from global_discovery.client.errors import INSTANCE, instance_name

MAX_DIGITS = 9
"""Of a number of seconds: more are for ever anyhow."""
_NO_LIMIT = aiohttp.ClientTimeout(total=None, connect=None, sock_read=None, sock_connect=None)


class TooLarge(ValueError):
    """An answer is larger than anything that was to be expected."""


def open_session() -> aiohttp.ClientSession:
    """A session to be closed by the caller, who bounds the time of each call.

    Each call has a connection of its own, never one that the server has just
    given up. Answers are taken as they come, never decompressed, so that reading one is
    bounded by the bytes on the wire.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        headers={"Accept-Encoding": "identity"},
        timeout=_NO_LIMIT,
    )


async def read_bounded(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The whole body. Raises TooLarge as soon as it has more than `limit` bytes."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limit:
            raise TooLarge(f"the answer has more than {limit} bytes")
    return bytes(body)


def instance_of(headers: Mapping[str, str]) -> str:
    """The instance that answered; empty when it does not name itself properly."""
    return instance_name(headers.get(INSTANCE, ""))


def retry_after(headers: Mapping[str, str]) -> float:
    """The seconds of Retry-After (RFC 9110, 10.2.3); 0 without one, and for nonsense.

    A date is compared with the answer's own, so that no clock of ours counts.
    """
    told = headers.get("Retry-After", "").strip()
    if told.isascii() and told.isdecimal():
        return float(told[:MAX_DIGITS])
    until, now = _date(told), _date(headers.get("Date", ""))
    return 0.0 if until is None or now is None else max(0.0, (until - now).total_seconds())


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)
