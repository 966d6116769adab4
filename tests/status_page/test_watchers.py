"""Streams over gRPC as people are told of them."""

import asyncio
from ipaddress import ip_network

import grpc

from global_discovery.serving.caller import Network
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.asking_pages import page_at
from support.grpc_calls import eventually
from support.running import a_service, target


async def watchers_of(trusted: tuple[Network, ...], **metadata: str) -> str:
    """What the page says of one watcher of two models."""
    async with (
        a_service(trusted_proxies=trusted) as service,
        grpc.aio.insecure_channel(target(service)) as channel,
    ):
        wanted = pb.PoolFilter(models=["a", "b"])
        stream = PoolDiscoveryServiceStub(channel).WatchPools(
            pb.WatchPoolsRequest(filter=wanted),
            metadata=[(name.replace("_", "-"), value) for name, value in metadata.items()],
        )
        async with asyncio.timeout(20):
            await stream.read()
        # The page brings the view forward; let it find nothing that the watcher was not sent.
        service.core.pools.refresh()
        await eventually(lambda: service.core.pool_watchers.furthest_behind == 0)
        page = await page_at(service.rest.port)
        stream.cancel()
        return page.by_id("watchers").text


async def test_a_watcher_is_shown_with_its_address_and_filter() -> None:
    assert "127.0.0.1 pools: model: a, b 0 " in await watchers_of(())


async def test_behind_a_trusted_proxy_it_is_the_address_that_the_proxy_names() -> None:
    text = await watchers_of((ip_network("127.0.0.1/32"),), x_forwarded_for="192.0.2.7")
    assert "192.0.2.7 pools: model: a, b 0 " in text


async def test_anybody_else_may_not_choose_its_address() -> None:
    assert "127.0.0.1 pools:" in await watchers_of((), x_forwarded_for="192.0.2.7")
