"""What a resource is at one moment, in both codings, each with a tag of its own.

Made once and given to any number of callers; compressed when the first one
wants that.
"""

import asyncio
import gzip
import hashlib
from collections.abc import Mapping

from multidict import CIMultiDictProxy, MultiMapping

from global_discovery.serving.rest.answer import Answer, headers
from global_discovery.serving.rest.request_parts import tag_matches, takes_gzip
from global_discovery.serving.turns import LIST, LISTED_BYTE

MIN_COMPRESSED_BYTES = 1024
MAX_INLINE_BYTES = 32 * 1024
"""What is compressed within the loop; more than this goes to a thread."""
_GZIP_LEVEL = 4


class Representation:
    """One body. Its tag is a hash of it, and of none of its other fields."""

    def __init__(
        self,
        body: bytes,
        content_type: str,
        fields: Mapping[str, str] | None = None,
        *,
        cache: str = "no-cache",
    ) -> None:
        """`fields` are further headers, `cache` is Cache-Control."""
        digest = hashlib.blake2b(body, digest_size=16).hexdigest()
        self._body = body
        self._content_type = content_type
        self._fields = fields or {}
        self._cache = cache
        self._plain_tag = f'"{digest}"'
        self._gzip_tag = f'"{digest}-gzip"'
        self._plain = Answer(200, self._headers(self._plain_tag), body, cost=_cost(body))
        self._compressed: Answer | None = None
        self._compressing: asyncio.Future[bytes] | None = None

    def __len__(self) -> int:
        """The size of the body in bytes."""
        return len(self._body)

    async def answer(self, accept_encoding: str, if_none_match: str | None) -> Answer:
        """200 in the coding that the caller takes, or 304."""
        zipped = len(self._body) >= MIN_COMPRESSED_BYTES and takes_gzip(accept_encoding)
        if if_none_match is not None:
            tag = self._gzip_tag if zipped else self._plain_tag
            if tag_matches(if_none_match, tag):
                return Answer(304, self._headers(tag, with_type=False))
        return await self._zipped() if zipped else self._plain

    async def answer_to(self, asked: MultiMapping[str]) -> Answer:
        """The same, from the headers of a request."""
        if_none_match = None
        if "If-None-Match" in asked:
            if_none_match = ",".join(asked.getall("If-None-Match"))
        accepted = ""
        if "Accept-Encoding" in asked:
            accepted = ",".join(asked.getall("Accept-Encoding"))
        return await self.answer(accepted, if_none_match)

    async def _zipped(self) -> Answer:
        if self._compressed is None:
            data = await self._compress()
            fields = self._headers(self._gzip_tag, {"Content-Encoding": "gzip"})
            self._compressed = Answer(200, fields, data, cost=_cost(data))
        return self._compressed

    async def _compress(self) -> bytes:
        if len(self._body) <= MAX_INLINE_BYTES:
            return _gzipped(self._body)
        if self._compressing is None:
            loop = asyncio.get_running_loop()
            self._compressing = loop.run_in_executor(None, _gzipped, self._body)
        return await asyncio.shield(self._compressing)

    def _headers(
        self, tag: str, extra: Mapping[str, str] | None = None, *, with_type: bool = True
    ) -> CIMultiDictProxy[str]:
        fields = {"ETag": tag, "Vary": "Accept-Encoding", **self._fields, **(extra or {})}
        return headers(self._content_type if with_type else None, fields, cache=self._cache)


def _cost(body: bytes) -> float:
    return LIST + LISTED_BYTE * len(body)


def _gzipped(body: bytes) -> bytes:
    return gzip.compress(body, _GZIP_LEVEL, mtime=0)
