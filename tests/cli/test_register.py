"""`register` as a process, against a real server in the test's own loop."""

import asyncio
import signal
import sys
from typing import Any

import grpc
import pytest

from global_discovery.domain.lease import LeaseTerms
from global_discovery.serving.service import Service
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.client_process import ran, running
from support.running import a_service, target


async def call(service: Service, method: str, request: Any) -> Any:
    async with grpc.aio.insecure_channel(target(service)) as channel:
        return await getattr(PoolDiscoveryServiceStub(channel), method)(request)


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
