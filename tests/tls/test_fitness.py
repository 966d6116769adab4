"""A pair that OpenSSL takes and gRPC cannot be served with is refused as any other bad one is."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519

from global_discovery.domain.events import Event
from global_discovery.pem import BadTlsFile
from global_discovery.serving.tls.certificate import (
    UNREADABLE,
    alternative_names,
    certificates,
)
from global_discovery.serving.tls.files import load
from global_discovery.serving.tls.fitness import unfit
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.certificates import (
    HOST,
    Pair,
    Secret,
    a_pair,
    client_context,
    in_files,
    served_serial,
)
from support.clock import EPOCH, FakeClock
from support.running import a_service
from support.serve_flags import refusal
from support.serve_process import COMMAND, LOOPBACK, clean_environment
from support.special_pairs import (
    AGREES,
    CERTIFIES,
    ENCIPHERS,
    PURPOSE,
    SIGNS,
    a_special_pair,
    p256,
    rsa_of,
)

Making = tuple[Callable[[], Any], dict[str, Any]]

KIND = "the certificate's key is {}; gRPC needs RSA, P-256 or P-384"
NO_SIGNATURE = "the certificate's keyUsage lacks digitalSignature"
NO_SERVER = "the certificate's extendedKeyUsage lacks serverAuth"
BAD: dict[str, tuple[Making, str]] = {
    "Ed25519": ((ed25519.Ed25519PrivateKey.generate, {}), KIND.format("Ed25519")),
    "Ed448": ((ed448.Ed448PrivateKey.generate, {}), KIND.format("Ed448")),
    "P-521": ((lambda: ec.generate_private_key(ec.SECP521R1()), {}), KIND.format("P-521")),
    "secp256k1": (
        (lambda: ec.generate_private_key(ec.SECP256K1()), {}),
        KIND.format("of another kind"),
    ),
    "enciphers": ((p256, {"usages": {ENCIPHERS}}), NO_SIGNATURE),
    "agrees": ((p256, {"usages": {AGREES}}), NO_SIGNATURE),
    "certifies": ((p256, {"usages": {CERTIFIES}}), NO_SIGNATURE),
    "RSA enciphers": ((lambda: rsa_of(2048), {"usages": {ENCIPHERS}}), NO_SIGNATURE),
    "RSA certifies": ((lambda: rsa_of(2048), {"usages": {CERTIFIES}}), NO_SIGNATURE),
    "a client's": ((p256, {"purposes": [PURPOSE.CLIENT_AUTH]}), NO_SERVER),
    "any purpose": ((p256, {"purposes": [PURPOSE.ANY_EXTENDED_KEY_USAGE]}), NO_SERVER),
}
SERVER = [PURPOSE.SERVER_AUTH]
GOOD: dict[str, Making] = {
    "P-256": (p256, {}),
    "P-384": (lambda: ec.generate_private_key(ec.SECP384R1()), {}),
    "RSA": (lambda: rsa_of(2048), {"usages": {SIGNS, ENCIPHERS}, "purposes": SERVER}),
    "signs": (p256, {"usages": {SIGNS}, "purposes": SERVER}),
    "several purposes": (p256, {"purposes": [PURPOSE.ANY_EXTENDED_KEY_USAGE, *SERVER]}),
}


def made(ca: trustme.CA, making: Making) -> Pair:
    key, extensions = making
    return a_special_pair(ca, key(), **extensions)


async def grpc_answers(port: int, ca: trustme.CA) -> bool:
    """Whether a new connection of a gRPC client comes about, and a call over it."""
    credentials = grpc.ssl_channel_credentials(ca.cert_pem.bytes())
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.secure_channel(f"{HOST}:{port}", credentials, options=options) as channel:
        stub = PoolDiscoveryServiceStub(channel)
        try:
            await stub.ListPools(pb.ListPoolsRequest(), timeout=30)
        except grpc.aio.AioRpcError as error:
            return error.code() is grpc.StatusCode.UNIMPLEMENTED  # of a server without methods
    return True


@pytest.mark.parametrize("kind", BAD)
def test_a_pair_that_cannot_serve_both_faces_is_refused_with_its_reason(
    tmp_path: Path, ca: trustme.CA, kind: str
) -> None:
    making, problem = BAD[kind]
    paths = in_files(tmp_path, made(ca, making))
    with pytest.raises(BadTlsFile) as refused:
        load(paths, now=EPOCH)
    assert (refused.value.path, refused.value.problem) == (paths.cert, problem)


def test_an_rsa_key_below_2048_bits_is_refused(tmp_path: Path, ca: trustme.CA) -> None:
    paths = in_files(tmp_path, a_special_pair(ca, rsa_of(2047)))
    with pytest.raises(BadTlsFile) as refused:
        load(paths, now=EPOCH)
    expected = "the certificate's RSA key has 2047 bits, and 2048 are the least"
    assert (refused.value.path, refused.value.problem) == (paths.cert, expected)


@pytest.mark.parametrize("kind", [*BAD, *GOOD])
async def test_what_is_refused_is_what_grpc_clients_cannot_call(ca: trustme.CA, kind: str) -> None:
    pair = made(ca, GOOD[kind] if kind in GOOD else BAD[kind][0])
    server = grpc.aio.server()
    try:
        credentials = grpc.ssl_server_credentials([(pair.key, pair.cert)])
        port = server.add_secure_port("127.0.0.1:0", credentials)
        await server.start()
        answers = await grpc_answers(port, ca)
    except RuntimeError:  # it does not even listen
        answers = False
    finally:
        await server.stop(None)
    assert answers is (kind in GOOD)


@pytest.mark.parametrize("kind", GOOD)
async def test_both_faces_are_served_with_what_is_taken(
    tmp_path: Path, ca: trustme.CA, kind: str
) -> None:
    pair = made(ca, GOOD[kind])
    async with a_service(clock=FakeClock(), tls=in_files(tmp_path, pair)) as service:
        assert await grpc_answers(service.grpc.port, ca)
        for port, alpn in ((service.rest.port, "http/1.1"), (service.grpc.port, "h2")):
            assert await served_serial(port, client_context(ca, alpn=alpn)) == pair.serial


@pytest.mark.parametrize("kind", BAD)
async def test_on_rotation_the_old_pair_goes_on_serving_and_it_is_said_once(
    tmp_path: Path, ca: trustme.CA, kind: str
) -> None:
    making, problem = BAD[kind]
    told: list[tuple[Event, str]] = []

    def report(event: Event, **fields: object) -> None:
        if event in {Event.TLS_FILES_TAKEN, Event.TLS_FILES_REFUSED}:
            told.append((event, str(fields.get("message"))))

    pair = a_pair(ca)
    secret = Secret(tmp_path / "tls", pair)
    async with a_service(clock=FakeClock(), tls=secret.paths, report=report) as service:
        assert service.tls is not None
        secret.put(made(ca, making))
        for _ in range(3):
            await service.tls.look()
        assert told == [(Event.TLS_FILES_REFUSED, f"{secret.paths.cert}: {problem}")]
        assert await grpc_answers(service.grpc.port, ca)
        for port, alpn in ((service.rest.port, "http/1.1"), (service.grpc.port, "h2")):
            assert await served_serial(port, client_context(ca, alpn=alpn)) == pair.serial
        secret.put(good := a_pair(ca))
        await service.tls.look()
        assert told[-1][0] is Event.TLS_FILES_TAKEN
        at_grpc = client_context(ca, alpn="h2")
        assert await served_serial(service.grpc.port, at_grpc) == good.serial


@pytest.mark.parametrize("kind", BAD)
def test_at_the_start_the_flag_is_named_with_the_reason(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    ca: trustme.CA,
    kind: str,
) -> None:
    making, problem = BAD[kind]
    paths = in_files(tmp_path, made(ca, making))
    given = [f"--tls-cert-path={paths.cert}", f"--tls-key-path={paths.key}"]
    said = refusal(capsys, monkeypatch, *given)
    assert said == f"global-discovery serve: --tls-cert-path '{paths.cert}': {problem}\n"


async def test_the_command_ends_with_status_2(tmp_path: Path, ca: trustme.CA) -> None:
    paths = in_files(tmp_path, a_special_pair(ca, p256(), usages={ENCIPHERS}))
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, *LOOPBACK),
        *(f"--tls-cert-path={paths.cert}", f"--tls-key-path={paths.key}"),
        stderr=asyncio.subprocess.PIPE,
        env=clean_environment(),
    )
    try:
        async with asyncio.timeout(60):
            _, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 2
    assert said.decode().endswith(f"{NO_SIGNATURE}\n")


@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_no_damaged_certificate_breaks_more_than_the_read(ca: trustme.CA) -> None:
    pair = a_special_pair(ca, p256(), usages={SIGNS}, purposes=SERVER)
    whole = certificates(pair.cert)[0].whole
    assert unfit(whole) is None
    der = whole.public_bytes(serialization.Encoding.DER)
    for at in range(len(der)):
        for value in (0x00, 0x05, 0x30, 0x7F, 0x80, 0x84, 0xFF):
            damaged = der[:at] + bytes((value,)) + der[at + 1 :]
            alternative_names(damaged)
            with contextlib.suppress(*UNREADABLE):
                unfit(x509.load_der_x509_certificate(damaged))
            with contextlib.suppress(ValueError):
                certificates(ssl.DER_cert_to_PEM_cert(damaged).encode())
