"""The client commands as processes, against a real server in the test's own loop."""

import asyncio
import json
import signal
import sys
from typing import Any

import grpc
import pytest

from global_discovery import __version__
from global_discovery.domain.lease import LeaseTerms
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
        command.process.send_signal(number)
        assert await command.ended() == (status, "")
        assert command.process.stderr is not None
        assert await command.process.stderr.read() == b""


async def test_a_reader_that_went_away_ends_a_watch_without_a_word() -> None:
    async with a_service() as service:
        command = f"{sys.executable} -m global_discovery.cli.main pools --watch -o json"
        process = await asyncio.create_subprocess_shell(
            f"{command} --server {target(service)} | head -n 1",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        await process.stdout.readline()
        assert await process.stdout.read() == b""
        ended = asyncio.create_task(process.communicate())
        async with asyncio.timeout(60):
            number = 0
            while not ended.done():
                number += 1
                await register(service, number)
                await asyncio.wait({ended}, timeout=0.05)
        assert (await ended)[1] == b""


async def test_watching_routers_works_alike() -> None:
    async with (
        a_service(routers=(Router("r1", "http://r1"),)) as service,
        running("routers", "--watch", "--server", target(service)) as command,
    ):
        assert await command.line() == "snapshot  1 router, EXACT"
        assert await command.line() == "listed    r1 http://r1"


# -- registering -----------------------------------------------------------------

POOL = ("--pool", "c1/ns/mine", "--model", "m", "--region", "r1")


async def listed(service: Service) -> Any:
    (pool,) = (await call(service, "ListPools", pb.ListPoolsRequest())).pools
    return pool


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_register_keeps_a_pool_until_a_signal_and_withdraws_it(
    number: signal.Signals,
) -> None:
    async with (
        a_service() as service,
        running(
            *("register", *POOL, "--server", target(service)),
            *("--availability-zone", "z", "--datacenter", "d"),
            *("--frontend", "http://b", "--frontend", "http://a", "--capability", "chat"),
            *("--capacity", "H100=8", "--capacity", "A=B=1", "--relay", "ip:10.0.0.9"),
            *("--relay-id", "me"),
        ) as command,
    ):
        assert await command.line() == (
            f"registered c1/ns/mine at {target(service)}: lease 15 s, renewed every 5 s"
        )
        pool = await listed(service)
        assert (pool.location.availability_zone, pool.location.datacenter) == ("z", "d")
        assert list(pool.frontends) == ["http://a", "http://b"]
        assert {entry.gpu_sku: entry.gpu_count for entry in pool.capacity} == {"H100": 8, "A=B": 1}
        assert list(pool.relays) == ["ip:10.0.0.9"]
        command.process.send_signal(number)
        assert await command.ended() == (0, "withdrew c1/ns/mine\n")
        assert not (await call(service, "ListPools", pb.ListPoolsRequest())).pools


async def test_register_tells_when_an_error_begins_and_ends() -> None:
    terms = LeaseTerms(1, 3)
    async with a_service(terms=terms) as service:
        port, server = service.grpc.port, target(service)
        registering = running("register", *POOL, "--server", server)
        command = await registering.__aenter__()
        await command.line_with("registered")
    try:
        failing = await command.line()
        assert failing.startswith(f"failing: {server} is unavailable: ")
        async with a_service(port=port, terms=terms) as service:
            assert (await command.line()).startswith(f"{server} answers again, after ")
            assert (await listed(service)).key.dgd_name == "mine"
            command.process.send_signal(signal.SIGINT)
            assert await command.ended() == (0, "withdrew c1/ns/mine\n")
    finally:
        await registering.__aexit__(None, None, None)


async def test_a_registration_that_breaks_rules_is_refused_with_every_field_named() -> None:
    async with a_service() as service:
        result = await ran(
            *("register", "--pool", "c1/ns/..", "--model", "m", "--region", "r1"),
            *("--frontend", "ftp://x", "--server", target(service)),
        )
    assert (result.status, result.out) == (1, "")
    (line,) = result.err.splitlines()
    assert f"{target(service)} refused the call: " in line
    assert "dgd_name: " in line
    assert "frontends[0]: " in line


async def test_register_that_cannot_withdraw_says_so_and_fails() -> None:
    async with a_service() as service:
        registering = running("register", *POOL, "--server", target(service))
        command = await registering.__aenter__()
        await command.line_with("registered")
    try:
        command.process.send_signal(signal.SIGTERM)
        status, rest = await command.ended()
        assert status == 1
        assert rest.endswith("could not withdraw c1/ns/mine; it leaves when its lease ends\n")
    finally:
        await registering.__aexit__(None, None, None)


async def test_register_without_a_reader_withdraws() -> None:
    async with a_service() as service:
        command = f"{sys.executable} -m global_discovery.cli.main register {' '.join(POOL)}"
        process = await asyncio.create_subprocess_shell(
            f"{command} --server {target(service)} | head -n 0; exit ${{PIPESTATUS[0]}}",
            stderr=asyncio.subprocess.PIPE,
            executable="/bin/bash",
        )
        async with asyncio.timeout(60):
            _, err = await process.communicate()
        assert (process.returncode, err) == (141, b"")
        assert not (await call(service, "ListPools", pb.ListPoolsRequest())).pools


# -- usage -----------------------------------------------------------------------


async def test_version_and_help_are_readable() -> None:
    assert (await ran("--version")).out == f"global-discovery {__version__}\n"
    result = await ran("--help")
    assert result.status == 0
    for command in ("serve", "pools", "routers", "register", "health"):
        assert f"\n    {command} " in result.out
    assert (await ran("register", "--help")).status == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "COMMAND"),
        (("nonsense",), "nonsense"),
        (("pools", "--server", "nowhere"), "nowhere"),
        (("pools", "--server", "host:0"), "host:0"),
        (("pools", "--server", ":50051"), ":50051"),
        (("pools", "--model", ""), "--model"),
        (("pools", "--mod", "x"), "--mod"),
        (("pools", "-o", "xml"), "xml"),
        (("register", "--pool", "c/n/d", "--model", "m"), "--region"),
        (("register", "--pool", "c/d", "--model", "m", "--region", "r"), "c/d"),
        (("register", *POOL, "--capacity", "H100"), "H100"),
        (("register", *POOL, "--capacity", "H100=1_0"), "H100=1_0"),
        (("register", *POOL, "--frontend"), "--frontend"),
        (("pools", "--model", b"\xff"), "--model"),
    ],
)
async def test_wrong_usage_is_refused_with_status_two(arguments: Any, named: str) -> None:
    result = await ran(*arguments)
    assert (result.status, result.out) == (2, "")
    assert named in result.err
    assert "Traceback" not in result.err


async def test_a_variable_that_names_no_server_is_refused_by_its_name() -> None:
    result = await ran("pools", GLOBAL_DISCOVERY_SERVER="nowhere")
    assert result.status == 2
    assert "GLOBAL_DISCOVERY_SERVER" in result.err


BLOCKED = """
import sys
from importlib.abc import MetaPathFinder

class Block(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Block())
from global_discovery.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
SERVER_ONLY = {"aiohttp", "orjson", "structlog", "prometheus_client", "grpc_health", "rich"}


async def ran_without(blocked: set[str], *arguments: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", BLOCKED.format(blocked=blocked), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@pytest.mark.parametrize("command", ["", "serve", "pools", "routers", "register", "health"])
async def test_all_help_works_with_the_client_library_alone(command: str) -> None:
    status, out, _ = await ran_without(SERVER_ONLY, *command.split(), "--help")
    assert status == 0
    assert "usage:" in out


async def test_without_rich_a_table_is_refused_with_advice_and_json_works() -> None:
    async with a_service() as service:
        server = ("--server", target(service))
        status, _, err = await ran_without({"rich"}, "pools", *server)
        assert status == 1
        assert "global-discovery[cli]" in err
        status, out, _ = await ran_without({"rich"}, "pools", "-o", "json", *server)
        assert status == 0
        assert json.loads(out)["pools"] == []
