"""The client library and the commands over TLS, against a running service."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from global_discovery.client import (
    CallFailed,
    PoolCache,
    PoolHeartbeat,
    TlsSettings,
    list_pools,
    watch_pools,
)
from global_discovery.client.errors import causes
from global_discovery.client.registration_calls import open_calls
from global_discovery.client.tls import ClientTls
from global_discovery.domain.timer import SystemTimer
from global_discovery.pem import BadTlsFile
from global_discovery.serving.service import Service
from global_discovery.v1 import pool_discovery_pb2 as pb
from support.certificates import HOST, Secret, a_pair, in_files, leaf_files
from support.client_process import ran
from support.clock import FakeClock
from support.grpc_calls import eventually
from support.openai_server import openai_server
from support.pools import a_registration
from support.relay_process import a_relay_process
from support.running import a_service

PATIENCE_SECONDS = 30
UNVERIFIED = "CERTIFICATE_VERIFY_FAILED"


class Files:
    """A client's own, and the settings that name them."""

    def __init__(self, folder: Path, ca: trustme.CA, leaf: trustme.LeafCert) -> None:
        self._folder = folder
        folder.mkdir()
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(ca.cert_pem.bytes())
        self.cert, self.key = leaf_files(folder, leaf)

    def show(self, leaf: trustme.LeafCert) -> None:
        leaf_files(self._folder, leaf)

    @property
    def settings(self) -> TlsSettings:
        return TlsSettings(self.ca, self.cert, self.key)

    @property
    def flags(self) -> list[str]:
        pair = [f"--client-cert-path={self.cert}", f"--client-key-path={self.key}"]
        return [f"--ca-path={self.ca}", *pair]


@pytest.fixture
async def service(tmp_path: Path, ca: trustme.CA) -> AsyncIterator[Service]:
    """It asks for certificates."""
    secret = Secret(tmp_path / "tls", a_pair(ca), ca.cert_pem.bytes())
    async with a_service(clock=FakeClock(), tls=secret.paths) as running:
        yield running


@pytest.fixture
def files(tmp_path: Path, ca: trustme.CA) -> Files:
    return Files(tmp_path / "client", ca, ca.issue_cert("relay@eu-1.example"))


@pytest.fixture(params=["grpc", "https"])
def server(request: pytest.FixtureRequest, service: Service) -> str:
    """The service as a client is told of it."""
    if request.param == "grpc":
        return f"{HOST}:{service.grpc.port}"
    return f"https://{HOST}:{service.rest.port}"


async def registered(server: str, tls: TlsSettings | None) -> PoolHeartbeat:
    """A heartbeat whose first call has ended, and which was stopped then."""
    called = asyncio.Event()
    heartbeat = PoolHeartbeat([server], tls=tls, on_state=lambda _: called.set())
    heartbeat.set(a_registration())
    running = asyncio.create_task(heartbeat.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await called.wait()
        await heartbeat.stop(withdraw=False)
        await running
    return heartbeat


async def test_a_heartbeat_registers_over_tls(service: Service, server: str, files: Files) -> None:
    heartbeat = await registered(server, files.settings)
    assert heartbeat.state.lease is not None
    assert len(service.core.registrations) == 1


async def test_a_cache_follows_over_tls(server: str, files: Files) -> None:
    await registered(server, files.settings)
    async with asyncio.timeout(PATIENCE_SECONDS), PoolCache([server], tls=files.settings) as cache:
        await cache.wait_synced()
        assert len(cache.pools()) == 1


async def test_a_list_and_a_watch_over_tls(service: Service, files: Files) -> None:
    server = f"{HOST}:{service.grpc.port}"
    assert (await list_pools([server], tls=files.settings)).entries == ()
    async with watch_pools([server], tls=files.settings) as watch:
        assert (await anext(aiter(watch))).connection.connected


async def test_a_server_may_be_called_by_a_name_that_its_certificate_lacks(
    service: Service, tmp_path: Path, other_ca: trustme.CA, files: Files
) -> None:
    del service
    paths = in_files(tmp_path, a_pair(other_ca, name="discovery.example"))
    cert = other_ca.issue_cert("discovery.example")
    paths.cert.write_bytes(b"".join(blob.bytes() for blob in cert.cert_chain_pems))
    paths.key.write_bytes(cert.private_key_pem.bytes())
    files.ca.write_bytes(other_ca.cert_pem.bytes())
    named = TlsSettings(files.ca, server_name="discovery.example")
    async with a_service(clock=FakeClock(), tls=paths) as other:
        for server in (f"127.0.0.1:{other.grpc.port}", f"https://127.0.0.1:{other.rest.port}"):
            assert (await registered(server, named)).state.lease is not None
            refused = (await registered(server, TlsSettings(files.ca))).state
            assert refused.lease is None
            assert refused.last_error is not None


async def test_a_wrong_ca_is_the_last_error_with_its_causes(
    server: str, files: Files, other_ca: trustme.CA
) -> None:
    files.ca.write_bytes(other_ca.cert_pem.bytes())
    error = (await registered(server, files.settings)).state.last_error
    assert error is not None
    assert UNVERIFIED in str(error)
    assert server in str(error)
    assert len(list(causes(error))) > 1
    async with asyncio.timeout(PATIENCE_SECONDS), PoolCache([server], tls=files.settings) as cache:
        async for state in cache.changes():
            if state.last_error is not None:
                assert UNVERIFIED in " ".join(state.causes)
                break


async def test_without_its_certificate_a_client_is_refused(server: str, files: Files) -> None:
    state = (await registered(server, TlsSettings(files.ca))).state
    assert state.lease is None
    assert state.last_error is not None
    if server.startswith("https"):
        assert "HTTP 401: a client certificate is needed" in str(state.last_error)


async def test_a_client_in_plain_text_gets_nowhere(service: Service) -> None:
    for server in (f"{HOST}:{service.grpc.port}", f"http://{HOST}:{service.rest.port}"):
        state = (await registered(server, None)).state
        assert (state.lease, state.failing) == (None, True)


async def test_a_renewed_certificate_is_shown_with_the_next_call(
    server: str, files: Files, ca: trustme.CA, other_ca: trustme.CA
) -> None:
    good = ca.issue_cert("relay@eu-1.example")
    files.show(other_ca.issue_cert("relay@eu-1.example"))
    calls = open_calls(server, SystemTimer(), ClientTls(files.settings))
    request = pb.RegisterPoolRequest(registration=a_registration())
    try:
        with pytest.raises(CallFailed):
            await calls.register(request, PATIENCE_SECONDS)
        files.show(good)
        await calls.register(request, PATIENCE_SECONDS)
    finally:
        await calls.close()


async def test_files_that_cannot_be_used_are_a_failed_call_that_names_them(
    server: str, files: Files
) -> None:
    files.key.write_bytes(b"")
    for tls in (files.settings, TlsSettings(files.ca.with_name("nowhere"))):
        error = (await registered(server, tls)).state.last_error
        assert error is not None
        named = str(files.key) if tls.key_path else "nowhere"
        assert named in str(error)
    async with asyncio.timeout(PATIENCE_SECONDS), PoolCache([server], tls=files.settings) as cache:
        async for state in cache.changes():
            if state.last_error is not None:
                assert f"{files.key}: is empty" in str(state.last_error)
                break


def test_good_files_stay_in_use_while_the_new_ones_are_bad(
    files: Files, ca: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    tls = ClientTls(files.settings)
    before = tls.credentials()
    assert tls.credentials() is before
    renewed = ca.issue_cert("relay@eu-1.example")
    files.cert.write_bytes(renewed.cert_chain_pems[0].bytes())
    with caplog.at_level(logging.WARNING):
        assert tls.credentials() is tls.credentials() is before
    assert [record.getMessage() for record in caplog.records] == [
        f"the files of TLS before it stay in use: {files.key}: is not the key of the certificate"
    ]
    caplog.clear()
    files.show(renewed)
    after = tls.credentials()
    assert after is not before
    assert tls.credentials() is after


def test_a_certificate_without_its_key_is_a_mistake_at_once(files: Files) -> None:
    for wrong in ({"cert_path": files.cert}, {"key_path": files.key}):
        with pytest.raises(ValueError, match="need each other"):
            TlsSettings(files.ca, **wrong)


def test_the_systems_cas_are_those_that_ssl_cert_file_names(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(files.ca))
    context = ClientTls(TlsSettings()).request_options()["ssl"]
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize("content", [b"no certificate", b"\xff\xfe"])
def test_a_file_without_a_ca_is_named(files: Files, content: bytes) -> None:
    files.ca.write_bytes(content)
    with pytest.raises(BadTlsFile, match=f"^{files.ca}: cannot be used"):
        ClientTls(TlsSettings(files.ca)).credentials()


# -- the commands ------------------------------------------------------------


async def test_the_commands_call_over_tls(service: Service, files: Files) -> None:
    server = f"--server={HOST}:{service.grpc.port}"
    for command in ("pools", "routers"):
        listed = await ran(command, server, *files.flags, "-o", "json")
        assert (listed.status, listed.err) == (0, "")
    why = await ran("why", "c/n/d", server, *files.flags)
    assert (why.status, why.err) == (1, "")
    assert "c/n/d is not listed" in why.out
    variables = {
        "GLOBAL_DISCOVERY_CA_PATH": str(files.ca),
        "GLOBAL_DISCOVERY_CLIENT_CERT_PATH": str(files.cert),
        "GLOBAL_DISCOVERY_CLIENT_KEY_PATH": str(files.key),
        "GLOBAL_DISCOVERY_TLS_SERVER_NAME": HOST,
    }
    by_address = f"--server=127.0.0.1:{service.grpc.port}"
    assert (await ran("pools", by_address, "-o", "json", **variables)).status == 0


async def test_a_command_with_a_wrong_ca_says_so(
    service: Service, files: Files, other_ca: trustme.CA
) -> None:
    files.ca.write_bytes(other_ca.cert_pem.bytes())
    done = await ran("pools", f"--server={HOST}:{service.grpc.port}", *files.flags, "-o", "json")
    assert done.status == 1
    assert UNVERIFIED in done.err


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--client-cert-path={cert}"], "--client-cert-path needs --client-key-path"),
        (["--client-key-path={key}"], "--client-key-path needs --client-cert-path"),
        (["--ca-path=/nowhere"], "--ca-path '/nowhere': cannot be read: no such file or directory"),
        (
            ["--client-cert-path={cert}", "--client-key-path={ca}"],
            "--client-key-path '{ca}': cannot be used",
        ),
        (["--ca-path="], "--ca-path: must not be empty"),
    ],
)
async def test_what_can_be_checked_of_the_flags_is_checked_first(
    files: Files, flags: list[str], named: str
) -> None:
    paths = {"ca": files.ca, "cert": files.cert, "key": files.key}
    given = [flag.format(**paths) for flag in flags]
    pool = ("--cluster-id=c", "--pool=n/d", "--region=r", "--frontend=http://h")
    for command in (("pools",), ("relay", *pool)):
        done = await ran(*command, *given)
        assert (done.status, done.out) == (2, "")
        assert named.format(**paths) in done.err


async def test_a_relay_process_registers_over_tls(service: Service, files: Files) -> None:
    async with (
        openai_server("m") as models,
        a_relay_process(
            "--pool=ns/pool",
            "--region=r1",
            f"--openai-url={models.url}",
            f"--server={HOST}:{service.grpc.port}",
            *files.flags,
        ) as relay,
    ):
        await relay.event("registered")
        await eventually(lambda: len(service.core.registrations) == 1)
        await relay.stop()
