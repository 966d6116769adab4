"""What a caller is charged for holding the loop, and what is made to hold it less (record 0066)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import grpc
import pytest

from global_discovery.domain.rules import MAX_CAPACITY_GIVEN
from global_discovery.serving import turns, wire
from global_discovery.serving.service import Service
from global_discovery.serving.turns import BURST_SECONDS, SHARE_OF_ONE, Turns
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from global_discovery.view.view import ENTRIES_A_PORTION
from support.grpc_calls import Stub, eventually, refused
from support.page_world import a_call
from support.pools import a_registration
from support.rest import a_body
from support.running import a_service, target

CALLER = "127.0.0.1"
POOLS = 2 * ENTRIES_A_PORTION + 1


class CountedTurns(Turns):
    """Counts what is taken, at no distance from each other."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: Counter[str] = Counter()

    async def take(self, account: str) -> None:
        self.taken[account] += 1
        await super().take(account)


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with a_service() as running:
        yield running


@pytest.fixture
async def stub(service: Service) -> AsyncIterator[Stub]:
    async with grpc.aio.insecure_channel(target(service)) as channel:
        yield PoolDiscoveryServiceStub(channel)


def charges(service: Service, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What callers are charged from now on, in seconds of the loop."""
    charged: list[float] = []
    charge: Callable[[str, float], float] = service.core.budget.charge

    def noted(account: str, seconds: float) -> float:
        charged.append(seconds)
        return charge(account, seconds)

    monkeypatch.setattr(service.core.budget, "charge", noted)
    return charged


async def test_a_large_message_is_charged_by_its_size_whatever_becomes_of_it(
    service: Service, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged = charges(service, monkeypatch)
    registration = a_registration(1)
    registration.capacity.extend([pool_pb2.Capacity(gpu_sku="x", gpu_count=1)] * 20_000)
    request = pb.RegisterPoolRequest(registration=registration)
    assert (await refused(stub.RegisterPool(request))).code is grpc.StatusCode.INVALID_ARGUMENT
    assert turns.SECONDS_A_BYTE * request.ByteSize() in charged


async def test_so_is_a_large_body(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    charged = charges(service, monkeypatch)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{service.rest.port}") as session:
        body = a_body(1, unknown="x" * 100_000)
        assert (await session.post("/pools", json=body)).status == 200
    assert max(charged) > turns.SECONDS_A_BYTE * 100_000


async def test_a_page_is_charged_by_the_square_of_what_it_takes(
    service: Service, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _register(stub, POOLS)
    monkeypatch.setattr(turns, "PIECE_SECONDS", 1e-6)  # so that a small page will do
    charged = charges(service, monkeypatch)
    page = await stub.ListPools(pb.ListPoolsRequest())
    assert turns.in_one_piece(turns.LISTED_BYTE * page.ByteSize()) in charged


async def test_a_list_under_a_filter_looks_at_a_portion_each_time(
    service: Service, stub: Stub
) -> None:
    await _register(stub, POOLS)
    service.core.portions = portions = CountedTurns()
    wanted = pb.PoolFilter(models=["none"])
    assert not (await stub.ListPools(pb.ListPoolsRequest(filter=wanted))).pools
    assert portions.taken == {CALLER: 2}


@pytest.mark.parametrize("way", ["gRPC", "gRPC, a filter", "HTTP", "HTTP, a filter"])
async def test_what_a_list_says_is_not_held_back(
    service: Service, stub: Stub, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A caller beyond its budget waits before its list is made: its mark is of the answer."""
    monkeypatch.setattr(turns, "ALONE_AFTER_SECONDS", float("inf"))
    budget = service.core.budget
    assert await _listed(service, stub, way) == 0
    budget.seen("another")
    budget.charge(CALLER, 10.0)
    listed = asyncio.create_task(_listed(service, stub, way))
    await eventually(lambda: budget._held)
    await service.core.registrar.register(a_call())
    for held in list(budget._held):
        turns._end(held)
    await eventually(lambda: listed.done() or any(not held.done() for held in budget._held))
    assert listed.done(), "it is held back again, with what it says"
    assert listed.result() == 1


async def test_renewals_of_what_nobody_knows_are_apart_and_others_are_not(
    service: Service, stub: Stub
) -> None:
    service.core.portions = portions = CountedTurns()
    known = await _register(stub, 401)
    await stub.RenewPools(pb.RenewPoolsRequest(lease_ids=known))
    assert not portions.taken
    unknown = [f"unknown-{number}" for number in range(401)]
    answer = await stub.RenewPools(pb.RenewPoolsRequest(lease_ids=unknown))
    assert len(answer.unknown_lease_ids) == 401
    assert portions.taken == {CALLER: 2}


def test_a_capacity_is_read_as_far_as_is_needed_to_refuse_it() -> None:
    told: Any = pool_pb2.PoolRegistration()
    told.capacity.extend([pool_pb2.Capacity(gpu_sku="x", gpu_count=1)] * 20_000)
    assert len(wire.raw_registration(told).capacity) == MAX_CAPACITY_GIVEN + 1


async def _register(stub: Stub, count: int) -> list[str]:
    """The lease ids of so many pools."""
    assert count * turns.NEW_SHARE < BURST_SECONDS / SHARE_OF_ONE, "else the answers are held back"
    requests = [pb.RegisterPoolRequest(registration=a_registration(n)) for n in range(count)]
    return [(await stub.RegisterPool(request)).lease_id for request in requests]


async def _listed(service: Service, stub: Stub, way: str) -> int:
    """How many pools a list has; with a filter, of those of the only region."""
    region = a_call().registration.content.location.region
    if way.startswith("gRPC"):
        wanted = pb.PoolFilter(regions=[region]) if "filter" in way else None
        return len((await stub.ListPools(pb.ListPoolsRequest(filter=wanted))).pools)
    query = f"?region={region}" if "filter" in way else ""
    async with aiohttp.ClientSession(f"http://127.0.0.1:{service.rest.port}") as session:
        return len((await (await session.get(f"/pools{query}")).json())["pools"])
