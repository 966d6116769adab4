"""One lease on many connections at once, over both faces: whoever wins, the contract holds."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from global_discovery.domain.clock import SystemClock
from global_discovery.storage.memory import MemoryStore
from global_discovery.storage.sqlite.store import SqliteStore
from global_discovery.storage.store import RegistrationStore
from global_discovery.v1 import pool_discovery_pb2 as pb
from support.access_world import FACES, AccessCaller, AccessWorld, Told, an_access_world
from support.fold import key_of
from support.grpc_calls import Watch, all_of, eventually
from support.pools import a_registration
from support.rest import a_body

CONNECTIONS = 3
"""Of each face."""
ROUNDS = 4
ENDED = {"NOT_FOUND", "FAILED_PRECONDITION"}
"""What a call may be told of a lease that somebody has just withdrawn."""
STORES: dict[str, Callable[[Path], RegistrationStore]] = {
    "memory": lambda _: MemoryStore(),
    "sqlite": lambda place: SqliteStore(place / "registrations.db", SystemClock()),
}


@pytest.fixture(params=sorted(STORES))
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AccessWorld]:
    async with an_access_world(store=STORES[request.param](tmp_path)) as made:
        yield made


@contextlib.asynccontextmanager
async def watched(caller: AccessCaller) -> AsyncIterator[Watch]:
    """A watch that was there all the time comes to hold what is listed."""
    watch = Watch(caller.stub)
    await watch.begun()
    reading = asyncio.create_task(watch.end())
    try:
        yield watch
        listed = await caller.stub.ListPools(pb.ListPoolsRequest())
        keys = {key_of(pool.key) for pool in listed.pools}
        await eventually(lambda: set(watch.client.fold) == keys)
    finally:
        watch.call.cancel()
        await asyncio.wait([reading])


async def test_a_lease_that_all_renew_and_withdraw_at_once_ends_once_and_stays_away(
    world: AccessWorld,
) -> None:
    callers = [await world.caller(face) for face in FACES for _ in range(CONNECTIONS)]
    async with watched(callers[0]):
        for turn in range(ROUNDS):
            lease_id = (await callers[0].register("c1", turn)).value
            calls = [
                *(partial(each.register, "c1", turn, lease_id=lease_id) for each in callers),
                *(partial(each.withdraw, "c1", turn, lease_id=lease_id) for each in callers),
                *(each.listed for each in callers),
                *[partial(renewed, callers[0], [lease_id] * 100)] * CONNECTIONS,
            ]
            random.Random(turn).shuffle(calls)
            answers = await all_of(*(call() for call in calls))
            assert {each.code for each in answers} <= ENDED | {"OK"}
            # It ended once, and nothing brings it back.
            for caller in callers:
                again = await caller.register("c1", turn, lease_id=lease_id)
                assert again.code == "FAILED_PRECONDITION"
                assert (await caller.withdraw("c1", turn, lease_id=lease_id)).code == "NOT_FOUND"
                assert (await caller.listed()).value == []


async def renewed(caller: AccessCaller, ids: list[str]) -> Told:
    request = pb.RenewPoolsRequest(lease_ids=ids)
    return await caller._grpc(caller.stub.RenewPools, request, lambda answer: answer)


async def test_of_many_withdrawals_of_one_lease_one_succeeds(world: AccessWorld) -> None:
    callers = [await world.caller(face) for face in FACES for _ in range(CONNECTIONS)]
    for turn in range(ROUNDS):
        lease_id = (await callers[0].register("c1", turn)).value
        answers = await all_of(
            *(each.withdraw("c1", turn, lease_id=lease_id) for each in callers * 2)
        )
        told = Counter(each.code for each in answers)
        assert told == {"OK": 1, "NOT_FOUND": len(answers) - 1}


async def test_of_many_new_incarnations_at_once_one_is_current(world: AccessWorld) -> None:
    callers = [await world.caller(face) for face in FACES for _ in range(CONNECTIONS)]
    ids = [each.value for each in await all_of(*(each.register("c1") for each in callers * 2))]
    assert len(set(ids)) == len(ids)
    answer = await callers[0].stub.RenewPools(pb.RenewPoolsRequest(lease_ids=ids))
    assert len(answer.unknown_lease_ids) == len(ids) - 1
    (current,) = set(ids) - set(answer.unknown_lease_ids)
    for lease_id in sorted(ids, key=current.__eq__):
        ended = await callers[-1].withdraw("c1", lease_id=lease_id)
        assert ended.code == ("OK" if lease_id == current else "NOT_FOUND")
        listed = (await callers[0].listed()).value
        assert listed == ([] if lease_id == current else ["c1/ns/pool-00000"])


async def test_of_65_shares_that_begin_at_once_64_are_taken(world: AccessWorld) -> None:
    callers = [await world.caller(face) for face in FACES]
    answers = await all_of(*(share(callers[number % 2], number) for number in range(65)))
    told = Counter(each.code for each in answers)
    assert told == {"OK": 64, "RESOURCE_EXHAUSTED": 1}
    refused = next(number for number, each in enumerate(answers) if each.code != "OK")
    assert (await share(callers[0], refused)).code == "RESOURCE_EXHAUSTED"
    gone = answers[refused - 1].value
    assert (await callers[1].withdraw("c1", lease_id=gone)).code == "OK"
    assert (await share(callers[1], refused)).code == "OK"
    assert (await callers[0].listed()).value == ["c1/ns/pool-00000"]


async def share(caller: AccessCaller, number: int) -> Told:
    relay = f"relay-{number}"
    if caller.face == "rest":
        body = a_body(relay_id=relay)
        return await caller._rest("POST", "/pools", lambda b: b["lease_id"], json=body)
    request = pb.RegisterPoolRequest(registration=a_registration(), relay_id=relay)
    return await caller._grpc(caller.stub.RegisterPool, request, lambda a: a.lease_id)


async def test_ten_thousand_ids_of_every_kind_are_each_answered_for(world: AccessWorld) -> None:
    caller = await world.caller("grpc")
    live = [(await caller.register("c1", number)).value for number in range(3)]
    withdrawn = (await caller.register("c1", 9)).value
    await caller.withdraw("c1", 9, lease_id=withdrawn)
    odd = ["", withdrawn, "never-was", live[0][:-1], live[0] + "x", live[0].swapcase() + "y"]
    ids = (live * 2000 + odd * 1000)[:10_000]
    random.Random(1).shuffle(ids)
    several = await all_of(*(renewed(caller, ids) for _ in range(3)))
    for answer in (told.value for told in several):
        assert set(answer.unknown_lease_ids) == set(ids) - set(live)
        assert not answer.not_renewed_lease_ids
    assert len((await caller.listed()).value) == 3
