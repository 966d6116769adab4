"""`serve` processes over one table on a DynamoDB server, each with a way to it that can be cut."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from global_discovery.domain.clock import SystemClock
from global_discovery.storage.dynamodb.http_api import HttpDynamoDB
from global_discovery.storage.dynamodb.table import create_table
from support import dynamodb_server
from support.dynamodb_server import REGION, DynamoDBServer
from support.serve_process import (
    COMMAND,
    LOOPBACK,
    PATIENCE_SECONDS,
    ServeProcess,
    clean_environment,
    started,
)
from support.tcp_proxy import TcpProxy, tcp_proxy

AT_ANOTHER_TIME = """
import sys, time
real, offset = time.time, float(sys.argv.pop(1))
time.time = lambda: real() + offset
from global_discovery.cli.main import main
sys.exit(main(["serve", *sys.argv[1:]]))
"""


class ReplicaProcess:
    """One running process."""

    def __init__(self, process: ServeProcess, way: TcpProxy, ready: dict[str, Any]) -> None:
        self.process = process
        self.way = way
        """To the table."""
        self.target = f"127.0.0.1:{ready['grpc_port']}"
        self.url = f"http://127.0.0.1:{ready['rest_port']}"

    async def get(self, path: str) -> tuple[int, Any]:
        async with aiohttp.ClientSession() as session, session.get(self.url + path) as answer:
            return answer.status, await answer.json()

    async def listed(self) -> tuple[set[str], bool, set[str]]:
        """The names of the pools, whether the list is exact, and the reasons."""
        _, body = await self.get("/pools")
        names = {pool["dgd_name"] for pool in body["pools"]}
        return names, body["complete"], set(body["reasons"])

    async def lists(self, *names: str, exact: bool | None = None, reason: str = "") -> None:
        """Returns once it lists just these, with that mark; to be cut by the test's timeout."""
        found: Any = None
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    found = await self.listed()
                    if (
                        found[0] == set(names)
                        and exact in (None, found[1])
                        and (not reason or reason in found[2])
                    ):
                        return
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"it lists {found}, not {names}") from None

    async def register(self, name: str, lease_id: str = "") -> tuple[int, Any]:
        body = {
            "cluster_id": "c1",
            "namespace": "ns",
            "dgd_name": name,
            "model": "m",
            "location": {"region": "r1"},
            "relay_id": "relay",
            "lease_id": lease_id,
        }
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.url}/pools", json=body) as answer,
        ):
            return answer.status, await answer.json()

    async def withdraw(self, name: str) -> int:
        async with (
            aiohttp.ClientSession() as session,
            session.delete(f"{self.url}/pools/c1/ns/{name}?relay_id=relay") as answer,
        ):
            return answer.status


class ReplicaProcesses:
    """Starts them, over one table of their own."""

    def __init__(
        self, server: DynamoDBServer, table: str, stack: contextlib.AsyncExitStack
    ) -> None:
        self.server = server
        self.table = table
        self._stack = stack

    def api(self) -> HttpDynamoDB:
        """The table as it is, past every proxy."""
        return self.server.reached(SystemClock())

    async def start(self, *flags: str, clock_offset: float = 0.0) -> ReplicaProcess:
        """One more, ready; with its wall clock off by so many seconds."""
        way = await self._stack.enter_async_context(tcp_proxy(self.server.port))
        command = COMMAND
        if clock_offset:
            command = [sys.executable, "-c", AT_ANOTHER_TIME, str(clock_offset)]
        process = await self._stack.enter_async_context(
            started(
                *LOOPBACK,
                *("--registration-storage", "dynamodb", "--dynamodb-table", self.table),
                *("--dynamodb-region", REGION),
                *("--dynamodb-endpoint-url", f"http://127.0.0.1:{way.port}"),
                *flags,
                command=command,
                env=clean_environment(**self.server.environment),
            )
        )
        return ReplicaProcess(process, way, await process.ready())


@contextlib.asynccontextmanager
async def replica_processes() -> AsyncIterator[ReplicaProcesses]:
    """A table; whatever is started over it is killed at the end."""
    server = dynamodb_server.of_this_process()
    table = dynamodb_server.new_table_name()
    api = server.reached(SystemClock())
    await create_table(api, table, asyncio.sleep)
    await api.close()
    async with contextlib.AsyncExitStack() as stack:
        yield ReplicaProcesses(server, table, stack)
