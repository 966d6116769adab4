"""The heartbeat over REST: today's servers, older ones, and ones that answer nonsense."""

import asyncio
import socket

import aiohttp
import grpc
import pytest

from global_discovery.client.errors import causes
from global_discovery.client.heartbeat import PoolHeartbeat
from global_discovery.v1 import pool_pb2
from support.beating import PATIENCE, Watched, beating, failing, leased
from support.pools import a_registration
from support.running import a_service
from support.scripted_rest import (
    DROP,
    HANG,
    Said,
    a_problem,
    granted_json,
    scripted_rest,
)
from support.scripted_server import granted, scripted_server
from support.timer import MovedTimer

GRANTED = granted_json(lease_id="id-1")
LEGACY = granted_json()
GONE = Said(204)


async def test_it_registers_renews_and_withdraws_at_a_real_server() -> None:
    timer = MovedTimer()
    async with a_service() as service:
        pools = service.core.registrations
        url = f"http://127.0.0.1:{service.rest.port}/"
        async with beating(Watched(url, relay_id="r", timer=timer)) as heartbeat:
            heartbeat.set(a_registration())
            state = await heartbeat.until(leased)
            assert state.lease is not None
            assert (state.lease.seconds, state.lease.heartbeat_seconds) == (15, 5)
            await timer.slept_for(5)
            before = pools.counters.renewals
            timer.advance(5)
            await heartbeat.until(lambda state: state.last_success == timer.now())
            assert (pools.counters.renewals, pools.counters.registrations) == (before + 1, 1)
            assert await heartbeat.stop(withdraw=True)
            assert pools.counters.withdrawals == 1


async def test_everything_of_a_registration_arrives() -> None:
    everything = pool_pb2.PoolRegistration(
        key=pool_pb2.PoolKey(cluster_id="c", namespace="n", dgd_name="d%?#u"),
        model="Qwen/Qwen3-0.6B ☃",
        location=pool_pb2.Location(region="r", availability_zone="z", datacenter="dc"),
        capabilities=["chat"],
        capacity=[pool_pb2.Capacity(gpu_sku="H100", gpu_count=8)],
        frontends=["http://10.0.0.1:8000"],
        relays=["ip:10.0.0.9"],
    )
    async with a_service() as service:
        url = f"http://127.0.0.1:{service.rest.port}"
        async with beating(Watched(url, timer=MovedTimer())) as heartbeat:
            heartbeat.set(everything)
            await heartbeat.until(leased)
            async with aiohttp.ClientSession() as session, session.get(f"{url}/pools") as answer:
                (pool,) = (await answer.json())["pools"]
            assert pool["dgd_name"] == "d%?#u"
            assert pool["model"] == "Qwen/Qwen3-0.6B ☃"
            assert pool["location"] == {
                "region": "r",
                "availability_zone": "z",
                "datacenter": "dc",
            }
            assert pool["capacity"] == [{"gpu_sku": "H100", "gpu_count": 8}]
            assert pool["capabilities"] == ["chat"]
            assert pool["frontends"] == ["http://10.0.0.1:8000"]
            assert pool["relays"] == ["ip:10.0.0.9"]
            assert await heartbeat.stop(withdraw=True)


async def test_a_renewal_carries_the_lease_id_and_a_growing_sequence() -> None:
    timer = MovedTimer()
    async with scripted_rest() as server:
        server.script("POST", GRANTED)
        async with beating(Watched(server.url, relay_id="r", timer=timer)) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            bodies = [(await server.next_call()).body]
            for _ in range(2):
                await timer.slept_for(5)
                timer.advance(5)
                bodies.append((await server.next_call()).body)
                await heartbeat.until(lambda state: state.last_success == timer.now())
        assert "lease_id" not in bodies[0]
        assert "sequence" not in bodies[0]
        assert [body["relay_id"] for body in bodies] == ["r"] * 3
        assert [body["lease_id"] for body in bodies[1:]] == ["id-1"] * 2
        assert bodies[1]["sequence"] < bodies[2]["sequence"]


async def test_a_withdrawal_names_the_lease_where_no_access_log_shows_it() -> None:
    async with scripted_rest() as server:
        server.script("POST", GRANTED)
        server.script("DELETE", GONE)
        async with beating(Watched(server.url, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            assert await heartbeat.stop(withdraw=True)
        await server.next_call()
        withdrawal = await server.next_call()
        assert (withdrawal.method, withdrawal.path) == ("DELETE", "/pools/c1/ns/pool-00000")
        assert withdrawal.headers["If-Match"] == '"id-1"'


async def test_a_server_that_knows_only_registering_is_registered_with_anew_each_time() -> None:
    timer = MovedTimer()
    async with scripted_rest() as server:
        server.script("POST", LEGACY)
        async with beating(Watched(server.url, timer=timer)) as heartbeat:
            heartbeat.set(a_registration())
            state = await heartbeat.until(leased)
            assert not state.can_withdraw
            await timer.slept_for(5)
            timer.advance(5)
            await heartbeat.until(lambda state: state.last_success == timer.now())
            for _ in range(2):
                assert "lease_id" not in (await server.next_call()).body
            assert not await heartbeat.stop(withdraw=True)
            assert not heartbeat.state.failing
            assert server.asked.empty(), "nothing names what could be withdrawn"


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_a_server_without_withdrawal_is_no_error(status: int) -> None:
    async with scripted_rest() as server:
        server.script("POST", GRANTED)
        server.script("DELETE", Said(status, b"what?", "text/plain"))
        async with beating(Watched(server.url, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            assert heartbeat.state.can_withdraw
            assert not await heartbeat.stop(withdraw=True)
            state = heartbeat.state
            assert (state.can_withdraw, state.failing, state.withdrawn) == (False, False, False)


async def test_a_share_that_a_server_says_is_gone_counts_as_withdrawn() -> None:
    async with scripted_rest() as server:
        server.script("POST", GRANTED)
        server.script("DELETE", a_problem(404))
        async with beating(Watched(server.url, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            assert await heartbeat.stop(withdraw=True)


async def test_an_independent_server_that_never_knew_the_lease_has_withdrawn_nothing() -> None:
    async with scripted_rest() as one, scripted_rest() as other:
        other.instance = "other"
        one.script("POST", GRANTED)
        one.script("DELETE", a_problem(503))
        other.script("DELETE", a_problem(404))
        async with beating(Watched(one.url, other.url, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            assert not await heartbeat.stop(withdraw=True)
            assert heartbeat.state.last_error is not None
            assert heartbeat.state.last_error.code is grpc.StatusCode.UNAVAILABLE


async def test_a_server_that_may_have_forgotten_the_lease_has_withdrawn_nothing() -> None:
    async with scripted_rest() as server:
        server.script("POST", GRANTED)
        server.script("DELETE", a_problem(404))
        async with beating(Watched(server.url, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            server.instance = "restarted"
            assert not await heartbeat.stop(withdraw=True)
            assert heartbeat.state.failing


async def test_another_server_that_knows_no_withdrawal_says_nothing_about_this_one() -> None:
    async with scripted_rest() as one, scripted_rest() as other:
        one.script("POST", GRANTED)
        one.script("DELETE", a_problem(503))
        other.script("DELETE", Said(405))
        async with beating(Watched(one.url, other.url, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            assert not await heartbeat.stop(withdraw=True)
            assert (heartbeat.state.can_withdraw, heartbeat.state.failing) == (True, True)


async def test_a_server_that_answers_501_is_tried_again_like_any_other() -> None:
    timer = MovedTimer()
    async with scripted_rest() as server:
        server.script("POST", Said(501), Said(501), GRANTED)
        async with beating(Watched(server.url, timer=timer)) as heartbeat:
            heartbeat.set(a_registration())
            for pause in (1, 2):
                await timer.slept_for(pause)
                timer.advance(pause)
            await heartbeat.until(leased)


async def test_an_unavailable_instance_is_passed_over_without_a_pause() -> None:
    async with scripted_rest() as away, scripted_rest() as there:
        away.script("POST", a_problem(503))
        there.script("POST", GRANTED)
        async with beating(Watched(away.url, there.url, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            assert (await heartbeat.until(leased)).server == there.url


@pytest.mark.parametrize("status", [401, 403, 413, 415, 429, 501])
async def test_a_server_that_refuses_is_left_for_the_next_one_after_the_pause(
    status: int,
) -> None:
    timer = MovedTimer()
    async with scripted_rest() as refuses, scripted_rest() as there:
        refuses.script("POST", Said(status))
        there.script("POST", GRANTED)
        async with beating(Watched(refuses.url, there.url, timer=timer)) as heartbeat:
            heartbeat.set(a_registration())
            await timer.slept_for(1)
            timer.advance(1)
            assert (await heartbeat.until(leased)).server == there.url


async def test_a_server_that_says_when_to_come_back_is_called_then() -> None:
    timer = MovedTimer()
    async with scripted_rest() as server:
        server.script("POST", Said(429, headers={"Retry-After": "9"}), GRANTED)
        async with beating(Watched(server.url, timer=timer)) as heartbeat:
            heartbeat.set(a_registration())
            await timer.slept_for(9)
            timer.advance(9)
            await heartbeat.until(leased)


async def test_a_server_that_refuses_connections_is_unavailable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        async with beating(Watched(f"http://127.0.0.1:{port}", timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            state = await heartbeat.until(failing)
            assert state.last_error is not None
            assert state.last_error.code is grpc.StatusCode.UNAVAILABLE
            assert len(list(causes(state.last_error))) > 1


@pytest.mark.parametrize("first", [DROP, a_problem(503)])
async def test_the_repeat_at_the_same_name_uses_a_new_connection(first: Said | str) -> None:
    async with scripted_rest() as server:
        server.script("POST", first, GRANTED)
        async with beating(Watched(server.url, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
        assert len({(await server.next_call()).peer for _ in range(2)}) == 2


async def test_a_server_that_speaks_grpc_stands_in_for_one_that_speaks_rest() -> None:
    async with scripted_rest() as rest, scripted_server() as other:
        rest.script("POST", a_problem(503))
        other.script("RegisterPool", granted())
        async with beating(Watched(rest.url, other.target, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            assert (await heartbeat.until(leased)).server == other.target


async def test_a_lease_that_was_withdrawn_is_dropped_and_comes_back_one_lease_later() -> None:
    timer = MovedTimer()
    async with scripted_rest() as server:
        server.script(
            "POST", GRANTED, a_problem(409, code="LEASE_WITHDRAWN"), granted_json(lease_id="id-2")
        )
        async with beating(Watched(server.url, timer=timer)) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            await timer.slept_for(5)
            timer.advance(5)
            state = await heartbeat.until(failing)
            assert state.last_error is not None
            assert state.last_error.details.reason == "LEASE_WITHDRAWN"
            assert state.lease is None
            await timer.slept_for(15)
            timer.advance(15)
            await heartbeat.until(leased)
        bodies = [(await server.next_call()).body for _ in range(3)]
        assert [body.get("lease_id") for body in bodies] == [None, "id-1", None]


async def test_a_call_that_is_not_answered_is_ended_at_its_deadline() -> None:
    timer = MovedTimer()
    async with scripted_rest() as server:
        server.script("POST", granted_json(6, 2, lease_id="i"), HANG)
        async with beating(Watched(server.url, timer=timer)) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            await timer.slept_for(2)
            timer.advance(2)
            for _ in range(2):
                await server.next_call()
            await timer.slept_for(2)
            timer.advance(2)
            state = await heartbeat.until(failing)
            assert state.last_error is not None
            assert state.last_error.code is grpc.StatusCode.DEADLINE_EXCEEDED
            async with asyncio.timeout(PATIENCE):
                await server.hung_up.wait()


async def test_a_stop_ends_the_outstanding_call_before_it_withdraws() -> None:
    async with scripted_rest() as server:
        server.script("POST", GRANTED, HANG)
        server.script("DELETE", GONE)
        async with beating(Watched(server.url, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            heartbeat.set(a_registration(model="other"))
            for _ in range(2):
                await server.next_call()
            async with asyncio.timeout(PATIENCE):
                assert await heartbeat.stop(withdraw=True)
                await server.hung_up.wait()


async def test_a_stop_at_a_server_that_swallows_the_withdrawal_ends_with_the_deadline() -> None:
    timer = MovedTimer()
    async with scripted_rest() as server:
        server.script("POST", GRANTED)
        server.script("DELETE", HANG)
        async with beating(Watched(server.url, timer=timer)) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            stopping = asyncio.create_task(heartbeat.stop(withdraw=True))
            await timer.slept_for(5)
            timer.advance(5)
            async with asyncio.timeout(PATIENCE):
                assert not await stopping
            assert heartbeat.state.failing


async def test_a_redirect_is_not_followed() -> None:
    async with scripted_rest() as server:
        server.script("POST", Said(307, headers={"Location": "/elsewhere"}))
        async with beating(Watched(server.url, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(failing)
        assert server.asked.qsize() == 1


async def test_a_grpc_server_without_withdrawal_is_no_error() -> None:
    async with scripted_server() as server:
        server.script("RegisterPool", granted())
        server.script("DeregisterPool", grpc.StatusCode.UNIMPLEMENTED)
        async with beating(Watched(server.target, timer=MovedTimer())) as heartbeat:
            heartbeat.set(a_registration())
            await heartbeat.until(leased)
            assert not await heartbeat.stop(withdraw=True)
            assert (heartbeat.state.can_withdraw, heartbeat.state.failing) == (False, False)


@pytest.mark.parametrize("server", ["http://", "https://h:99999", "http://u:p@h", "http://h?q"])
def test_a_url_that_cannot_be_a_server_is_refused(server: str) -> None:
    with pytest.raises(ValueError, match=r"servers\[0\]"):
        PoolHeartbeat([server])
