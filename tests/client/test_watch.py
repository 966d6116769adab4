"""Watching, against real servers on this machine."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from global_discovery.client import CallFailed, watch_pools
from global_discovery.client.errors import ErrorDetails
from global_discovery.client.watch import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    STEADY_SECONDS,
    Reconnect,
    WatchState,
    watch_routers,
)
from global_discovery.domain.pool import Router
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.clock import FakeClock
from support.pools import a_registration
from support.running import a_service, target
from support.scripted_server import END, HANG, scripted_server
from support.tcp_proxy import tcp_proxy
from support.timer import MovedTimer

PATIENCE = 30
EXACT = pool_pb2.Mark(completeness=pool_pb2.COMPLETENESS_EXACT)
HELLO = pb.WatchPoolsResponse(server=pb.ServerInfo(instance_id="i", idle_interval_secs=15))
EMPTY = pb.WatchPoolsResponse(snapshot=pb.PoolSnapshot(), position="p1", mark=EXACT)


async def register(server: str, number: int, **content: Any) -> str:
    async with grpc.aio.insecure_channel(server) as channel:
        stub = PoolDiscoveryServiceStub(channel)
        request = pb.RegisterPoolRequest(registration=a_registration(number, **content))
        response: pb.RegisterPoolResponse = await stub.RegisterPool(request)
        return response.lease_id


async def until(states: Any, wanted: Callable[[WatchState[Any]], bool]) -> WatchState[Any]:
    """The first state that is as wanted."""
    async with asyncio.timeout(PATIENCE):
        async for state in states:
            if wanted(state):
                return state  # type: ignore[no-any-return]  # a Watch of whatever
    raise AssertionError("the watch has ended")


def lists(*numbers: int) -> Callable[[WatchState[Any]], bool]:
    names = {f"pool-{number:05}" for number in numbers}
    return lambda state: {key.dgd_name for key in state.fold.listed} == names


async def test_it_follows_what_is_registered_and_withdrawn() -> None:
    async with a_service() as service, watch_pools([target(service)]) as watch:
        first = await until(watch, lambda state: state.fold.mark is not None)
        assert first.connection.connected
        assert first.connection.info is not None
        lease_id = await register(target(service), 1)
        await until(watch, lists(1))
        async with grpc.aio.insecure_channel(target(service)) as channel:
            key = a_registration(1).key
            request = pb.DeregisterPoolRequest(key=key, lease_id=lease_id)
            await PoolDiscoveryServiceStub(channel).DeregisterPool(request)
        state = await until(watch, lists())
        assert state.update is not None
        assert [key.dgd_name for key in state.update.removed] == ["pool-00001"]


async def test_a_filter_is_the_servers() -> None:
    wanted = pb.PoolFilter(models=["mine"])
    async with a_service() as service, watch_pools([target(service)], wanted=wanted) as watch:
        await until(watch, lambda state: state.fold.mark is not None)
        await register(target(service), 1, model="other")
        await register(target(service), 2, model="mine")
        await until(watch, lists(2))


async def test_it_follows_routers() -> None:
    routers = (Router("r1", "http://r1"),)
    async with a_service(routers=routers) as service, watch_routers([target(service)]) as watch:
        state = await until(watch, lambda state: state.fold.exact)
        assert list(state.fold.listed) == ["r1"]


async def test_a_cut_connection_resumes_by_position_without_a_snapshot() -> None:
    async with (
        a_service() as service,
        tcp_proxy(service.grpc.port) as proxy,
        watch_pools([f"127.0.0.1:{proxy.port}"]) as watch,
    ):
        await register(target(service), 1)
        await until(watch, lists(1))
        proxy.cut()
        await register(target(service), 2)
        updates = []
        async with asyncio.timeout(PATIENCE):
            async for state in watch:
                updates.append(state.update)
                if lists(1, 2)(state):
                    break
        assert not any(update.snapshot for update in updates if update is not None)


async def test_a_restarted_server_is_found_again_and_what_was_known_is_carried() -> None:
    async with a_service() as service:
        port, server = service.grpc.port, target(service)
        await register(server, 1)
        watch = watch_pools([server])
        await until(watch, lists(1))
    lost = await until(watch, lambda state: not state.connection.connected)
    assert lists(1)(lost)
    assert lost.connection.last_error is not None
    clock = FakeClock()
    async with a_service(port=port, clock=clock) as service, watch:
        state = await until(watch, lambda state: state.connection.connected and lists()(state))
        assert [key.dgd_name for key in state.fold.carried] == ["pool-00001"]
        assert state.connection.last_error is not None
        for _ in range(40):
            clock.advance(1)
            service.core.tick()
        state = await until(watch, lambda state: state.fold.exact)
        assert list(state.fold.offered()) == []


async def test_an_unavailable_server_is_left_for_the_next_one_without_a_pause() -> None:
    async with scripted_server() as away, scripted_server() as there:
        away.script("WatchPools", [grpc.StatusCode.UNAVAILABLE])
        there.script("WatchPools", [HELLO, EMPTY, HANG])
        watch = watch_pools([away.target, there.target], timer=MovedTimer())
        async with watch:
            state = await until(watch, lambda state: state.fold.mark is not None)
            assert state.connection.server == there.target


async def test_each_try_has_a_connection_of_its_own() -> None:
    async with scripted_server() as server:
        server.script("WatchPools", [grpc.StatusCode.UNAVAILABLE], [HELLO, EMPTY, HANG])
        async with watch_pools([server.target], timer=MovedTimer()) as watch:
            await until(watch, lambda state: state.fold.mark is not None)
        peers = {(await server.next_call()).peer for _ in range(2)}
        assert len(peers) == 2


async def test_a_stream_that_ended_well_is_opened_again_at_once_and_is_no_loss() -> None:
    async with scripted_server() as server:
        changed = pb.WatchPoolsResponse(changes=pb.PoolChanges(), position="p2", mark=EXACT)
        server.script("WatchPools", [HELLO, EMPTY, END], [HELLO, changed, HANG])
        async with watch_pools([server.target], timer=MovedTimer()) as watch:
            seen = []
            async with asyncio.timeout(PATIENCE):
                async for state in watch:
                    seen.append(state.connection.connected)
                    if state.fold.position == "p2":
                        break
        assert all(seen)
        assert [(await server.next_call()).request.position for _ in range(2)] == ["", "p1"]


@pytest.mark.parametrize(("interval", "seconds"), [(4, 12), (2**32 - 1, 75)])
async def test_three_idle_intervals_without_a_message_are_a_dead_stream(
    interval: int, seconds: int
) -> None:
    """Also where a server claims to be silent for a century."""
    timer = MovedTimer()
    hello = pb.WatchPoolsResponse(server=pb.ServerInfo(idle_interval_secs=interval))
    async with scripted_server() as server:
        server.script("WatchPools", [hello, EMPTY, HANG])
        async with watch_pools([server.target], timer=timer) as watch:
            await until(watch, lambda state: state.fold.mark is not None)
            waiting = asyncio.create_task(
                until(watch, lambda state: not state.connection.connected)
            )
            await timer.slept_for(seconds)
            timer.advance(seconds - 0.1)
            assert not waiting.done()
            timer.advance(0.2)
            error = (await waiting).connection.last_error
            assert error is not None
            assert error.code is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_server_that_never_says_who_it_is_is_given_up() -> None:
    timer = MovedTimer()
    async with scripted_server() as server:
        server.script("WatchPools", [HANG])
        async with watch_pools([server.target], timer=timer) as watch:
            waiting = asyncio.create_task(until(watch, lambda _: True))
            await timer.slept_for(10)
            timer.advance(10)
            assert not (await waiting).connection.connected


async def test_a_position_that_a_server_cannot_read_leads_to_a_snapshot() -> None:
    timer = MovedTimer()
    async with scripted_server() as server:
        server.script(
            "WatchPools",
            [HELLO, EMPTY, END],
            [grpc.StatusCode.INVALID_ARGUMENT],
            [HELLO, EMPTY, HANG],
        )
        async with watch_pools([server.target], timer=timer) as watch:
            await until(watch, lambda state: not state.connection.connected)
            again = asyncio.create_task(until(watch, lambda state: state.connection.connected))
            await server.next_call()
            assert (await server.next_call()).request.position == "p1"
            while server.asked.empty():
                timer.advance(1)
                await asyncio.sleep(0.01)
            await again
            assert (await server.next_call()).request.position == ""


async def test_leaving_the_watch_ends_the_call() -> None:
    async with a_service() as service:
        async with watch_pools([target(service)]) as watch:
            await until(watch, lambda state: state.fold.mark is not None)
            assert len(service.core.pool_watchers) == 1
        async with asyncio.timeout(PATIENCE):
            while len(service.core.pool_watchers):  # noqa: ASYNC110 - nobody tells when
                await asyncio.sleep(0.01)


async def test_a_watch_of_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one server"):
        watch_pools([])


# -- where and when to connect again, without connecting -------------------------

UNAVAILABLE = CallFailed("a", grpc.StatusCode.UNAVAILABLE, "")
INTERNAL = CallFailed("a", grpc.StatusCode.INTERNAL, "")


def test_pauses_double_up_to_a_limit_and_start_over_after_a_message() -> None:
    reconnect = Reconnect(["a"], jitter=lambda: 1.0)
    pauses = [reconnect.ended(INTERNAL, lasted=0) for _ in range(8)]
    assert pauses[:3] == [FIRST_PAUSE_SECONDS, 2 * FIRST_PAUSE_SECONDS, 4 * FIRST_PAUSE_SECONDS]
    assert pauses[-1] == LONGEST_PAUSE_SECONDS
    reconnect.heard()
    assert reconnect.ended(INTERNAL, lasted=0) == FIRST_PAUSE_SECONDS


def test_pauses_are_jittered_between_half_and_whole() -> None:
    assert Reconnect(["a"], jitter=lambda: 0.0).ended(INTERNAL, lasted=0) == FIRST_PAUSE_SECONDS / 2


def full(seconds: float) -> CallFailed:
    details = ErrorDetails(reason="LIMIT_REACHED", retry_after=seconds)
    return CallFailed("a", grpc.StatusCode.RESOURCE_EXHAUSTED, "", details)


def test_the_only_server_has_the_time_that_it_asked_for() -> None:
    assert Reconnect(["a"]).ended(full(7.0), lasted=0) == 7.0
    assert Reconnect(["a"]).ended(full(1_000.0), lasted=0) == LONGEST_PAUSE_SECONDS
    assert Reconnect(["a", "b"]).ended(full(7.0), lasted=0) <= FIRST_PAUSE_SECONDS


def test_every_failure_goes_on_to_the_next_server() -> None:
    reconnect = Reconnect(["a", "b", "c"])
    seen = [reconnect.server]
    for error in (INTERNAL, UNAVAILABLE, INTERNAL):
        reconnect.ended(error, lasted=0)
        seen.append(reconnect.server)
    assert seen == ["a", "b", "c", "a"]


def test_a_round_of_unavailable_servers_ends_in_a_pause() -> None:
    reconnect = Reconnect(["a", "b", "c"])
    pauses = [reconnect.ended(UNAVAILABLE, lasted=0) for _ in range(6)]
    assert [pause > 0 for pause in pauses] == [False, False, True, False, False, True]


def test_a_server_that_says_one_word_and_goes_is_not_called_in_a_loop() -> None:
    reconnect = Reconnect(["a"])
    pauses = []
    for _ in range(10):
        reconnect.heard()
        pauses.append(reconnect.ended(UNAVAILABLE, lasted=0.1))
    assert sum(pause > 0 for pause in pauses) == 5


def test_the_end_of_a_long_stream_begins_a_new_round() -> None:
    reconnect = Reconnect(["a"])
    assert reconnect.ended(UNAVAILABLE, lasted=0) == 0
    assert reconnect.ended(None, lasted=STEADY_SECONDS) == 0
    assert reconnect.server == "a"
