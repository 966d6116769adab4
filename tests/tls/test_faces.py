"""TLS on both faces of a running service, over real sockets."""

import asyncio
import contextlib
import gc
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import grpc
import pytest
import trustme

from global_discovery.serving.grpc import server
from global_discovery.serving.rest.connection import Limits
from global_discovery.serving.service import Service
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.certificates import HOST, Secret, a_pair, client_context, in_files, served_serial
from support.clock import FakeClock
from support.grpc_calls import Stub, Watch, eventually
from support.pools import a_registration
from support.running import a_service

PROBES = ("/livez", "/readyz", "/healthz", "/metrics")
PATIENCE_SECONDS = 30
A_BROKEN_OFF_BODY = (
    b"POST /pools HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Content-Length: 50\r\n\r\n{"
)


@asynccontextmanager
async def grpc_stub(
    service: Service, ca: trustme.CA, certificate: trustme.LeafCert | None = None
) -> AsyncIterator[Stub]:
    key = chain = None
    if certificate is not None:
        key = certificate.private_key_pem.bytes()
        chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
    credentials = grpc.ssl_channel_credentials(ca.cert_pem.bytes(), key, chain)
    target = f"{HOST}:{service.grpc.port}"
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.secure_channel(target, credentials, options=options) as channel:
        yield PoolDiscoveryServiceStub(channel)


async def get(service: Service, path: str, context: ssl.SSLContext) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://{HOST}:{service.rest.port}{path}", ssl=context) as answer,
    ):
        return answer.status, await answer.text()


def client_of(ca: trustme.CA) -> trustme.LeafCert:
    return ca.issue_cert("relay@eu-1.example")


@pytest.fixture
def secret(tmp_path: Path, ca: trustme.CA) -> Secret:
    return Secret(tmp_path / "tls", a_pair(ca), ca.cert_pem.bytes())


@pytest.fixture
async def plain(tmp_path: Path, ca: trustme.CA) -> AsyncIterator[Service]:
    """TLS without certificates of callers."""
    async with a_service(clock=FakeClock(), tls=in_files(tmp_path, a_pair(ca))) as service:
        yield service


@pytest.fixture
async def mutual(secret: Secret) -> AsyncIterator[Service]:
    """TLS with certificates of callers, and no port for probes."""
    async with a_service(clock=FakeClock(), tls=secret.paths) as service:
        yield service


@pytest.fixture(params=["rest", "grpc"])
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def port_of(service: Service, face: str) -> int:
    return service.rest.port if face == "rest" else service.grpc.port


# -- TLS ---------------------------------------------------------------------


async def test_both_faces_speak_tls(plain: Service, ca: trustme.CA) -> None:
    async with grpc_stub(plain, ca) as stub:
        await stub.RegisterPool(pb.RegisterPoolRequest(registration=a_registration()))
    status, listed = await get(plain, "/pools", client_context(ca))
    assert (status, '"dgd_name":"pool' in listed) == (200, True)


async def test_a_caller_that_does_not_trust_the_certificate_gets_nowhere(
    plain: Service, other_ca: trustme.CA
) -> None:
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await get(plain, "/livez", client_context(other_ca))
    async with grpc_stub(plain, other_ca) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await stub.ListPools(pb.ListPoolsRequest())
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_tls_below_1_2_is_not_spoken(plain: Service, ca: trustme.CA, face: str) -> None:
    context = client_context(ca, alpn="h2" if face == "grpc" else "http/1.1")
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match=r"TLSVersion\.TLSv1_1 is deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1_1
    with pytest.warns(DeprecationWarning, match=r"TLSVersion\.TLSv1_1 is deprecated"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await served_serial(port_of(plain, face), context)


async def test_tls_1_2_is_spoken(plain: Service, ca: trustme.CA, face: str) -> None:
    context = client_context(ca, alpn="h2" if face == "grpc" else "http/1.1")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert await served_serial(port_of(plain, face), context)


@pytest.mark.parametrize("weak", ["AES128-SHA", "ECDHE-ECDSA-AES128-SHA", "AES128-GCM-SHA256"])
async def test_no_weak_cipher_is_spoken(
    plain: Service, ca: trustme.CA, face: str, weak: str
) -> None:
    context = client_context(ca, alpn="h2" if face == "grpc" else "http/1.1")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(weak)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await served_serial(port_of(plain, face), context)


async def test_each_face_offers_its_own_protocol(plain: Service, ca: trustme.CA, face: str) -> None:
    context = client_context(ca)
    context.set_alpn_protocols(["h2", "http/1.1"])
    reader, writer = await asyncio.open_connection(
        HOST, port_of(plain, face), ssl=context, server_hostname=HOST
    )
    spoken = writer.get_extra_info("ssl_object").selected_alpn_protocol()
    writer.transport.abort()
    await reader.read()
    assert spoken == ("h2" if face == "grpc" else "http/1.1")


# -- what is no TLS ----------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /pools HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x00" * 2000,
        b"\x16\x03\x01\xff\xff" + b"\x01" * 70_000,
        b"\x80\x2e\x01\x03\x01",
    ],
    ids=["http", "http2", "zeros", "a record that is too long", "ssl2"],
)
async def test_what_is_no_tls_is_hung_up_on_without_a_line_in_the_log(
    plain: Service, ca: trustme.CA, face: str, sent: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(plain, face))
    try:
        writer.write(sent)
        writer.write_eof()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert not (await reader.read()).startswith(b"HTTP")
    except OSError:
        pass  # it hung up before it had read everything
    finally:
        writer.close()
    assert await served_serial(port_of(plain, face), client_context(ca, alpn="h2"))


async def test_handshakes_that_stand_still_hold_up_nobody(
    plain: Service, ca: trustme.CA, face: str
) -> None:
    stuck = [socket.create_connection(("127.0.0.1", port_of(plain, face))) for _ in range(50)]
    try:
        for each in stuck:
            each.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert await served_serial(port_of(plain, face), client_context(ca, alpn="h2"))
    finally:
        for each in stuck:
            each.close()


async def test_a_handshake_that_stands_still_is_ended(
    tmp_path: Path, ca: trustme.CA, monkeypatch: pytest.MonkeyPatch, face: str
) -> None:
    monkeypatch.setattr("global_discovery.serving.rest.server.Limits", _HastyLimits)
    options = dict(server.OPTIONS)
    options["grpc.server_handshake_timeout_ms"] //= 200
    monkeypatch.setattr(server, "OPTIONS", list(options.items()))
    async with a_service(tls=in_files(tmp_path, a_pair(ca))) as service:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(service, face))
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await reader.read() == b""
        writer.close()


class _HastyLimits(Limits):
    def __init__(self, **others: float) -> None:
        super().__init__(handshake_seconds=0.05, **others)


@pytest.mark.parametrize(
    "sent", [b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", A_BROKEN_OFF_BODY, b"x"]
)
@pytest.mark.parametrize("farewell", ["half", "reset", "notice"])
async def test_a_caller_that_leaves_in_whatever_way_writes_no_line(
    plain: Service, ca: trustme.CA, sent: bytes, farewell: str
) -> None:
    def call() -> None:
        address = ("127.0.0.1", plain.rest.port)
        with (
            socket.create_connection(address, timeout=PATIENCE_SECONDS) as tcp,
            client_context(ca).wrap_socket(tcp, server_hostname=HOST) as tls,
        ):
            tls.sendall(sent)
            if farewell == "half":
                socket.socket.shutdown(tls, socket.SHUT_WR)
                with contextlib.suppress(OSError):
                    tls.recv(65536)
            elif farewell == "reset":
                tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0" + bytes(4))
            else:
                with contextlib.suppress(OSError):
                    tls.unwrap().close()

    for _ in range(5):
        await asyncio.to_thread(call)
    connections = plain.rest._main._connections
    assert connections is not None
    await eventually(lambda: not connections._all)
    gc.collect()  # a task's unseen exception is logged when it goes


async def test_a_broken_off_body_may_come_in_one_step_with_the_end(
    plain: Service, ca: trustme.CA
) -> None:
    reader, writer = await asyncio.open_connection(
        HOST, plain.rest.port, ssl=client_context(ca), server_hostname=HOST
    )
    connections = plain.rest._main._connections
    assert connections is not None
    await eventually(lambda: any(each._waiter for each in connections._all))
    (connection,) = connections._all
    connection.data_received(A_BROKEN_OFF_BODY)
    connection.eof_received()
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await reader.read() == b""
    writer.close()
    await eventually(lambda: not connections._all)
    gc.collect()  # as above


# -- certificates of callers -------------------------------------------------


async def test_a_caller_with_a_certificate_is_served(mutual: Service, ca: trustme.CA) -> None:
    async with grpc_stub(mutual, ca, client_of(ca)) as stub:
        await stub.RegisterPool(pb.RegisterPoolRequest(registration=a_registration()))
    context = client_context(ca, client_of(ca))
    assert [(await get(mutual, path, context))[0] for path in ("/pools", *PROBES)] == [200] * 5


async def test_grpc_refuses_a_caller_without_a_good_certificate(
    mutual: Service, ca: trustme.CA, other_ca: trustme.CA
) -> None:
    for certificate in (None, client_of(other_ca)):
        async with grpc_stub(mutual, ca, certificate) as stub:
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await stub.ListPools(pb.ListPoolsRequest())
        assert failed.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_rest_answers_only_probes_to_a_caller_without_a_certificate(
    mutual: Service, ca: trustme.CA
) -> None:
    context = client_context(ca)
    assert [(await get(mutual, path, context))[0] for path in PROBES] == [200] * 4
    for path in ("/pools", "/routers", "/", "/openapi.json", "/unknown", "/livez/", "//livez"):
        assert (await get(mutual, path, context))[0] == 401, path


async def test_rest_refuses_calls_of_every_method_without_a_certificate(
    mutual: Service, ca: trustme.CA
) -> None:
    calls = [("POST", "/pools"), ("DELETE", "/pools/c/n/d"), ("OPTIONS", "*"), ("PUT", "/x")]
    reader, writer = await asyncio.open_connection(
        HOST, mutual.rest.port, ssl=client_context(ca), server_hostname=HOST
    )
    for method, path in calls:
        request = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}"
        writer.write(request.encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 401 "), (method, path)
        assert b"\r\nWWW-Authenticate: ClientCertificate\r\n" in head
        length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
        assert b'"code":"UNAUTHENTICATED"' in await reader.readexactly(length)
    writer.transport.abort()
    assert mutual.guard.denials.counts["UNAUTHENTICATED"] == len(calls)


async def test_rest_ends_the_handshake_with_a_certificate_of_another_ca(
    mutual: Service, ca: trustme.CA, other_ca: trustme.CA
) -> None:
    with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
        await get(mutual, "/livez", client_context(ca, client_of(other_ca)))


async def test_an_intermediate_ca_may_be_all_that_is_trusted(
    tmp_path: Path, ca: trustme.CA
) -> None:
    intermediate = ca.create_child_ca()
    secret = Secret(tmp_path / "tls", a_pair(ca), intermediate.cert_pem.bytes())
    async with a_service(clock=FakeClock(), tls=secret.paths) as service:
        certificate = client_of(intermediate)
        async with grpc_stub(service, ca, certificate) as stub:
            await stub.ListPools(pb.ListPoolsRequest())
        assert (await get(service, "/pools", client_context(ca, certificate)))[0] == 200
        async with grpc_stub(service, ca, client_of(ca)) as stub:
            with pytest.raises(grpc.aio.AioRpcError):
                await stub.ListPools(pb.ListPoolsRequest())


async def test_with_a_port_for_probes_every_caller_of_rest_needs_a_certificate(
    secret: Secret, ca: trustme.CA
) -> None:
    async with a_service(
        clock=FakeClock(), tls=secret.paths, health_listen="127.0.0.1:0"
    ) as service:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
            await get(service, "/livez", client_context(ca))
        context = client_context(ca, client_of(ca))
        assert (await get(service, "/livez", context))[0] == 200
        async with aiohttp.ClientSession() as session:
            for path in PROBES:
                url = f"http://127.0.0.1:{service.rest.health_port}{path}"
                async with session.get(url) as answer:
                    assert answer.status == 200


async def test_a_stream_lives_over_tls(mutual: Service, ca: trustme.CA) -> None:
    async with grpc_stub(mutual, ca, client_of(ca)) as stub:
        watch = Watch(stub)
        await watch.begun()
        await stub.RegisterPool(pb.RegisterPoolRequest(registration=a_registration()))
        await watch.until(lambda client: len(client.fold) == 1)
