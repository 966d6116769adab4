"""What only shows after minutes, or in a whole process: idle cuts, dead peers, leaks, memory."""

import asyncio
import contextlib
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest

from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.metrics import metric
from support.pools import a_registration
from support.serve_process import LOOPBACK, SHORT_LEASE, ServeProcess, started
from support.tcp_proxy import tcp_proxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MIB = 1024 * 1024


@contextlib.asynccontextmanager
async def stub(port: int) -> AsyncIterator[PoolDiscoveryServiceStub]:
    """A client over a connection of its own."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        yield PoolDiscoveryServiceStub(channel)  # type: ignore[no-untyped-call, unused-ignore]


def resident(server: ServeProcess) -> int:
    """The process's memory in bytes."""
    return int(psutil.Process(server.process.pid).memory_info().rss)


async def watchers(ports: dict[str, int]) -> float:
    return await metric(ports["rest_port"], 'global_discovery_watchers{view="pools"}')


async def until_no_watcher_is_left(ports: dict[str, int], *, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while await watchers(ports):  # noqa: ASYNC110 - it is another process's gauge
            await asyncio.sleep(0.2)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def changed(pool: int, change: int) -> pb.RegisterPoolRequest:
    """A registration whose content is another one for each `change`."""
    frontends = [f"http://10.{change // 250}.{change % 250}.{n}:8000" for n in range(100)]
    registration = a_registration(pool, frontends=frontends)
    return pb.RegisterPoolRequest(registration=registration, relay_id="r")


async def read_to_the_end(stream: "grpc.aio.UnaryStreamCall[Any, Any]") -> None:
    while await stream.read() is not grpc.aio.EOF:
        pass


NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port} http2; location / {{ grpc_pass grpc://127.0.0.1:{target}; }} }}
}}
"""


async def test_a_quiet_stream_lives_behind_a_proxy_that_cuts_silent_ones(tmp_path: Path) -> None:
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        pytest.skip("nginx is not installed (Debian: apt-get install nginx-light)")
    async with started(*LOOPBACK) as server:
        ports = await server.ready()
        port = free_port()
        config = tmp_path / "nginx.conf"
        config.write_text(NGINX.format(folder=tmp_path, port=port, target=ports["grpc_port"]))
        proxy = await asyncio.create_subprocess_exec(nginx, "-c", str(config))
        try:
            async with stub(port) as client:
                stream = client.WatchPools(pb.WatchPoolsRequest(), wait_for_ready=True)
                idle = 0
                async with asyncio.timeout(240):
                    # nginx cuts after 60 s without a message: ten idle ones are 150 s.
                    while idle < 10:
                        message = await stream.read()
                        assert message is not grpc.aio.EOF
                        idle += message.WhichOneof("event") == "idle"
        finally:
            proxy.terminate()
            await proxy.wait()


async def test_a_router_that_vanished_is_no_watcher_after_a_keepalive() -> None:
    async with started(*LOOPBACK) as server:
        ports = await server.ready()
        async with tcp_proxy(ports["grpc_port"]) as proxy, stub(proxy.port) as client:
            stream = client.WatchPools(pb.WatchPoolsRequest(idle_interval_secs=25))
            await stream.read()
            assert await watchers(ports) == 1
            proxy.swallow()
            await until_no_watcher_is_left(ports, seconds=60)


async def test_watchers_that_stop_reading_cost_bounded_memory_and_are_ended() -> None:
    flags = [*LOOPBACK, *SHORT_LEASE, "--slow-watcher-secs", "10"]
    async with started(*flags) as server, contextlib.AsyncExitStack() as stack:
        ports = await server.ready()
        relay = await stack.enter_async_context(stub(ports["grpc_port"]))
        slow = []
        for _ in range(50):
            client = await stack.enter_async_context(stub(ports["grpc_port"]))
            stream = client.WatchPools(pb.WatchPoolsRequest())
            await stream.read()
            slow.append(stream)
        before = resident(server)
        for change in range(100_000 // 20):
            await asyncio.gather(*(relay.RegisterPool(changed(pool, change)) for pool in range(20)))
            if not change % 500:
                assert resident(server) - before < 100 * MIB
        name = 'global_discovery_slow_watchers_total{view="pools"}'
        async with asyncio.timeout(120):
            while await metric(ports["rest_port"], name) < len(slow):
                await relay.RegisterPool(changed(0, 0))
                await asyncio.sleep(0.2)
        assert resident(server) - before < 100 * MIB
        for stream in slow:
            with pytest.raises(grpc.aio.AioRpcError, match="was not read") as ended:
                await read_to_the_end(stream)
            assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
