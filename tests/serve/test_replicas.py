"""Real processes over one table: killed, stopped, cut off, with clocks an hour apart."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator

import pytest

from global_discovery.client import PoolCache, PoolHeartbeat
from global_discovery.storage.dynamodb.items import beacon_item
from support.pools import a_registration
from support.replica_processes import ReplicaProcess, ReplicaProcesses, replica_processes
from support.serve_process import PATIENCE_SECONDS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
HOUR = 3600.0
LEASE = ("--heartbeat-interval-secs", "1", "--lease-duration-secs", "6")
"""Many heartbeats a lease: a busy machine may miss some."""
LONGER_THAN_A_LEASE = 7.0


@pytest.fixture
async def replicas() -> AsyncIterator[ReplicaProcesses]:
    async with replica_processes() as found:
        yield found


@contextlib.asynccontextmanager
async def a_relay(number: int, *servers: ReplicaProcess) -> AsyncIterator[PoolHeartbeat]:
    """A relay that is registered, and that goes from one to the next."""
    relay = PoolHeartbeat([server.target for server in servers], relay_id="relay")
    relay.set(a_registration(number))
    running = asyncio.create_task(relay.run())
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while relay.state.lease is None:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)
        yield relay
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_what_one_replica_takes_all_of_them_list(replicas: ReplicaProcesses) -> None:
    a, b, c = [
        await replicas.start(*LEASE),
        await replicas.start(*LEASE, clock_offset=HOUR),
        await replicas.start(*LEASE, clock_offset=-HOUR),
    ]
    async with a_relay(1, a), a_relay(2, b), a_relay(3, c) as third:
        for replica in (a, b, c):
            await replica.lists("pool-00001", "pool-00002", "pool-00003", exact=True)
        await third.stop(withdraw=True)
        for replica in (a, b, c):
            await replica.lists("pool-00001", "pool-00002", exact=True)


async def test_a_killed_replicas_relays_go_on_at_another_one_and_no_pool_leaves(
    replicas: ReplicaProcesses,
) -> None:
    a, b, c = [await replicas.start(*LEASE) for _ in range(3)]
    pools = ("pool-00001", "pool-00002")
    async with (
        a_relay(1, a, b),
        a_relay(2, a, c),
        PoolCache([a.target, b.target]) as follower,
        PoolCache([c.target]) as other,
    ):
        for replica in (b, c):
            await replica.lists(*pools)
        for cache in (follower, other):
            await asyncio.wait_for(cache.wait_synced(exact=True), PATIENCE_SECONDS)
        a.process.send(signal.SIGKILL)
        left = asyncio.create_task(_until_one_leaves(other, len(pools)))
        async for _ in moments(LONGER_THAN_A_LEASE):
            assert (await b.listed())[0] == set(pools)
            assert (await c.listed())[0] == set(pools)
            assert len(follower.pools()) == len(pools)
        assert not left.done(), "a router at the third replica never lost one either"
        left.cancel()
        await b.lists(*pools, exact=True)


async def moments(seconds: float) -> AsyncIterator[None]:
    """For so long, some times a second."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        await asyncio.sleep(0.25)


async def _until_one_leaves(cache: PoolCache, pools: int) -> None:
    async for _ in cache.changes():
        if len(cache.pools()) < pools:
            return


async def test_a_stopped_replica_brings_nothing_back_and_says_that_it_was_away(
    replicas: ReplicaProcesses,
) -> None:
    a, b = [await replicas.start(*LEASE) for _ in range(2)]
    async with a_relay(1, b), a_relay(2, b) as second:
        await a.lists("pool-00001", "pool-00002")
        a.process.send(signal.SIGSTOP)
        await second.stop(withdraw=True)
        await b.lists("pool-00001")
        await asyncio.sleep(LONGER_THAN_A_LEASE)  # all leases that it knows have ended
        a.process.send(signal.SIGCONT)
        await a.lists("pool-00001", exact=False, reason="STALLED")
        await a.lists("pool-00001", exact=True)
    stalled = await a.process.event("stalled")
    assert stalled["seconds"] > LONGER_THAN_A_LEASE - 1


async def test_a_replica_that_is_cut_off_says_so_and_its_relays_go_elsewhere(
    replicas: ReplicaProcesses,
) -> None:
    a, b = [await replicas.start(*LEASE) for _ in range(2)]
    async with a_relay(1, a, b) as relay:
        await b.lists("pool-00001")
        a.way.swallow()
        await a.lists("pool-00001", exact=False, reason="STORE_UNREADABLE")
        status, body = await a.get("/healthz")
        assert (status, body["status"]) == (200, "degraded")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while relay.state.server != b.target:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
        status, answer = await a.register("heard")
        assert (status, answer["title"] != "") == (503, True)
        async for _ in moments(LONGER_THAN_A_LEASE):
            assert "pool-00001" in (await b.listed())[0]
        a.way.pass_on()
        await a.lists("pool-00001", exact=True)
        await a.process.event("store_works_again")


async def test_a_region_whose_beacon_stands_still_is_silent(replicas: ReplicaProcesses) -> None:
    a = await replicas.start(*LEASE)
    api = replicas.api()
    item = beacon_item("us-east-1", "gone", counter=1, interval=1.0, now=time.time())
    await api.call("PutItem", {"TableName": replicas.table, "Item": item})
    await a.lists(exact=False, reason="REGION_SILENT")
    assert (await a.process.event("region_silent"))["region"] == "us-east-1"
    key = {name: item[name] for name in ("pk", "sk")}
    await api.call("DeleteItem", {"TableName": replicas.table, "Key": key})
    await a.lists(exact=True)
    assert (await a.process.event("region_heard"))["left"] is True
    await api.close()


async def test_a_replica_that_is_told_to_stop_takes_its_beacon_with_it(
    replicas: ReplicaProcesses,
) -> None:
    a = await replicas.start(*LEASE)
    b = await replicas.start(*LEASE)
    api = replicas.api()
    assert await a.process.stop() == 0
    b.process.send(signal.SIGKILL)
    await b.process.ended()
    request = {
        "TableName": replicas.table,
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": {"S": "beacons"}},
    }
    answer = await api.call("Query", request)
    assert len(answer["Items"]) == 1, "the one that was killed"
    await api.close()


async def test_a_restart_of_all_replicas_keeps_the_pools(replicas: ReplicaProcesses) -> None:
    a = await replicas.start(*LEASE)
    _, lease = await a.register("kept")
    _, gone = await a.register("gone")
    assert await a.withdraw("gone") == 204
    a.process.send(signal.SIGKILL)
    await a.process.ended()
    b = await replicas.start(*LEASE)
    names, complete, reasons = await b.listed()
    assert (names, complete, reasons) == ({"kept"}, False, {"STARTING"})
    status, renewed = await b.register("kept", lease["lease_id"])
    assert (status, renewed["lease_id"]) == (200, lease["lease_id"])
    status, _ = await b.register("gone", gone["lease_id"])
    assert status == 409


async def test_a_table_that_is_missing_ends_the_start_with_a_sentence(
    replicas: ReplicaProcesses,
) -> None:
    replicas.table = "nowhere"
    with pytest.raises(AssertionError, match="does not exist in region eu-west-1"):
        await replicas.start(*LEASE)
