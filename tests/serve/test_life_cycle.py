"""The life of real processes: how they start, what they say, and how they end."""

import asyncio
import os
import pty
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.pools import a_registration
from support.serve_process import (
    COMMAND,
    LOOPBACK,
    PATIENCE_SECONDS,
    ServeProcess,
    clean_environment,
    started,
)

ALTERED = [sys.executable, str(Path(__file__).parents[1] / "support" / "altered_serve.py")]
Status = health_pb2.HealthCheckResponse


def altered(way: str, *flags: str) -> Any:
    return started(*LOOPBACK, *flags, command=[*ALTERED, way])


@asynccontextmanager
async def channel_to(server: ServeProcess, event: str = "ready") -> AsyncIterator[Any]:
    port = (await server.event(event))["grpc_port"]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel


def watch(channel: Any) -> Any:
    return PoolDiscoveryServiceStub(channel).WatchPools(pb.WatchPoolsRequest())


async def reason_of_end(stream: Any) -> tuple[grpc.StatusCode, str]:
    """Reads a stream to its end: the code, and the reason in its details."""
    try:
        while await stream.read() is not grpc.aio.EOF:
            pass
    except grpc.aio.AioRpcError as error:
        status = rpc_status.from_call(error)
        info = error_details_pb2.ErrorInfo()
        if status is not None:
            status.details[0].Unpack(info)
        return error.code(), info.reason
    return grpc.StatusCode.OK, ""


# -- start -------------------------------------------------------------------


async def test_a_server_says_its_ports_when_they_are_open_and_when_it_takes_calls() -> None:
    async with started(*LOOPBACK) as server:
        ready = await server.ready()
        listening = await server.event("listening")
        for port in ("grpc_port", "rest_port"):
            assert listening[port] == ready[port] > 0
        assert "health_port" not in ready
        async with channel_to(server) as channel:
            request = pb.RegisterPoolRequest(registration=a_registration())
            answer = await PoolDiscoveryServiceStub(channel).RegisterPool(request)
            assert answer.lease_duration_secs == 15
        assert await server.stop() == 0


@pytest.mark.parametrize(
    ("flags", "warned"),
    [
        (LOOPBACK, False),
        (["--listen", "[::1]:0", "--grpc-listen", "localhost:0"], False),
        (["--listen", "127.0.0.1:0", "--grpc-listen", "0.0.0.0:0"], True),
        (["--listen", ":0", "--grpc-listen", "127.0.0.1:0"], True),
    ],
    ids=str,
)
async def test_one_warning_says_that_nothing_is_protected_unless_on_loopback_only(
    flags: list[str], *, warned: bool
) -> None:
    async with started(*flags) as server:
        await server.ready()
        warnings = [event for event in server.events if event["level"] == "warning"]
        assert ["any pool" in warning["message"] for warning in warnings] == [True] * warned


async def test_while_the_store_is_not_read_it_listens_and_is_not_ready() -> None:
    async with altered("store-never-opens") as server, channel_to(server, "listening") as channel:
        health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert health.status == Status.NOT_SERVING
        request = pb.RegisterPoolRequest(registration=a_registration())
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await PoolDiscoveryServiceStub(channel).RegisterPool(request)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert await server.stop() == 0
        assert "ready" not in {event["event"] for event in server.events}


async def test_a_store_that_cannot_be_opened_is_a_sentence_and_status_1() -> None:
    async with altered("store-cannot-open") as server:
        assert await server.ended() == 1
        assert (await server.event("cannot_start"))["message"] == "the store\nis in use"


@pytest.mark.parametrize("flag", ["--listen", "--grpc-listen", "--health-listen"])
@pytest.mark.parametrize("used", ["rest_port", "grpc_port"])
async def test_a_second_server_on_a_used_port_ends_with_a_sentence_and_status_1(
    flag: str, used: str
) -> None:
    async with started(*LOOPBACK) as first:
        address = f"127.0.0.1:{(await first.ready())[used]}"
        async with started(*LOOPBACK, flag, address) as second:
            assert await second.ended() == 1
            errors = [event for event in second.events if event["level"] == "error"]
            assert [error["event"] for error in errors] == ["cannot_start"]
            assert address in errors[0]["message"]
            assert "exception" not in errors[0]
        async with channel_to(first) as channel:
            await PoolDiscoveryServiceStub(channel).ListPools(pb.ListPoolsRequest())


@pytest.mark.parametrize(
    "way", ["task-dies", "task-dies-while-store-opens", "task-of-the-store-dies"]
)
async def test_the_death_of_a_task_is_logged_and_ends_the_process_with_status_1(way: str) -> None:
    async with altered(way) as server:
        assert await server.ended() == 1
        failed = await server.event("failed")
        assert "ZeroDivisionError: a fault of ours" in failed["exception"]


async def test_variables_set_the_flags_of_a_real_process() -> None:
    env = clean_environment(
        GLOBAL_DISCOVERY_LISTEN="127.0.0.1:0",
        GLOBAL_DISCOVERY_GRPC_LISTEN="127.0.0.1:0",
        GLOBAL_DISCOVERY_LEASE_DURATION_SECS="60",
        GLOBAL_DISCOVERY_ROUTER="r1=http://10.0.0.1,r2=http://10.0.0.2",
        GLOBAL_DISCOVERY_PORT="tcp://10.0.0.1:8080",
    )
    async with started(env=env) as server, channel_to(server) as channel:
        stub = PoolDiscoveryServiceStub(channel)
        answer = await stub.RegisterPool(pb.RegisterPoolRequest(registration=a_registration()))
        assert answer.lease_duration_secs == 60
        routers = await stub.ListRouters(pb.ListRoutersRequest())
        assert [router.id for router in routers.routers] == ["r1", "r2"]
        assert all(event["level"] != "warning" for event in server.events)


def test_on_a_terminal_the_log_is_for_people() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen([*COMMAND, *LOOPBACK], env=clean_environment(), stderr=theirs) as server:
        os.close(theirs)
        shown = b""
        while b" ready " not in shown:
            shown += os.read(ours, 4096)
        server.terminate()
        assert server.wait(PATIENCE_SECONDS) == 0
    os.close(ours)
    assert b"grpc_port=" in shown
    assert not any(line.startswith(b"{") for line in shown.splitlines())


# -- end ---------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_process_in_order(number: signal.Signals) -> None:
    async with started(*LOOPBACK) as server:
        await server.ready()
        server.send(number)
        assert await server.ended() == 0
        assert [event["event"] for event in server.events][-2:] == ["stopping", "stopped"]


async def test_watchers_are_told_to_come_back_and_the_grace_is_not_waited_for() -> None:
    async with altered("endless-grace") as server, channel_to(server) as channel:
        streams = [watch(channel) for _ in range(100)]
        health = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        for stream in streams:
            assert (await stream.read()).server.instance_id
        assert (await health.read()).status == Status.SERVING
        ends = [asyncio.create_task(reason_of_end(stream)) for stream in streams]
        assert await server.stop() == 0
        for end in await asyncio.gather(*ends):
            assert end == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
        assert (await health.read()).status == Status.NOT_SERVING
        assert (await reason_of_end(health))[0] == grpc.StatusCode.UNAVAILABLE


async def test_an_idle_http_connection_does_not_hold_the_end() -> None:
    async with altered("endless-grace") as server:
        port = (await server.ready())["rest_port"]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert await server.stop() == 0
        await reader.read()
        writer.close()
        await writer.wait_closed()


async def test_a_call_that_is_under_way_is_finished() -> None:
    async with altered("call-under-way") as server, channel_to(server) as channel:
        request = pb.RegisterPoolRequest(registration=a_registration())
        call = PoolDiscoveryServiceStub(channel).RegisterPool(request)
        await server.event("storing")
        assert await server.stop() == 0
        assert (await call).lease_id


async def test_an_http_call_that_is_under_way_is_finished() -> None:
    body = (
        b'{"cluster_id": "c", "namespace": "n", "dgd_name": "d", "model": "m", '
        b'"location": {"region": "r"}}'
    )
    head = "POST /pools HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
    async with altered("call-under-way") as server:
        port = (await server.ready())["rest_port"]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await server.event("storing")
        assert await server.stop() == 0
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in answer.lower()
        assert b"lease_id" in answer
        writer.close()
        await writer.wait_closed()


async def test_a_watcher_that_does_not_read_does_not_hold_the_end() -> None:
    async with started(*LOOPBACK) as server, channel_to(server) as channel:
        stub = PoolDiscoveryServiceStub(channel)
        frontends = [f"http://10.0.0.1:8000/{'x' * 400}/{number}" for number in range(120)]
        for number in range(200):
            registration = a_registration(number, frontends=frontends)
            await stub.RegisterPool(pb.RegisterPoolRequest(registration=registration))
        stream = watch(channel)
        assert (await stream.read()).server.instance_id
        assert await server.stop() == 0
        stream.cancel()


async def test_a_store_that_does_not_close_is_left_as_it_is() -> None:
    async with altered("store-is-given-up") as server:
        await server.ready()
        assert await server.stop() == 0
        assert (await server.event("store_not_closed"))["level"] == "warning"


@pytest.mark.parametrize("way", ["store-never-closes", "store-blocks-at-the-end"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_the_process_at_once(number: signal.Signals, way: str) -> None:
    async with altered(way) as server:
        await server.ready()
        server.send(signal.SIGTERM)
        await server.event("closing")
        server.send(number)
        assert await server.ended() == 128 + number


async def test_a_signal_that_comes_before_the_start_is_not_lost() -> None:
    async with altered("stopped-before-it-starts") as server:
        assert await server.ended() == 0


def process_id_within(pid: int) -> int:
    """The process's id in the innermost namespace that it is in."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("NSpid:")[1].split("\n")[0].split()[-1])


async def test_process_1_of_a_container_ends_as_any_other() -> None:
    namespace = ["unshare", "--fork", "--pid", "--mount-proc"]
    try:
        subprocess.run([*namespace, "true"], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no process namespace can be made here: {error}")
    async with started(*LOOPBACK, command=[*namespace, *COMMAND]) as server:
        await server.ready()
        (child,) = psutil.Process(server.process.pid).children()
        assert process_id_within(child.pid) == 1
        child.send_signal(signal.SIGTERM)
        assert await server.ended() == 0
