"""The client commands as processes, against a real server in the test's own loop."""

import asyncio
import json
import signal
import sys
from typing import Any

import grpc
import pytest

from global_discovery.domain.pool import Router
from global_discovery.serving.service import Service
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.client_process import ran, running
from support.clock import FakeClock
from support.pools import a_registration
from support.running import a_service, target

HOSTILE = "[2J\u202eevil[bold]"
"""What a registration may hold: it has no C0 and C1 controls."""


async def call(service: Service, method: str, request: Any) -> Any:
    async with grpc.aio.insecure_channel(target(service)) as channel:
        return await getattr(PoolDiscoveryServiceStub(channel), method)(request)


async def register(service: Service, number: int = 1, **content: Any) -> str:
    request = pb.RegisterPoolRequest(registration=a_registration(number, **content))
    return str((await call(service, "RegisterPool", request)).lease_id)


async def withdraw(service: Service, number: int = 1) -> None:
    request = pb.DeregisterPoolRequest(key=a_registration(number).key, all_shares=True)
    await call(service, "DeregisterPool", request)


# -- lists -----------------------------------------------------------------------


async def test_pools_prints_a_table_with_its_mark() -> None:
    async with a_service() as service:
        await register(service, model="Qwen/Qwen3-0.6B")
        result = await ran("pools", "--server", target(service))
    lines = result.out.splitlines()
    assert (result.status, result.err) == (0, "")
    assert lines[0].split() == ["POOL", "MODEL", "LOCATION", "GPUS", "CAPABILITIES", "FRONTENDS"]
    assert lines[1].split() == ["c1/ns/pool-00001", "Qwen/Qwen3-0.6B", "r1", "http://10.0.0.1:8000"]
    assert lines[2] == "1 pool, ESTIMATED: STARTING (bound 1 s); some may be missing"


async def test_pools_prints_one_json_document_as_the_rest_gateway_does() -> None:
    async with a_service() as service:
        await register(service)
        result = await ran("pools", "-o", "json", "--server", target(service))
    document = json.loads(result.out)
    assert document["reasons"] == ["STARTING"]
    assert (document["complete"], document["bound_secs"]) == (False, 1)
    (pool,) = document["pools"]
    assert (pool["cluster_id"], pool["namespace"], pool["dgd_name"]) == ("c1", "ns", "pool-00001")
    assert pool["location"] == {"region": "r1"}


async def test_filters_reach_the_server_and_the_server_comes_from_the_environment() -> None:
    async with a_service() as service:
        await register(service, 1, model="a", region="eu")
        await register(service, 2, model="b", region="us")
        await register(service, 3, model="b", region="eu")
        result = await ran(
            *("pools", "-o", "json", "--model", "b", "--model", "c", "--region", "eu"),
            *("--cluster-id", "c1", "--namespace", "ns"),
            GLOBAL_DISCOVERY_SERVER=f"127.0.0.1:1, {target(service)}",
        )
    assert [pool["dgd_name"] for pool in json.loads(result.out)["pools"]] == ["pool-00003"]


async def test_routers_are_listed_as_table_and_json() -> None:
    async with a_service(routers=(Router("r1", "http://r1"),)) as service:
        table = await ran("routers", "--server", target(service))
        document = await ran("routers", "-o", "json", "--server", target(service))
    assert table.out.splitlines()[-1] == "1 router, EXACT"
    assert json.loads(document.out) == {
        "routers": [{"id": "r1", "url": "http://r1"}],
        "complete": True,
        "reasons": [],
    }


async def test_what_a_relay_said_cannot_steer_the_terminal() -> None:
    async with a_service() as service:
        await register(service, model=HOSTILE)
        table = await ran("pools", "--server", target(service))
        lines = await ran("pools", "-o", "json", "--server", target(service))
    assert "[2J\\u202eevil[bold]" in table.out
    assert "\u202e" not in table.out + lines.out


async def test_no_colour_on_a_pipe_even_when_the_environment_asks_for_it() -> None:
    async with a_service() as service:
        await register(service)
        result = await ran("pools", "--server", target(service), FORCE_COLOR="1", TERM="xterm")
    assert "\x1b" not in result.out


async def test_a_wide_table_on_a_pipe_is_not_cut() -> None:
    frontends = [f"http://frontend-{number}.example:8000" for number in range(50)]
    async with a_service() as service:
        await register(service, frontends=frontends)
        result = await ran("pools", "--server", target(service), COLUMNS="40")
    assert all(frontend in result.out.splitlines()[1] for frontend in frontends)


async def test_a_server_that_is_away_is_named_in_one_sentence_without_a_traceback() -> None:
    result = await ran("pools", "-o", "json", "--server", "127.0.0.1:1")
    assert (result.status, result.out) == (1, "")
    (line,) = result.err.splitlines()
    assert line.startswith("global-discovery: 127.0.0.1:1 is unavailable: ")


# -- watching --------------------------------------------------------------------


async def test_watch_as_json_tells_every_change_on_a_line() -> None:
    clock = FakeClock()
    async with (
        a_service(clock=clock) as service,
        running("pools", "--watch", "-o", "json", "--server", target(service)) as command,
    ):
        first = json.loads(await command.line())
        assert (first["event"], first["pools"], first["complete"]) == ("snapshot", [], False)
        await register(service)
        changed = json.loads(await command.line())
        assert (changed["event"], changed["pool"]["dgd_name"]) == ("changed", "pool-00001")
        await withdraw(service)
        assert json.loads(await command.line()) == {
            "event": "removed",
            "cluster_id": "c1",
            "namespace": "ns",
            "dgd_name": "pool-00001",
        }
        for _ in range(31):
            clock.advance(1)
            service.core.tick()
        mark = json.loads(await command.line())
        assert mark == {"event": "mark", "complete": True, "reasons": [], "bound_secs": 1}


async def test_watch_on_a_pipe_tells_people_the_same() -> None:
    async with (
        a_service() as service,
        running("pools", "--watch", "--server", target(service)) as command,
    ):
        assert (await command.line()).startswith("snapshot  0 pools, ESTIMATED: STARTING")
        await register(service)
        assert (await command.line()).startswith("changed   c1/ns/pool-00001 model=m location=r1")
        await withdraw(service)
        assert await command.line() == "removed   c1/ns/pool-00001"


async def test_watching_goes_on_over_a_restart_of_the_server() -> None:
    async with a_service() as service:
        port, server = service.grpc.port, target(service)
        await register(service)
        watching = running("pools", "--watch", "-o", "json", "--server", server)
        command = await watching.__aenter__()
        await command.line_with('"snapshot"')
    try:
        lost = json.loads(await command.line())
        assert (lost["event"], lost["server"]) == ("connection_lost", server)
        async with a_service(port=port):
            await command.line_with('"connection_restored"')
            assert json.loads(await command.line_with('"snapshot"'))["pools"] == []
            unlisted = json.loads(await command.line())
            assert (unlisted["event"], unlisted["dgd_name"]) == ("unlisted", "pool-00001")
    finally:
        await watching.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
async def test_a_signal_ends_a_watch_without_a_word(number: signal.Signals, status: int) -> None:
    async with (
        a_service() as service,
        running("pools", "--watch", "--server", target(service)) as command,
    ):
        await command.line()
        for _ in range(3):  # also in the middle of its end
            command.process.send_signal(number)
        assert await command.ended() == (status, "")
        assert command.process.stderr is not None
        assert await command.process.stderr.read() == b""


async def test_a_reader_that_went_away_ends_a_watch_without_a_word() -> None:
    """At once, although nothing is written any more."""
    async with a_service(clock=FakeClock()) as service:
        command = f"{sys.executable} -m global_discovery.cli.main pools --watch -o json"
        process = await asyncio.create_subprocess_shell(
            f"{command} --server {target(service)} | head -n 1; exit ${{PIPESTATUS[0]}}",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            executable="/bin/bash",
        )
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        assert json.loads(out)["event"] == "snapshot"
        assert (process.returncode, err) == (141, b"")


async def test_a_watch_that_is_refused_for_good_ends_with_a_sentence() -> None:
    models = [word for number in range(257) for word in ("--model", f"m{number}")]
    async with a_service() as service:
        result = await ran("pools", "--watch", *models, "--server", target(service))
    assert (result.status, result.out) == (1, "")
    (line,) = result.err.splitlines()
    assert "refused the call: " in line


async def test_watching_routers_works_alike() -> None:
    async with (
        a_service(routers=(Router("r1", "http://r1"),)) as service,
        running("routers", "--watch", "--server", target(service)) as command,
    ):
        assert await command.line() == "snapshot  1 router, EXACT"
        assert await command.line() == "listed    r1 http://r1"
