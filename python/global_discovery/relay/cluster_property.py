"""Reads the cluster's own name from the About API (KEP-2149). Needs the extra `kubernetes`.

The object is the ClusterProperty `cluster.clusterset.k8s.io`, which has no
namespace; `get` on it is the only permission that is used.
"""

from collections.abc import Mapping

import aiohttp
import msgspec

from global_discovery.domain.timer import Timer, within
from global_discovery.kubernetes.connection import ApiConnection
from global_discovery.kubernetes.credentials import find_credentials
from global_discovery.kubernetes.failures import CallFailed, Failure
from global_discovery.kubernetes.scope import Resource

NAME = "cluster.clusterset.k8s.io"
VERSIONS = tuple(
    Resource("about.k8s.io", version, "clusterproperties") for version in ("v1beta1", "v1alpha1")
)
ASKING_SECONDS = 5.0
MAX_BODY = 256 * 1024
"""Bytes; a value has at most 128,000 characters."""


class _Spec(msgspec.Struct):
    value: str


class _Property(msgspec.Struct):
    spec: _Spec


class ClusterProperty:
    """Asks one API server. Close it."""

    def __init__(self, *, timer: Timer, environ: Mapping[str, str]) -> None:
        """`environ` tells where the API server and the credentials are."""
        self._timer = timer
        self._connection = ApiConnection(find_credentials(environ=environ), timer=timer)

    async def read(self) -> str | None:
        """The name, None when there is none. Raises CallFailed and msgspec's errors."""
        for resource in VERSIONS:
            try:
                body = await self._get(resource.path(name=NAME))
            except CallFailed as failed:
                if failed.failure is not Failure.NOT_FOUND:
                    raise
            else:
                return msgspec.json.decode(body, type=_Property).spec.value.strip() or None
        return None

    async def close(self) -> None:
        """Closes what is open."""
        await self._connection.close()

    async def _get(self, path: str) -> bytes:
        async with self._connection.get(
            path, {}, answer_seconds=ASKING_SECONDS, read_seconds=ASKING_SECONDS
        ) as answer:
            return await within(self._timer, ASKING_SECONDS, _read(answer.content))


async def _read(content: aiohttp.StreamReader) -> bytes:
    body = bytearray()
    while chunk := await content.readany():
        body += chunk
        if len(body) > MAX_BODY:
            raise CallFailed(Failure.TOO_LONG, f"a property of more than {MAX_BODY} bytes")
    return bytes(body)
