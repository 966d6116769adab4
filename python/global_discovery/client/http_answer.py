"""What every HTTP call of this package holds to: bounded answers, no redirects, no cookies."""

from collections.abc import Mapping

import aiohttp

from global_discovery.client.errors import INSTANCE, instance_name

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
