"""Nothing that a caller can make up becomes a series, in any mode."""

import asyncio
import random
import string
from pathlib import Path

import aiohttp
import pytest

from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.grpc_calls import Stub, refused
from support.pools import a_registration
from support.rest import a_body
from support.scrapes import MODES, a_client, a_service_in, scrape

ROUNDS = {"memory": 100, "sqlite": 100, "mcs": 300, "karmada": 100, "dynamodb": 20}
"""Of a dozen calls each, with some thirty words made up."""
AT_ONCE = 10


class Caller:
    """Calls both faces with everything that can be chosen made up."""

    def __init__(self, stub: Stub, session: aiohttp.ClientSession, url: str) -> None:
        self._stub = stub
        self._session = session
        self._url = url
        self._random = random.Random(76)

    def word(self) -> str:
        return "".join(self._random.choices(string.ascii_lowercase + string.digits, k=12))

    async def rest(self, method: str, path: str, **what: object) -> None:
        headers = {"X-Forwarded-For": f"192.0.2.{self._random.randrange(256)}"}
        async with self._session.request(
            method, self._url + path, headers=headers, **what
        ) as answer:
            await answer.read()

    async def round(self) -> None:
        """The same outcomes each time."""
        key = {name: self.word() for name in ("cluster_id", "namespace", "dgd_name")}
        path = "/pools/" + "/".join(key.values())
        await self.rest("POST", "/pools", json=a_body(model=self.word(), **key))
        await self.rest("DELETE", f"{path}?all=true")
        await self.rest("DELETE", f"{path}?relay_id={self.word()}")
        await self.rest("GET", f"/pools?model={self.word()}")
        await self.rest("GET", f"/{self.word()}/{self.word()}?{self.word()}=1")
        await self.rest(self.word().upper(), "/pools")
        registration = a_registration(1, namespace=self.word())
        registered = await self._stub.RegisterPool(
            pb.RegisterPoolRequest(registration=registration, relay_id=self.word())
        )
        unknown = pb.RenewPoolsRequest(lease_ids=[self.word()])
        await self._stub.RenewPools(unknown)
        await self._stub.DeregisterPool(
            pb.DeregisterPoolRequest(key=registration.key, lease_id=registered.lease_id)
        )
        await refused(self._stub.ListPools(pb.ListPoolsRequest(page_token=self.word())))
        nobody = pool_pb2.PoolKey(cluster_id=self.word(), namespace="n", dgd_name=self.word())
        await refused(self._stub.DeregisterPool(pb.DeregisterPoolRequest(key=nobody)))


@pytest.mark.parametrize("mode", MODES)
async def test_what_callers_make_up_adds_no_series(mode: str, tmp_path: Path) -> None:
    async with a_service_in(mode, tmp_path) as (service, ca), a_client(service, ca) as client:
        caller = Caller(PoolDiscoveryServiceStub(client.channel), client.session, client.url)
        await caller.round()
        await scrape(service)  # it is a call too
        before = (await scrape(service)).series
        waiting = iter(range(ROUNDS[mode]))

        async def call() -> None:
            for _ in waiting:
                await caller.round()

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(call())
        after = (await scrape(service)).series
    assert {name: len(labels) for name, labels in after.items()} == {
        name: len(labels) for name, labels in before.items()
    }
