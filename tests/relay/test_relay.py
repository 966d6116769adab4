"""A relay between a real model server and a real server, on a clock that is moved."""

import asyncio

import grpc
import pytest

from global_discovery.v1 import pool_discovery_pb2 as pb
from support.openai_server import openai_server
from support.relaying import Relaying, relay_settings, relaying
from support.running import a_service, target
from support.scripted_server import HANG, granted, scripted_server

GONE = pb.DeregisterPoolResponse(ended_shares=1)


async def registered(relay: Relaying) -> None:
    await relay.until(lambda: relay.relay.unregistered_reason is None)


async def reason(relay: Relaying, wanted: str) -> None:
    await relay.until(lambda: relay.relay.unregistered_reason == wanted)


async def test_what_the_model_server_serves_is_registered() -> None:
    async with openai_server("Qwen/Qwen3-0.6B") as models, scripted_server() as server:
        server.script("RegisterPool", granted())
        settings = relay_settings(
            models, server.target, capabilities=("chat",), capacity=(("H100", 8),)
        )
        async with relaying(settings) as relay:
            request = (await server.next_call()).request
            await registered(relay)
        assert request.relay_id == "relay-1"
        registration = request.registration
        assert registration.model == "Qwen/Qwen3-0.6B"
        assert registration.location.region == "eu"
        assert list(registration.frontends) == [models.url]
        assert list(registration.capabilities) == ["chat"]
        assert [(c.gpu_sku, c.gpu_count) for c in registration.capacity] == [("H100", 8)]
        assert (registration.key.cluster_id, registration.key.dgd_name) == ("c1", "qwen")


async def test_another_model_goes_out_with_the_poll_that_finds_it() -> None:
    async with openai_server("a") as models, scripted_server() as server:
        server.script("RegisterPool", granted(lease=600, heartbeat=200))
        async with relaying(relay_settings(models, server.target)) as relay:
            await server.next_call()
            await registered(relay)
            models.models = ["b"]
            await relay.polled()
            assert (await server.next_call()).request.registration.model == "b"


async def test_without_a_model_nothing_is_sent_and_health_says_why() -> None:
    async with openai_server() as models, scripted_server() as server:
        server.script("RegisterPool", granted())
        async with relaying(relay_settings(models, server.target)) as relay:
            await reason(relay, "no model yet")
            await relay.polled()
            assert server.asked.empty()
            assert relay.relay.healthy
            models.models = ["late"]
            await relay.polled()
            assert (await server.next_call()).request.registration.model == "late"


async def test_of_several_models_none_is_sent_and_health_says_why() -> None:
    async with (
        openai_server("a", "b") as models,
        scripted_server() as server,
        relaying(relay_settings(models, server.target)) as relay,
    ):
        await reason(relay, "several models")
        await relay.polled()
        assert server.asked.empty()


async def test_adapters_do_not_keep_a_model_from_being_registered() -> None:
    async with openai_server("a") as models, scripted_server() as server:
        models.adapters = {"lora-1": "a", "lora-2": "a"}
        server.script("RegisterPool", granted())
        async with relaying(relay_settings(models, server.target)):
            assert (await server.next_call()).request.registration.model == "a"


async def test_a_registered_model_stays_while_its_health_url_answers_badly() -> None:
    async with openai_server("a") as models, scripted_server() as server:
        server.script("RegisterPool", granted())
        async with relaying(relay_settings(models, server.target)) as relay:
            await registered(relay)
            models.health, models.models = 503, ["b", "a"]
            await relay.polled()
            assert not relay.relay.ready
            assert relay.relay.topology.choice.model == "a"


async def test_a_given_model_is_registered_without_asking_for_the_list() -> None:
    async with openai_server("other", "another") as models, scripted_server() as server:
        server.script("RegisterPool", granted())
        async with relaying(relay_settings(models, server.target, model="mine")):
            assert (await server.next_call()).request.registration.model == "mine"
        assert set(models.asked) == {"/health"}


async def test_a_given_model_waits_for_its_model_server_to_answer_at_all() -> None:
    async with openai_server() as models, scripted_server() as server:
        server.script("RegisterPool", granted())
        await models.stop()
        async with relaying(relay_settings(models, server.target, model="mine")) as relay:
            await relay.until(lambda: relay.relay.counters.failed_polls)
            assert relay.relay.unregistered_reason == "no model yet"
            await models.start()
            models.health = 503
            await relay.polled()
            assert (await server.next_call()).request.registration.model == "mine"


async def test_failed_polls_leave_the_pool_registered_for_one_lease_and_then_end_it() -> None:
    async with openai_server("a") as models, scripted_server() as server:
        server.script("RegisterPool", granted(lease=10, heartbeat=3))
        async with relaying(relay_settings(models, server.target)) as relay:
            await registered(relay)
            began = relay.relay.last_good_poll
            assert began is not None
            await models.stop()
            while relay.timer.now() < began + 9:
                await relay.polled()
                assert relay.relay.topology.choice.model == "a"
            await relay.polled()
            assert relay.relay.topology.choice.model is None
            assert relay.relay.unregistered_reason == "no model yet"
            assert relay.relay.heartbeat.registration is None
            await models.start()
            await relay.polled()
            assert relay.relay.topology.choice.model == "a"


async def test_a_model_server_that_hangs_is_given_up_and_after_one_lease_the_pool_too() -> None:
    async with openai_server("a") as models, scripted_server() as server:
        server.script("RegisterPool", granted(lease=15, heartbeat=3))
        async with relaying(relay_settings(models, server.target)) as relay:
            await registered(relay)
            models.hangs = True
            relay.timer.advance(1)
            for seconds in (5, 5, 4):
                assert relay.relay.topology.choice.model == "a"
                await relay.timer.slept_for(seconds)
                relay.timer.advance(seconds)
            await relay.until(lambda: relay.relay.topology.choice.model is None)


@pytest.mark.parametrize(
    "answer",
    [
        (500, b"<html>"),
        (500, b'{"data": [{"id": "b"}]}'),
        (302, b""),
        (200, b"not json"),
        (200, b"\xff"),
        (200, b"[]"),
        (200, b'{"data": 5}'),
        (200, b'{"data": ["a"]}'),
        (200, b'{"data": [{"id": 5}]}'),
        (200, b'{"data": [{"id": ""}]}'),
        (200, b'{"data": [{"id": "\\ud800"}]}'),
        (200, b'{"data": [{"id": "' + b"x" * 1025 + b'"}]}'),
        (200, b"[" * 100_000),
        (200, b" " * (1024 * 1024 + 1)),
    ],
    ids=lambda answer: str(answer)[:40],
)
async def test_an_answer_that_is_no_list_of_models_is_a_failed_poll(
    answer: tuple[int, bytes],
) -> None:
    async with openai_server("a") as models, scripted_server() as server:
        server.script("RegisterPool", granted())
        async with relaying(relay_settings(models, server.target)) as relay:
            await registered(relay)
            models.models_answer = answer
            await relay.polled()
            assert relay.relay.counters.failed_polls == 1
            assert relay.relay.topology.choice.model == "a"
            models.models_answer = None
            await relay.polled()
            assert relay.relay.counters.failed_polls == 1


async def test_a_list_of_models_of_a_mebibyte_is_read() -> None:
    body = b'{"data": [{"id": "big"}]}'
    async with openai_server() as models, scripted_server() as server:
        server.script("RegisterPool", granted())
        models.models_answer = (200, body + b" " * (1024 * 1024 - len(body)))
        async with relaying(relay_settings(models, server.target)):
            assert (await server.next_call()).request.registration.model == "big"


async def test_a_failed_call_is_the_reason_while_no_lease_runs() -> None:
    async with openai_server("a") as models, scripted_server() as server:
        server.script("RegisterPool", grpc.StatusCode.INTERNAL, granted())
        async with relaying(relay_settings(models, server.target)) as relay:
            await reason(relay, "failed call")
            assert relay.relay.healthy
            relay.timer.advance(1)
            await registered(relay)


async def test_a_failed_call_is_no_reason_while_the_lease_runs() -> None:
    async with openai_server("a") as models, scripted_server() as server:
        server.script("RegisterPool", granted(15, 5), grpc.StatusCode.INTERNAL)
        async with relaying(relay_settings(models, server.target)) as relay:
            await registered(relay)
            relay.timer.advance(5)
            await relay.until(lambda: relay.relay.heartbeat.failing)
            assert relay.relay.unregistered_reason is None
            relay.timer.advance(11)
            await reason(relay, "failed call")


async def test_no_answer_yet_is_the_reason_while_the_first_call_is_under_way() -> None:
    async with openai_server("a") as models, scripted_server() as server:
        server.script("RegisterPool", HANG)
        async with relaying(relay_settings(models, server.target)) as relay:
            await server.next_call()
            assert relay.relay.unregistered_reason == "no answer yet"


async def test_a_stop_keeps_the_lease_while_the_model_server_answers() -> None:
    async with openai_server("a") as models, scripted_server() as server:
        server.script("RegisterPool", granted())
        async with relaying(relay_settings(models, server.target)) as relay:
            await registered(relay)
            models.health = 503
            await relay.stopped()
            assert relay.relay.unregistered_reason == "stopped"
            assert not relay.relay.healthy
        assert not server.withdrawn


async def test_a_stop_withdraws_when_the_model_server_is_gone_too() -> None:
    async with openai_server("a") as models, scripted_server() as server:
        server.script("RegisterPool", granted())
        server.script("DeregisterPool", GONE)
        async with relaying(relay_settings(models, server.target)) as relay:
            await registered(relay)
            await models.stop()
            await relay.stopped()
        assert [request.lease_id for request in server.withdrawn] == ["id-1"]


async def test_a_stop_withdraws_when_told_so_without_asking_the_model_server() -> None:
    async with openai_server("a") as models, scripted_server() as server:
        server.script("RegisterPool", granted())
        server.script("DeregisterPool", GONE)
        settings = relay_settings(models, server.target, withdraw_on_exit=True)
        async with relaying(settings) as relay:
            await registered(relay)
            models.hangs = True
            await relay.stopped()
        assert len(server.withdrawn) == 1


async def test_a_stop_takes_a_health_url_that_hangs_for_gone() -> None:
    async with openai_server("a") as models, scripted_server() as server:
        server.script("RegisterPool", granted(lease=9, heartbeat=3))
        server.script("DeregisterPool", GONE)
        async with relaying(relay_settings(models, server.target)) as relay:
            await registered(relay)
            models.hangs = True
            models.asked.clear()
            relay.ask_to_stop()
            await relay.until(lambda: "/health" in models.asked)
            await relay.timer.slept_for(3)
            relay.timer.advance(3)
            await relay.stopped()
        assert len(server.withdrawn) == 1


async def test_a_stop_ends_its_outstanding_call_before_it_withdraws() -> None:
    async with openai_server("a") as models, scripted_server() as server:
        server.script("RegisterPool", granted(), HANG)
        server.script("DeregisterPool", GONE)
        settings = relay_settings(models, server.target, withdraw_on_exit=True)
        async with relaying(settings) as relay:
            await server.next_call()
            await registered(relay)
            relay.timer.advance(5)
            await server.next_call()
            await relay.stopped()
            async with asyncio.timeout(30):
                await server.ended_with.get()
        assert len(server.withdrawn) == 1


async def test_a_stop_does_not_hang_on_a_server_that_is_dead() -> None:
    async with openai_server("a") as models, scripted_server() as server:
        server.script("RegisterPool", granted(lease=3, heartbeat=1))
        settings = relay_settings(models, server.target, withdraw_on_exit=True)
        async with relaying(settings) as relay:
            await registered(relay)
            server.script("DeregisterPool", grpc.StatusCode.UNAVAILABLE)
            await relay.stopped()
            assert relay.relay.heartbeat.failing


async def test_two_relays_that_see_different_readiness_keep_one_model_listed() -> None:
    async with (
        openai_server("a") as one,
        openai_server("a") as other,
        a_service() as service,
        relaying(relay_settings(one, target(service), relay_id="r1")) as first,
        relaying(relay_settings(other, target(service), relay_id="r2")) as second,
    ):
        await registered(first)
        await registered(second)
        one.models = other.models = ["a", "b"]
        other.health = 503
        for _ in range(3):
            await first.polled()
            await second.polled()
        assert first.relay.topology.choice == second.relay.topology.choice
        assert first.relay.topology.choice.model == "a"


async def test_the_death_of_a_task_ends_the_relay_with_its_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with openai_server("a") as models, scripted_server() as server:
        server.script("RegisterPool", granted())
        async with relaying(relay_settings(models, server.target)) as relay:
            await registered(relay)
            monkeypatch.setattr(
                "global_discovery.relay.relay.Relay._asking_seconds", lambda *_: 1 / 0
            )
            relay.timer.advance(1)
            with pytest.raises(ZeroDivisionError):
                async with asyncio.timeout(30):
                    await relay.running


async def test_a_relay_without_a_proper_server_is_refused() -> None:
    async with openai_server() as models:
        for servers in ((), ("http://",)):
            with pytest.raises(ValueError, match="server"):
                Relaying(relay_settings(models, *servers))
