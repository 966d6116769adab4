"""The heartbeat against real servers on this machine; time is moved where it matters."""

import asyncio
import socket

import grpc
import pytest

from global_discovery.client import HeartbeatState, PoolHeartbeat
from global_discovery.client.errors import causes
from global_discovery.domain.lease import LeaseTerms
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.beating import PATIENCE, Watched, beating, leased
from support.pools import a_registration
from support.running import a_service, target
from support.scripted_server import HANG, granted, scripted_server
from support.timer import MovedTimer

GONE = pb.DeregisterPoolResponse(ended_shares=1)


async def test_it_registers_renews_and_withdraws_at_a_real_server() -> None:
    timer = MovedTimer()
    async with a_service() as service:
        pools = service.core.registrations
        async with beating(Watched(target(service), relay_id="r", timer=timer)) as heartbeat:
            heartbeat.set(a_registration())
            state = await heartbeat.until(leased)
            assert state.lease is not None
            assert (state.lease.seconds, state.lease.heartbeat_seconds) == (15, 5)
            before = pools.counters.renewals
            await timer.slept_for(5)
            timer.advance(5)
            await heartbeat.until(lambda state: state.last_success == timer.now())
            assert pools.counters.renewals == before + 1
            assert await heartbeat.stop(withdraw=True)
            assert pools.counters.withdrawals == 1
            assert heartbeat.state.withdrawn


async def test_a_stop_without_withdrawal_leaves_the_lease_to_end_by_itself() -> None:
    async with a_service() as service:
        async with beating(Watched(target(service))) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
        assert not heartbeat.state.withdrawn
        assert service.core.registrations.counters.withdrawals == 0


async def test_a_changed_registration_goes_out_without_waiting_and_keeps_the_lease() -> None:
    async with scripted_server() as server:
        server.script("RegisterPool", granted())
        async with beating(Watched(server.target, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            heartbeat.set(a_registration(model="other"))
            first, second = [await server.next_call() for _ in range(2)]
            assert (first.request.registration.model, first.request.lease_id) == ("m", "")
            assert (second.request.registration.model, second.request.lease_id) == ("other", "id-1")
            assert second.request.sequence > first.request.sequence


async def test_none_stops_the_renewals_and_the_next_registration_starts_them() -> None:
    timer = MovedTimer()
    async with scripted_server() as server:
        server.script("RegisterPool", granted())
        async with beating(Watched(server.target, timer=timer)) as heartbeat:
            heartbeat.set(a_registration())
            await server.next_call()
            await heartbeat.until(leased)
            heartbeat.set(None)
            await asyncio.sleep(0)
            timer.advance(100)
            heartbeat.set(a_registration(model="later"))
            assert (await server.next_call()).request.registration.model == "later"
            assert server.asked.empty()


async def test_every_call_tells_its_deadline() -> None:
    async with scripted_server() as server:
        server.script("RegisterPool", granted(lease=6, heartbeat=2))
        async with beating(Watched(server.target)) as heartbeat:
            heartbeat.set(a_registration())
            first = await server.next_call()
            await heartbeat.until(leased)
            heartbeat.set(a_registration(model="other"))
            second = await server.next_call()
            assert first.seconds_left is not None
            assert second.seconds_left is not None
            assert first.seconds_left < 5.5
            assert second.seconds_left < 2.5


async def test_an_unavailable_instance_is_passed_over_without_a_pause() -> None:
    async with scripted_server() as away, scripted_server() as there:
        away.script("RegisterPool", grpc.StatusCode.UNAVAILABLE)
        there.script("RegisterPool", granted())
        async with beating(Watched(away.target, there.target, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            state = await heartbeat.until(leased)
            assert state.server == there.target


async def test_the_repeat_at_the_same_name_uses_a_new_connection() -> None:
    async with scripted_server() as server:
        server.script("RegisterPool", grpc.StatusCode.UNAVAILABLE, granted())
        async with beating(Watched(server.target, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
        peers = {(await server.next_call()).peer for _ in range(2)}
        assert len(peers) == 2


async def test_a_server_that_comes_back_gets_the_pool_without_help() -> None:
    timer = MovedTimer()
    async with a_service() as service:
        port, heartbeat = service.grpc.port, Watched(target(service), timer=timer)
        running = asyncio.create_task(heartbeat.run())
        heartbeat.set(a_registration())
        await heartbeat.until(leased)
    await timer.slept_for(5)
    timer.advance(5)
    await heartbeat.until(lambda state: state.failing and state.next_attempt is not None)
    async with a_service(port=port) as service:
        async with asyncio.timeout(PATIENCE):
            while heartbeat.state.failing:
                timer.advance(1)
                await asyncio.sleep(0.02)
        assert service.core.registrations.counters.registrations == 1
        assert await heartbeat.stop(withdraw=True)
        await running


async def test_a_pool_that_somebody_withdrew_comes_back_one_lease_later() -> None:
    timer = MovedTimer()
    async with (
        a_service(terms=LeaseTerms(5, 15)) as service,
        beating(Watched(target(service), timer=timer)) as heartbeat,
        grpc.aio.insecure_channel(target(service)) as channel,
    ):
        heartbeat.set(a_registration())
        await heartbeat.until(leased)
        await PoolDiscoveryServiceStub(channel).DeregisterPool(
            pb.DeregisterPoolRequest(key=a_registration().key, all_shares=True)
        )
        await timer.slept_for(5)
        timer.advance(5)
        state = await heartbeat.until(lambda state: state.failing)
        assert state.last_error is not None
        assert state.last_error.details.reason == "LEASE_WITHDRAWN"
        await timer.slept_for(15)
        timer.advance(15)
        await heartbeat.until(leased)
        assert service.core.registrations.counters.registrations == 2


async def test_the_last_error_keeps_the_chain_of_its_causes() -> None:
    async with scripted_server() as server:
        server.script("RegisterPool", grpc.StatusCode.INTERNAL)
        async with beating(Watched(server.target, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            state = await heartbeat.until(lambda state: state.failing)
            assert state.last_error is not None
            chain = list(causes(state.last_error))
            assert chain[0].startswith(f"{server.target} failed with INTERNAL: as the test says")
            assert chain[1].startswith("INTERNAL: ")


async def test_a_stop_ends_an_outstanding_renewal_and_withdraws() -> None:
    async with scripted_server() as server:
        server.script("RegisterPool", granted(), HANG)
        server.script("DeregisterPool", GONE)
        async with beating(Watched(server.target)) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            heartbeat.set(a_registration(model="other"))
            for _ in range(2):
                await server.next_call()
            async with asyncio.timeout(PATIENCE):
                assert await heartbeat.stop(withdraw=True)
            assert server.withdrawn[0].lease_id == "id-1"
            async with asyncio.timeout(PATIENCE):
                left = await server.ended_with.get()
            assert left is not None
            assert left > 0.5, "the call was not ended but waited for"


async def test_a_stop_during_the_first_call_does_not_wait_for_ever() -> None:
    timer = MovedTimer()
    async with scripted_server() as server:
        server.script("RegisterPool", HANG)
        async with beating(Watched(server.target, timer=timer)) as heartbeat:
            heartbeat.set(a_registration())
            await server.next_call()
            stopping = asyncio.create_task(heartbeat.stop(withdraw=True))
            await timer.slept_for(1)
            timer.advance(1)
            async with asyncio.timeout(PATIENCE):
                assert not await stopping
            assert not server.withdrawn


async def test_a_withdrawal_goes_to_another_instance_when_one_is_unavailable() -> None:
    async with scripted_server() as one, scripted_server() as other:
        one.script("RegisterPool", granted())
        one.script("DeregisterPool", grpc.StatusCode.UNAVAILABLE)
        other.script("DeregisterPool", GONE)
        async with beating(Watched(one.target, other.target)) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            assert await heartbeat.stop(withdraw=True)
            assert len(other.withdrawn) == 1


async def test_a_share_that_is_gone_already_counts_as_withdrawn() -> None:
    async with scripted_server() as server:
        server.script("RegisterPool", granted())
        server.script("DeregisterPool", grpc.StatusCode.NOT_FOUND)
        async with beating(Watched(server.target)) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            assert await heartbeat.stop(withdraw=True)


async def test_an_independent_server_that_never_knew_the_lease_has_withdrawn_nothing() -> None:
    async with scripted_server() as one, scripted_server() as other:
        other.instance = "other"
        one.script("RegisterPool", granted())
        one.script("DeregisterPool", grpc.StatusCode.UNAVAILABLE)
        other.script("DeregisterPool", grpc.StatusCode.NOT_FOUND)
        async with beating(Watched(one.target, other.target)) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            assert not await heartbeat.stop(withdraw=True)
            assert len(other.withdrawn) == 1
            state = heartbeat.state
            assert not state.withdrawn
            assert state.last_error is not None
            assert state.last_error.code is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("instance", ["restarted", ""])
async def test_a_server_that_may_have_forgotten_the_lease_has_withdrawn_nothing(
    instance: str,
) -> None:
    async with scripted_server() as server:
        server.script("RegisterPool", granted())
        server.script("DeregisterPool", grpc.StatusCode.NOT_FOUND)
        async with beating(Watched(server.target)) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            server.instance = instance
            assert not await heartbeat.stop(withdraw=True)
            assert heartbeat.state.last_error is not None
            assert heartbeat.state.last_error.code is grpc.StatusCode.NOT_FOUND


async def test_a_real_server_that_restarted_with_an_empty_store_has_withdrawn_nothing() -> None:
    timer = MovedTimer()
    async with a_service() as service:
        port, heartbeat = service.grpc.port, Watched(target(service), timer=timer)
        running = asyncio.create_task(heartbeat.run())
        heartbeat.set(a_registration())
        await heartbeat.until(leased)
    async with a_service(port=port):
        assert not await heartbeat.stop(withdraw=True)
        await running


async def test_a_real_server_whose_lease_somebody_else_withdrew_knows_that_it_ended() -> None:
    async with (
        a_service() as service,
        beating(Watched(target(service), timer=MovedTimer())) as heartbeat,
        grpc.aio.insecure_channel(target(service)) as channel,
    ):
        heartbeat.set(a_registration())
        await heartbeat.until(leased)
        await PoolDiscoveryServiceStub(channel).DeregisterPool(
            pb.DeregisterPoolRequest(key=a_registration().key, all_shares=True)
        )
        assert await heartbeat.stop(withdraw=True)


async def test_a_withdrawal_goes_first_to_the_server_that_granted_the_lease() -> None:
    timer = MovedTimer()
    async with scripted_server() as one, scripted_server() as other:
        other.instance = "other"
        one.script("RegisterPool", granted(), grpc.StatusCode.INTERNAL)
        one.script("DeregisterPool", GONE)
        other.script("RegisterPool", HANG)
        async with beating(Watched(one.target, other.target, timer=timer)) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            await timer.slept_for(5)
            timer.advance(5)
            await heartbeat.until(lambda state: state.server == other.target)
            assert await heartbeat.stop(withdraw=True)
            assert len(one.withdrawn) == 1
            assert not other.withdrawn


async def test_a_stop_at_a_server_that_swallows_everything_ends_with_the_deadline() -> None:
    """The one real wait of this file: a second, the deadline of a lease of three."""
    with socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))
        dead.listen()
        async with scripted_server() as server:
            server.script("RegisterPool", granted(lease=3, heartbeat=1))
            server.script("DeregisterPool", HANG)
            heartbeat = Watched(server.target, f"127.0.0.1:{dead.getsockname()[1]}")
            async with beating(heartbeat):
                heartbeat.set(a_registration())
                await heartbeat.until(leased)
                async with asyncio.timeout(PATIENCE):
                    assert not await heartbeat.stop(withdraw=True)
                assert heartbeat.state.last_error is not None


async def test_a_callback_that_fails_is_reported_and_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = asyncio.Event()

    def fails(state: HeartbeatState) -> None:
        if state.withdrawn:
            seen.set()
        raise RuntimeError("as the test says")

    async with scripted_server() as server:
        server.script("RegisterPool", granted())
        server.script("DeregisterPool", GONE)
        heartbeat = PoolHeartbeat([server.target], on_state=fails)
        running = asyncio.create_task(heartbeat.run())
        heartbeat.set(a_registration())
        for model in ("second", "third"):
            await server.next_call()
            heartbeat.set(a_registration(model=model))
        async with asyncio.timeout(PATIENCE):
            assert await heartbeat.stop(withdraw=True)
            await running
    assert seen.is_set()
    assert "on_state" in caplog.text
    assert "as the test says" in caplog.text


async def test_a_stop_before_it_runs_ends_the_run() -> None:
    heartbeat = Watched("127.0.0.1:1")
    heartbeat.set(a_registration())
    assert not await heartbeat.stop(withdraw=True)
    async with asyncio.timeout(PATIENCE):
        await heartbeat.run()


def test_a_heartbeat_to_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one server"):
        PoolHeartbeat([])


async def test_a_change_goes_out_while_a_call_hangs() -> None:
    async with scripted_server() as server:
        server.script("RegisterPool", granted(), HANG, granted())
        async with beating(Watched(server.target, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            heartbeat.set(a_registration(model="second"))
            calls = [await server.next_call() for _ in range(2)]
            heartbeat.set(a_registration(model="third"))
            calls.append(await server.next_call())
            async with asyncio.timeout(PATIENCE):
                left = await server.ended_with.get()
            assert left is not None
            assert left > 0.5, "the change waited for the deadline of the call before"
    assert [call.request.registration.model for call in calls] == ["m", "second", "third"]
    assert [call.request.lease_id for call in calls] == ["", "id-1", "id-1"]
    assert calls[2].request.sequence > calls[1].request.sequence


@pytest.mark.parametrize(
    ("code", "attempts"),
    [
        (grpc.StatusCode.UNIMPLEMENTED, 1),
        (grpc.StatusCode.FAILED_PRECONDITION, 1),
        (grpc.StatusCode.UNAVAILABLE, 2),
    ],
)
async def test_a_withdrawal_from_one_server_is_repeated_only_where_that_may_help(
    code: grpc.StatusCode, attempts: int
) -> None:
    async with scripted_server() as server:
        server.script("RegisterPool", granted())
        server.script("DeregisterPool", code)
        async with beating(Watched(server.target)) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            assert not await heartbeat.stop(withdraw=True)
    assert len(server.withdrawn) == attempts
