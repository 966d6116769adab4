"""Releases next to each other: a later caller at this server, a later server for this client."""

import json
from collections.abc import AsyncIterator

import grpc
import pytest

from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.beating import Watched, beating, failing, leased
from support.grpc_calls import Stub
from support.pools import a_registration
from support.running import a_service, target
from support.scripted_rest import Said, scripted_rest
from support.scripted_server import granted, scripted_server
from support.timer import MovedTimer

LATER_FIELD = b"\xfa\x7f\x05later"
"""Field 2047, which no release of this protocol has."""


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    async with a_service() as service, grpc.aio.insecure_channel(target(service)) as channel:
        yield PoolDiscoveryServiceStub(channel)


async def test_a_later_relay_registers_here_without_what_is_new_in_it(stub: Stub) -> None:
    registration = a_registration()
    registration.MergeFromString(LATER_FIELD)
    registration.key.MergeFromString(LATER_FIELD)
    request = pb.RegisterPoolRequest(registration=registration)
    assert (await stub.RegisterPool(request)).lease_id
    (pool,) = (await stub.ListPools(pb.ListPoolsRequest())).pools
    assert pool.key == a_registration().key
    assert LATER_FIELD not in pool.SerializeToString()


async def test_a_filter_that_is_not_known_here_leaves_nothing_out(stub: Stub) -> None:
    await stub.RegisterPool(pb.RegisterPoolRequest(registration=a_registration()))
    wanted = pb.PoolFilter()
    wanted.MergeFromString(LATER_FIELD)
    assert len((await stub.ListPools(pb.ListPoolsRequest(filter=wanted))).pools) == 1


async def test_a_lease_of_a_later_server_is_taken_without_what_is_new_in_it() -> None:
    later = granted()
    later.MergeFromString(LATER_FIELD)
    async with scripted_server() as server:
        server.script("RegisterPool", later)
        async with beating(Watched(server.target, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            assert (await heartbeat.until(leased)).last_error is None


async def test_so_is_one_over_http() -> None:
    lease = {"lease_duration_secs": 15, "heartbeat_interval_secs": 5, "lease_id": "i"}
    async with scripted_rest() as server:
        server.script("POST", Said(200, json.dumps(lease | {"later": {"than": [1]}}).encode()))
        async with beating(Watched(server.url, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            assert (await heartbeat.until(leased)).last_error is None


@pytest.mark.parametrize("code", [grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.DATA_LOSS])
async def test_a_refusal_that_no_release_gave_so_far_ends_no_relay(code: grpc.StatusCode) -> None:
    timer = MovedTimer()
    async with scripted_server() as server:
        server.script("RegisterPool", code, granted())
        async with beating(Watched(server.target, timer=timer)) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(failing)
            await timer.slept_for(1.0)
            timer.advance(1.0)
            await heartbeat.until(leased)


def test_a_reason_of_a_later_server_is_kept_by_its_number() -> None:
    mark = pool_pb2.Mark.FromString(b"\x08\x02\x12\x02\x01\x63")
    assert list(mark.reasons) == [pool_pb2.ESTIMATED_REASON_STARTING, 99]
