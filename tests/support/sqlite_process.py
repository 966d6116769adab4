"""`serve` over an SQLite file, and a legacy caller that speaks to it over REST."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from support.serve_process import COMMAND, LOOPBACK, ServeProcess, started

LONG_LEASE = ["--lease-duration-secs", "3600"]


@contextlib.asynccontextmanager
async def serving(
    path: Path, *flags: str, megabytes: int | None = None
) -> AsyncIterator[tuple[ServeProcess, "Caller"]]:
    """Ready. `megabytes` is how large its files may become."""
    command = COMMAND
    if megabytes is not None:
        command = ["sh", "-c", f'ulimit -S -f {megabytes * 1024}; exec "$@"', "sh", *COMMAND]
        # dash counts blocks of 512 bytes, bash of 1024: either is a limit.
    storage = ["--registration-storage", "sqlite", "--sqlite-path", str(path)]
    async with started(*LOOPBACK, *storage, *flags, command=command) as server:
        port = (await server.ready())["rest_port"]
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            yield server, Caller(session)


class Caller:
    """Speaks to one instance."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def register(
        self, name: str, lease_id: str = "", *, model: str = "m"
    ) -> tuple[int, dict[str, Any]]:
        body = {
            "cluster_id": "c",
            "namespace": "n",
            "dgd_name": name,
            "model": model,
            "location": {"region": "r"},
            "relay_id": "relay",
            "lease_id": lease_id or None,
        }
        async with self._session.post("/pools", json=body) as answer:
            return answer.status, await answer.json()

    async def withdraw(self, name: str, lease_id: str) -> int:
        fields = {"If-Match": f'"{lease_id}"'}
        async with self._session.delete(f"/pools/c/n/{name}", headers=fields) as answer:
            return answer.status

    async def get(self, path: str) -> tuple[int, dict[str, Any]]:
        async with self._session.get(path) as answer:
            return answer.status, await answer.json()

    async def listed(self) -> set[str]:
        _, body = await self.get("/pools")
        return {pool["dgd_name"] for pool in body["pools"]}
