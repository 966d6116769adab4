"""A caller is known by a name of its certificate as the CA wrote it, and by no part of one."""

from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from global_discovery.serving.tls.certificate import Names, alternative_names, names_in_pem
from support.access import EAST, NOTHING, WEST, certified, in_file
from support.access_world import FACES, an_access_world

DNS, URI = x509.DNSName, x509.UniformResourceIdentifier


def names_of(ca: trustme.CA, *names: x509.GeneralName) -> Names:
    pem = certified(ca, *names).cert
    der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    found = alternative_names(der)
    assert names_in_pem(pem) == found
    return found


def test_all_names_are_read_in_their_order(ca: trustme.CA) -> None:
    mail, long = x509.RFC822Name("a@b"), "d" * 300
    assert names_of(ca, DNS("b"), URI("u://v"), mail, DNS("a"), DNS(long), URI("")) == (
        ("u://v", ""),
        ("b", "a", long),
    )
    assert names_of(ca) == ((), ())


def test_a_name_does_not_end_at_a_nul(ca: trustme.CA) -> None:
    found = names_of(ca, DNS("good.example\0.evil"), URI("spiffe://good\0"))
    assert found == (("spiffe://good\0",), ("good.example\0.evil",))


@pytest.mark.parametrize("cut", [0, 1, 10, 200, 400])
def test_a_certificate_that_cannot_be_read_has_no_names(ca: trustme.CA, cut: int) -> None:
    pem = certified(ca, DNS("good.example")).cert
    der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    assert alternative_names(der[:cut]) == Names()
    assert names_in_pem(b"no certificate") == Names()
    assert names_in_pem(b"-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----") == Names()


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    "name",
    [
        DNS(WEST.removeprefix("dns:") + "\0.evil.example"),
        DNS(WEST.removeprefix("dns:") + "\n"),
        URI(EAST + "\0/evil"),
        URI(EAST + "\n"),
    ],
)
async def test_a_longer_name_is_not_the_one_that_it_begins_with(
    tmp_path: Path, ca: trustme.CA, face: str, name: x509.GeneralName
) -> None:
    async with an_access_world(tmp_path, ca, policy=in_file(tmp_path), anonymous=NOTHING) as world:
        caller = await world.caller(face, certified(ca, name))
        for cluster in ("east", "west"):
            assert (await caller.register(cluster)).code == "UNAUTHENTICATED"


@pytest.mark.parametrize("face", FACES)
async def test_a_name_that_is_no_text_is_no_identity_and_no_trouble(
    tmp_path: Path, ca: trustme.CA, face: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = b"relay.west.example\xff"
    encoded = bytes((0x30, len(name) + 2, 0x82, len(name))) + name
    async with an_access_world(tmp_path, ca, policy=in_file(tmp_path), anonymous=NOTHING) as world:
        caller = await world.caller(face, certified(ca, encoded_names=encoded))
        assert (await caller.register("west")).code == "UNAUTHENTICATED"
    assert caplog.records == []
