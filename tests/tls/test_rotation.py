"""New files on disk come into use for new handshakes, and nothing else changes."""

import asyncio
import datetime as dt
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

from global_discovery.domain.events import Event
from global_discovery.pem import BadTlsFile
from global_discovery.serving.service import Service
from global_discovery.serving.tls.keeper import LOOK_SECONDS, TlsKeeper
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.certificates import (
    HOST,
    NOW,
    Secret,
    a_pair,
    client_context,
    in_files,
    replace,
    served_serial,
)
from support.clock import EPOCH, FakeClock
from support.grpc_calls import Stub, Watch
from support.pools import a_registration
from support.running import a_service

HOUR = dt.timedelta(hours=1)


class Told:
    """What was reported of TLS."""

    def __init__(self) -> None:
        self.events: list[tuple[Event, dict[str, Any]]] = []

    def __call__(self, event: Event, **fields: object) -> None:
        if event in {Event.TLS_FILES_TAKEN, Event.TLS_FILES_REFUSED}:
            self.events.append((event, fields))

    @property
    def names(self) -> list[Event]:
        return [event for event, _ in self.events]


class World:
    """A service with TLS, and a stream that was opened when it began."""

    def __init__(self, service: Service, told: Told, clock: FakeClock, stub: Stub) -> None:
        self.service = service
        self.told = told
        self.clock = clock
        self.stub = stub
        self.watch = Watch(stub)

    async def look(self) -> None:
        assert self.service.tls is not None
        await self.service.tls.look()

    async def serials(
        self, ca: trustme.CA, certificate: trustme.LeafCert | None = None
    ) -> set[str]:
        """Those that new handshakes are made with; one, unless the faces disagree."""
        rest = client_context(ca, certificate, alpn="http/1.1")
        at_grpc = client_context(ca, certificate, alpn="h2")
        return {
            await served_serial(self.service.rest.port, rest),
            await served_serial(self.service.grpc.port, at_grpc),
        }

    async def stream_lives(self) -> None:
        """What is registered on the old connection comes on the old stream."""
        number = len(self.watch.client.fold)
        call = pb.RegisterPoolRequest(registration=a_registration(number))
        await self.stub.RegisterPool(call)
        await self.watch.until(lambda client: len(client.fold) == number + 1)


@pytest.fixture
def secret(tmp_path: Path, ca: trustme.CA) -> Secret:
    return Secret(tmp_path / "tls", a_pair(ca), ca.cert_pem.bytes())


@pytest.fixture
def relay(ca: trustme.CA) -> trustme.LeafCert:
    return ca.issue_cert("relay@eu-1.example")


@pytest.fixture
async def world(secret: Secret, ca: trustme.CA, relay: trustme.LeafCert) -> AsyncIterator[World]:
    told, clock = Told(), FakeClock()
    chain = b"".join(blob.bytes() for blob in relay.cert_chain_pems)
    credentials = grpc.ssl_channel_credentials(
        ca.cert_pem.bytes(), relay.private_key_pem.bytes(), chain
    )
    async with (
        a_service(clock=clock, tls=secret.paths, report=told) as service,
        grpc.aio.secure_channel(f"{HOST}:{service.grpc.port}", credentials) as channel,
    ):
        world = World(service, told, clock, PoolDiscoveryServiceStub(channel))
        await world.watch.begun()
        yield world
        await world.stream_lives()


async def test_the_swap_of_a_link_brings_new_certificates(
    world: World, secret: Secret, ca: trustme.CA, relay: trustme.LeafCert
) -> None:
    for _ in range(3):
        pair = a_pair(ca)
        secret.put(pair, ca.cert_pem.bytes())
        await world.look()
        assert await world.serials(ca, relay) == {pair.serial}
        await world.stream_lives()
    assert world.told.names == [Event.TLS_FILES_TAKEN] * 3
    assert world.told.events[-1][1]["serial"] == pair.serial


async def test_files_that_are_renamed_over_one_after_the_other(
    tmp_path: Path, ca: trustme.CA
) -> None:
    told, pair = Told(), a_pair(ca)
    paths = in_files(tmp_path, a_pair(ca))
    keeper = TlsKeeper(paths, wall=lambda: EPOCH, report=told)
    replace(paths.cert, pair.cert)
    await keeper.look()
    assert keeper.certificate.serial != pair.serial
    replace(paths.key, pair.key)
    await keeper.look()
    assert keeper.certificate.serial == pair.serial
    assert told.names == [Event.TLS_FILES_REFUSED, Event.TLS_FILES_TAKEN]


async def test_files_that_are_written_in_place(tmp_path: Path, ca: trustme.CA) -> None:
    pair = a_pair(ca)
    paths = in_files(tmp_path, a_pair(ca))
    keeper = TlsKeeper(paths, wall=lambda: EPOCH)
    in_files(tmp_path, pair)
    await keeper.look()
    assert keeper.certificate.serial == pair.serial


async def test_a_pair_that_does_not_match_changes_nothing_and_is_said_once(
    world: World, secret: Secret, ca: trustme.CA, relay: trustme.LeafCert
) -> None:
    before = await world.serials(ca, relay)
    healed = a_pair(ca)
    secret.put(healed._replace(key=a_pair(ca).key), ca.cert_pem.bytes())
    for _ in range(5):
        await world.look()
    assert await world.serials(ca, relay) == before
    key = secret.paths.key
    refused = (Event.TLS_FILES_REFUSED, {"message": f"{key}: is not the key of the certificate"})
    assert world.told.events == [refused]
    secret.put(healed, ca.cert_pem.bytes())
    await world.look()
    assert await world.serials(ca, relay) == {healed.serial}
    assert world.told.names == [Event.TLS_FILES_REFUSED, Event.TLS_FILES_TAKEN]


async def test_files_that_go_back_to_what_is_served_end_the_complaint(
    tmp_path: Path, ca: trustme.CA
) -> None:
    told, pair = Told(), a_pair(ca)
    paths = in_files(tmp_path, pair)
    keeper = TlsKeeper(paths, wall=lambda: EPOCH, report=told)
    for _ in range(2):
        paths.key.unlink()
        await keeper.look()
        paths.key.write_bytes(pair.key)
        await keeper.look()
        await keeper.look()
    assert told.names == [Event.TLS_FILES_REFUSED, Event.TLS_FILES_TAKEN] * 2
    assert (keeper.taken, keeper.refused) == (0, 2)


async def test_another_fault_is_said_too(tmp_path: Path, ca: trustme.CA) -> None:
    told = Told()
    paths = in_files(tmp_path, a_pair(ca))
    keeper = TlsKeeper(paths, wall=lambda: EPOCH, report=told)
    paths.cert.write_bytes(b"")
    await keeper.look()
    paths.cert.unlink()
    await keeper.look()
    await keeper.look()
    assert [fields["message"].partition(": ")[2] for _, fields in told.events] == [
        "is empty",
        "cannot be read: no such file or directory",
    ]


async def test_an_expired_pair_is_not_taken(
    world: World, secret: Secret, ca: trustme.CA, relay: trustme.LeafCert
) -> None:
    before = await world.serials(ca, relay)
    secret.put(a_pair(ca, begins=NOW - 2 * HOUR, ends=NOW - HOUR), ca.cert_pem.bytes())
    await world.look()
    assert await world.serials(ca, relay) == before
    assert world.told.names == [Event.TLS_FILES_REFUSED]


async def test_a_pair_of_the_future_is_taken_once_its_time_has_come(
    world: World, secret: Secret, ca: trustme.CA, relay: trustme.LeafCert
) -> None:
    before = await world.serials(ca, relay)
    pair = a_pair(ca, begins=NOW + HOUR)
    secret.put(pair, ca.cert_pem.bytes())
    await world.look()
    world.clock.step_wall(3599)
    await world.look()
    assert await world.serials(ca, relay) == before
    world.clock.step_wall(1)
    await world.look()
    assert await world.serials(ca, relay) == {pair.serial}
    assert world.told.names == [Event.TLS_FILES_REFUSED, Event.TLS_FILES_TAKEN]


async def test_the_client_ca_rotates_over_a_bundle_of_both(
    world: World, secret: Secret, ca: trustme.CA, other_ca: trustme.CA, relay: trustme.LeafCert
) -> None:
    old, new = ca.cert_pem.bytes(), other_ca.cert_pem.bytes()
    newcomer = other_ca.issue_cert("relay@us-1.example")
    assert await refused(world, ca, newcomer)
    pair = a_pair(ca)
    secret.put(pair, old + new)
    await world.look()
    assert await world.serials(ca, newcomer) == await world.serials(ca, relay) == {pair.serial}
    secret.put(pair, new)
    await world.look()
    assert await world.serials(ca, newcomer) == {pair.serial}
    assert await refused(world, ca, relay)


async def test_a_session_of_the_old_client_ca_is_not_resumed(
    world: World, secret: Secret, ca: trustme.CA, other_ca: trustme.CA, relay: trustme.LeafCert
) -> None:
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        secret.put(a_pair(ca), ca.cert_pem.bytes())
        await world.look()
        context = client_context(ca, relay)
        context.minimum_version = context.maximum_version = version
        session, _ = await asyncio.to_thread(livez, world.service.rest.port, context, None)
        _, resumed = await asyncio.to_thread(livez, world.service.rest.port, context, session)
        assert resumed
        secret.put(a_pair(ca), other_ca.cert_pem.bytes())
        await world.look()
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.to_thread(livez, world.service.rest.port, context, session)


def livez(
    port: int, context: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[ssl.SSLSession | None, bool]:
    """Calls /livez; the session that may be resumed, and whether this one was."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=HOST, session=session) as secured,
    ):
        secured.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = b""
        while chunk := secured.recv(65536):
            answer += chunk
        if not answer:
            raise ConnectionError  # asyncio hangs up without the alert
        assert answer.startswith(b"HTTP/1.1 200 ")
        return secured.session, bool(secured.session_reused)


async def refused(world: World, ca: trustme.CA, certificate: trustme.LeafCert) -> bool:
    """Whether both faces hang up on a certificate."""
    context = client_context(ca, certificate)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.to_thread(livez, world.service.rest.port, context, None)
    chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
    credentials = grpc.ssl_channel_credentials(
        ca.cert_pem.bytes(), certificate.private_key_pem.bytes(), chain
    )
    options = [("grpc.use_local_subchannel_pool", 1)]
    target = f"{HOST}:{world.service.grpc.port}"
    async with grpc.aio.secure_channel(target, credentials, options=options) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await PoolDiscoveryServiceStub(channel).ListPools(pb.ListPoolsRequest())
    return failed.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_the_metrics_tell_how_long_the_files_last(
    tmp_path: Path, ca: trustme.CA, other_ca: trustme.CA
) -> None:
    secret = Secret(tmp_path / "tls", a_pair(ca, ends=NOW + HOUR), other_ca.cert_pem.bytes())
    async with a_service(clock=(clock := FakeClock()), tls=secret.paths) as service:
        clock.step_wall(7200)

        def value(name: str, **labels: str) -> float | None:
            return service.registry.get_sample_value(f"global_discovery_{name}", labels)

        assert value("tls_expires_in_seconds", certificate="server") == -3600
        left = value("tls_expires_in_seconds", certificate="client_ca")
        assert left is not None
        assert left > 0
        secret.put(a_pair(ca, ends=NOW + 3 * HOUR), other_ca.cert_pem.bytes())
        assert service.tls is not None
        await service.tls.look()
        secret.put(a_pair(ca, ends=NOW), other_ca.cert_pem.bytes())
        await service.tls.look()
        assert value("tls_expires_in_seconds", certificate="server") == 3600
        assert value("tls_files_total", outcome="taken") == 1
        assert value("tls_files_total", outcome="refused") == 1


async def test_the_files_are_looked_at_again_and_again(tmp_path: Path, ca: trustme.CA) -> None:
    told = Told()
    paths = in_files(tmp_path, a_pair(ca))
    keeper = TlsKeeper(paths, wall=lambda: EPOCH, report=told)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        if len(slept) == 3:
            raise asyncio.CancelledError
        slept.append(seconds)
        in_files(tmp_path, a_pair(ca))

    with pytest.raises(asyncio.CancelledError):
        await keeper.watch(sleep)
    assert slept == [LOOK_SECONDS] * 3
    assert told.names == [Event.TLS_FILES_TAKEN] * 3


def test_new_files_are_in_use_within_five_seconds() -> None:
    assert 2 * LOOK_SECONDS <= 5


async def test_a_service_does_not_begin_with_bad_files(tmp_path: Path, ca: trustme.CA) -> None:
    paths = in_files(tmp_path, a_pair(ca, ends=NOW))
    with pytest.raises(BadTlsFile, match="has expired"):
        async with a_service(clock=FakeClock(), tls=paths):
            pass
