"""`serve` with TLS, as a process of its own."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme

from support.certificates import HOST, Secret, a_pair, client_context, served_serial
from support.serve_process import COMMAND, LOOPBACK, clean_environment, started


@pytest.fixture
def secret(tmp_path: Path, ca: trustme.CA) -> Secret:
    return Secret(tmp_path / "tls", a_pair(ca), ca.cert_pem.bytes())


def flags(secret: Secret, *, mutual: bool = True) -> list[str]:
    paths = secret.paths
    given = [*LOOPBACK, f"--tls-cert-path={paths.cert}", f"--tls-key-path={paths.key}"]
    return [*given, f"--tls-client-ca-path={paths.client_ca}"] if mutual else given


async def test_new_files_are_served_without_a_restart(secret: Secret, ca: trustme.CA) -> None:
    relay = ca.issue_cert("relay@eu-1.example")
    async with started(*flags(secret)) as server:
        ports = await server.ready()
        bad, good = a_pair(ca), a_pair(ca)
        secret.put(bad._replace(key=good.key), ca.cert_pem.bytes())
        assert "is not the key" in (await server.event("tls_files_refused"))["message"]
        secret.put(good, ca.cert_pem.bytes())
        assert (await server.event("tls_files_taken"))["serial"] == good.serial
        for port, alpn in ((ports["rest_port"], "http/1.1"), (ports["grpc_port"], "h2")):
            context = client_context(ca, relay, alpn=alpn)
            assert await served_serial(port, context) == good.serial
        assert await server.stop() == 0
        assert [event["event"] for event in server.events].count("tls_files_refused") == 1


async def test_whatever_reaches_the_ports_writes_no_line(secret: Secret, ca: trustme.CA) -> None:
    async with started(*flags(secret)) as server:
        ports = await server.ready()
        for port in (ports["rest_port"], ports["grpc_port"]):
            for sent in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 500, b"\x16\x03\x01", b""):
                for _ in range(20):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.write(sent)
                    writer.transport.abort()
            await served_serial(port, client_context(ca, alpn="h2"))
        assert await server.stop() == 0
        names = {event["event"] for event in server.events}
    assert names <= {
        *("configured", "no_routers_configured", "mark_changed"),
        *("listening", "ready", "stopping", "stopped"),
    }


@pytest.mark.parametrize(("mutual", "warns"), [(True, False), (False, True)])
async def test_only_certificates_of_callers_end_the_warning_about_authentication(
    secret: Secret, *, mutual: bool, warns: bool
) -> None:
    everywhere = ["--listen=:0", "--grpc-listen=:0"]
    async with started(*flags(secret, mutual=mutual), *everywhere) as server:
        await server.ready()
        assert ("unprotected" in [event["event"] for event in server.events]) is warns


async def test_the_health_command_asks_over_tls(secret: Secret) -> None:
    paths = secret.paths
    variables: dict[str, Any] = {
        "GLOBAL_DISCOVERY_TLS_CERT_PATH": str(paths.cert),
        "GLOBAL_DISCOVERY_TLS_KEY_PATH": str(paths.key),
        "GLOBAL_DISCOVERY_TLS_CLIENT_CA_PATH": str(paths.client_ca),
    }
    async with started(*LOOPBACK, env=clean_environment(**variables)) as server:
        address = f"127.0.0.1:{(await server.ready())['rest_port']}"
        assert await health(variables, address) == 0
        assert await health({}, address, "--tls") == 0
        assert await health({}, address) == 1
        assert await health(variables, address, "--no-tls") == 1
    async with started(
        *LOOPBACK, "--health-listen=127.0.0.1:0", env=clean_environment(**variables)
    ) as server:
        address = f"127.0.0.1:{(await server.ready())['health_port']}"
        beside = variables | {"GLOBAL_DISCOVERY_HEALTH_LISTEN": address}
        assert await health(beside, address) == 0


async def health(variables: dict[str, str], address: str, *more: str) -> int:
    process = await asyncio.create_subprocess_exec(
        *(COMMAND[0], "health", "--address", address, *more),
        env=clean_environment(**variables),
        stderr=asyncio.subprocess.DEVNULL,
    )
    return await process.wait()


async def test_it_stops_in_order_while_callers_are_connected(
    secret: Secret, ca: trustme.CA
) -> None:
    context = client_context(ca, ca.issue_cert("relay@eu-1.example"))
    async with started(*flags(secret)) as server, aiohttp.ClientSession() as session:
        port = (await server.ready())["rest_port"]
        _, stuck = await asyncio.open_connection("127.0.0.1", port)
        async with session.get(f"https://{HOST}:{port}/pools", ssl=context) as answer:
            assert answer.status == 200
            await answer.read()
        assert await server.stop() == 0
        stuck.close()
