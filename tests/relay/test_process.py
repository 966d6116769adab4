"""`global-discovery relay` and `serve` as real processes, with a model server beside them."""

import asyncio
import contextlib
import signal
import socket
import sys
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc

from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.openai_server import OpenAiServer, openai_server
from support.pools import a_registration
from support.relay_process import COMMAND, RelayProcess, a_relay_process
from support.scripted_rest import Said, a_problem, granted_json, scripted_rest
from support.serve_process import (
    LOOPBACK,
    PATIENCE_SECONDS,
    SHORT_LEASE,
    ServeProcess,
    clean_environment,
    started,
)

ROOT = Path(__file__).resolve().parents[2]
POOL = ("--pool", "ns/qwen", "--region", "eu")


class Discovery:
    """A running `global-discovery serve`, seen from outside."""

    def __init__(self, process: ServeProcess, rest: int, grpc_port: int) -> None:
        self.process = process
        self.rest = rest
        self.grpc = grpc_port

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.grpc}"

    async def pools(self) -> list[Any]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.rest}/pools") as answer,
        ):
            return list((await answer.json())["pools"])

    async def until_models(self, *wanted: str) -> None:
        """Returns once pools with these models are what is listed."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while [pool["model"] for pool in await self.pools()] != [*wanted]:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def discovery(*flags: str) -> AsyncIterator[Discovery]:
    async with started(*(flags or LOOPBACK)) as process:
        ports = await process.ready()
        yield Discovery(process, ports["rest_port"], ports["grpc_port"])


def flags_for(server: str, models: OpenAiServer) -> tuple[str, ...]:
    return ("--server", server, *POOL, "--frontend", models.url)


@contextlib.asynccontextmanager
async def a_pool(*flags: str) -> AsyncIterator[tuple[Discovery, OpenAiServer, RelayProcess]]:
    """A server, a model server with one model, and a relay between them."""
    async with (
        discovery() as found,
        openai_server("a") as models,
        a_relay_process(*flags_for(found.target, models), *flags) as relay,
    ):
        yield found, models, relay


def is_registered(health: Any) -> bool:
    return health["routing_pool_unregistered_reason"] is None


async def test_a_relay_lists_its_pool_and_a_change_of_model_moves_it() -> None:
    async with a_pool("--capacity", "H100=8") as (found, models, _):
        await found.until_models("a")
        (pool,) = await found.pools()
        assert (pool["cluster_id"], pool["namespace"], pool["dgd_name"]) == ("c1", "ns", "qwen")
        assert pool["location"] == {"region": "eu"}
        assert pool["frontends"] == [models.url]
        assert pool["capacity"] == [{"gpu_sku": "H100", "gpu_count": 8}]
        models.models = ["b"]
        await found.until_models("b")


async def test_a_relay_that_goes_with_its_model_server_withdraws_the_pool() -> None:
    async with a_pool() as (found, models, relay):
        await found.until_models("a")
        await relay.until(is_registered)
        await models.stop()
        assert "withdrawn" in await relay.stop()
        assert await found.pools() == []


async def test_a_relay_that_goes_alone_leaves_its_pool_listed() -> None:
    async with a_pool() as (found, _models, relay):
        await relay.until(is_registered)
        events = await relay.stop()
        assert "lease_kept" in events
        assert "withdrawn" not in events
        assert len(await found.pools()) == 1


async def test_a_relay_that_is_told_so_withdraws_though_its_model_server_lives() -> None:
    async with a_pool("--withdraw-on-exit") as (found, _, relay):
        await relay.until(is_registered)
        assert "withdrawn" in await relay.stop()
        assert await found.pools() == []


async def test_a_relay_restarted_inside_its_lease_changes_nothing_for_a_watcher() -> None:
    async with (
        discovery(*LOOPBACK, "--lease-duration-secs", "300") as found,
        openai_server("a") as models,
    ):
        flags = flags_for(found.target, models)
        async with a_relay_process(*flags, POD_UID="pod-1") as relay:
            await relay.until(is_registered)
            async with watching(found) as (stub, messages):
                await relay.stop()
                async with a_relay_process(*flags, POD_UID="pod-1") as again:
                    await again.until(is_registered)
                    marker = a_registration()
                    await stub.RegisterPool(pb.RegisterPoolRequest(registration=marker))
                    told = await first_change(messages)
                    assert [pool.key.dgd_name for pool in told.pools] == [marker.key.dgd_name]
                    assert not told.removed
                    assert not told.unlisted


@contextlib.asynccontextmanager
async def watching(found: Discovery) -> AsyncIterator[tuple[Any, Any]]:
    """The calls, and the messages of a watch that has had its snapshot."""
    async with grpc.aio.insecure_channel(found.target) as channel:
        stub: Any = PoolDiscoveryServiceStub(channel)
        call = stub.WatchPools(pb.WatchPoolsRequest())
        messages = aiter(call)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (await anext(messages)).HasField("snapshot"):
                pass
        try:
            yield stub, messages
        finally:
            call.cancel()


async def first_change(messages: Any) -> Any:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (message := await anext(messages)).HasField("changes"):
            pass
    return message.changes


async def test_a_server_that_is_killed_and_comes_back_has_the_pool_again() -> None:
    async with contextlib.AsyncExitStack() as stack:
        models = await stack.enter_async_context(openai_server("a"))
        found = await stack.enter_async_context(discovery(*LOOPBACK, *SHORT_LEASE))
        relay = await stack.enter_async_context(a_relay_process(*flags_for(found.target, models)))
        await relay.until(is_registered)
        found.process.send(signal.SIGKILL)
        await found.process.ended()
        await relay.event("calls_failing")
        flags = ("--listen", "127.0.0.1:0", "--grpc-listen", found.target, *SHORT_LEASE)
        again = await stack.enter_async_context(discovery(*flags))
        await again.until_models("a")
        await relay.event("calls_succeed")
        events = await relay.stop()
        assert events.count("calls_failing") == 1, "a failure that goes on is said once"


async def test_a_second_server_takes_over_from_one_that_is_away() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        away = f"127.0.0.1:{unused.getsockname()[1]}"
        async with discovery() as found, openai_server("a") as models:
            flags = ("--server", away, *flags_for(found.target, models))
            async with a_relay_process(*flags):
                await found.until_models("a")


async def test_a_pool_is_registered_and_withdrawn_over_rest() -> None:
    async with discovery() as found, openai_server("a") as models:
        url = f"http://127.0.0.1:{found.rest}"
        flags = (*flags_for(url, models), "--withdraw-on-exit")
        async with a_relay_process(*flags) as relay:
            await found.until_models("a")
            await relay.until(is_registered)
            assert "withdrawn" in await relay.stop()
            assert await found.pools() == []


async def test_a_server_that_knows_only_registering_is_enough() -> None:
    async with scripted_rest() as server, openai_server("a") as models:
        server.script("POST", Said(501), granted_json(lease=3, heartbeat=1))
        flags = (*flags_for(server.url, models), "--withdraw-on-exit")
        async with a_relay_process(*flags) as relay:
            for _ in range(3):
                call = await server.next_call()
                assert (call.method, call.path, call.body["model"]) == ("POST", "/pools", "a")
                assert "lease_id" not in call.body
            health = await relay.until(is_registered)
            assert health["lease"]["can_withdraw"] is False
            events = await relay.stop()
            assert "cannot_withdraw" in events
            assert "not_withdrawn" not in events


async def test_upstreams_names_and_variables_say_the_same() -> None:
    async with discovery() as found, openai_server("a") as models:
        flags = (
            *("--routing-pool", "ns/qwen", "--routing-pool-region", "us"),
            *("--routing-pool-frontends", f"{models.url},https://Two.example:443/"),
        )
        variables = {
            "GLOBAL_DISCOVERY_SERVER": found.target,
            "DYN_CLUSTER_ID": "theirs",
            "POD_UID": "uid-1",
        }
        async with a_relay_process(*flags, **variables) as relay:
            await found.until_models("a")
            (pool,) = await found.pools()
            assert (pool["cluster_id"], pool["location"]) == ("theirs", {"region": "us"})
            assert pool["frontends"] == sorted([models.url, "https://two.example"])
            assert (await relay.health())["relay_id"] == "uid-1"


async def test_a_second_signal_ends_it_at_once() -> None:
    async with (
        openai_server("a") as models,
        a_relay_process(*flags_for("127.0.0.1:1", models)) as relay,
    ):
        await relay.event("calls_failing")
        models.hangs = True
        relay.process.send(signal.SIGTERM)
        await relay.until(lambda health: not health["healthy"])
        relay.process.send(signal.SIGTERM)
        assert await relay.process.ended() == 128 + signal.SIGTERM


async def test_a_port_in_use_is_a_failure_to_start() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        flags = (*POOL, "--frontend", "http://127.0.0.1:1", "--cluster-id", "c1")
        async with started(
            *flags, "--listen", address, command=COMMAND, env=clean_environment()
        ) as process:
            assert await process.ended() == 1
            names = [event["event"] for event in process.events]
            assert names == ["cannot_start", "stopped"]


async def test_a_withdrawal_at_a_server_that_has_forgotten_the_pool_is_told_as_none() -> None:
    async with scripted_rest() as server, openai_server("a") as models:
        server.script("POST", granted_json(lease=600, heartbeat=200, lease_id="id-1"))
        server.script("DELETE", a_problem(404, "there is no such share"))
        flags = (*flags_for(server.url, models), "--withdraw-on-exit")
        async with a_relay_process(*flags) as relay:
            await relay.until(is_registered)
            server.instance = "restarted"
            events = await relay.stop()
            assert "withdrawn" not in events
            assert "no such share" in str(await relay.event("not_withdrawn"))


async def test_no_line_of_the_log_shows_a_lease_id() -> None:
    async with scripted_rest() as server, openai_server("a") as models:
        server.script("POST", granted_json(lease_id="the-id-of-the-lease"))
        server.script("DELETE", Said(500))
        flags = (*flags_for(server.url, models), "--withdraw-on-exit", "--log-level", "debug")
        async with a_relay_process(*flags) as relay:
            health: Any = await relay.until(is_registered)
            assert "the-id-of-the-lease" not in str(health)
            assert "not_withdrawn" in await relay.stop()
            assert "the-id-of-the-lease" not in "".join(relay.process.lines)


STOPPED_WHILE_IT_LOADS = """
import os, signal, sys

class Signals:
    def find_spec(self, name, path=None, target=None):
        if name == "grpc":
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, Signals())
from global_discovery.cli.entry import main
sys.exit(main())
"""


async def test_a_stop_while_the_program_is_still_loading_is_an_orderly_one() -> None:
    nowhere = ("--server", "127.0.0.1:1", "--frontend", "http://127.0.0.1:1")
    command = [sys.executable, "-c", STOPPED_WHILE_IT_LOADS, "relay"]
    async with started(
        *(*nowhere, *POOL, "--listen", "127.0.0.1:0"),
        command=command,
        env=clean_environment(DYN_CLUSTER_ID="c1"),
    ) as process:
        assert (await process.event("stopped"))["status"] == 0
        assert await process.ended() == 0


def test_the_installed_program_begins_where_signals_are_held_back() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"global-discovery": "global_discovery.cli.entry:main"}
