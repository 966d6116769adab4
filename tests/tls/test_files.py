"""Which files are taken, and what is said of those that are not."""

import datetime as dt
import os
import ssl
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from global_discovery.pem import BadTlsFile
from global_discovery.serving.tls.certificate import certificates
from global_discovery.serving.tls.files import TlsPaths, load
from support.certificates import NOW, Secret, a_pair, in_files
from support.clock import EPOCH

DAY = dt.timedelta(days=1)


def refusal(paths: TlsPaths) -> BadTlsFile:
    with pytest.raises(BadTlsFile) as refused:
        load(paths, now=EPOCH)
    assert str(refused.value).startswith(f"{refused.value.path}: ")
    assert "\n" not in str(refused.value)
    return refused.value


@pytest.mark.parametrize("ends", [dt.datetime(2049, 12, 31, tzinfo=dt.UTC), None])
@pytest.mark.parametrize("key_type", list(trustme.KeyType))
def test_a_certificate_reads_as_it_does_elsewhere(
    ca: trustme.CA, ends: dt.datetime | None, key_type: trustme.KeyType
) -> None:
    if ends is None:
        ends = dt.datetime(2051, 1, 2, 3, 4, 5, tzinfo=dt.UTC)  # another form of time
    pem = ca.issue_cert("a.example", not_after=ends, key_type=key_type).cert_chain_pems[0].bytes()
    known = x509.load_pem_x509_certificate(pem)
    read = certificates(b"what is it: text\n" + pem)[0]
    assert read.serial == f"{known.serial_number:02X}"
    assert read.not_before == known.not_valid_before_utc.timestamp()
    assert read.not_after == ends.timestamp()


def test_no_cut_off_certificate_is_read_as_one(ca: trustme.CA) -> None:
    der = ssl.PEM_cert_to_DER_cert(ca.cert_pem.bytes().decode())
    for length in range(200):
        pem = ssl.DER_cert_to_PEM_cert(der[:length]).encode()
        with pytest.raises(ValueError, match=r"^has (a|no) certificate"):
            certificates(pem)


def test_good_files_are_taken(tmp_path: Path, ca: trustme.CA) -> None:
    pair = a_pair(ca)
    material = load(in_files(tmp_path, pair), now=EPOCH)
    assert material.certificate.serial == pair.serial
    assert material.client_ca is None
    assert material.context.verify_mode is ssl.CERT_NONE
    assert material.context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_of_several_client_cas_the_one_that_ends_next_is_told(
    tmp_path: Path, ca: trustme.CA
) -> None:
    ends = (NOW - DAY, NOW + 2 * DAY, NOW + DAY)
    several = [
        ca.issue_cert("ca.example", not_after=end).cert_chain_pems[0].bytes() for end in ends
    ]
    several.append(ca.cert_pem.bytes())
    material = load(in_files(tmp_path, a_pair(ca), b"".join(several)), now=EPOCH)
    assert material.client_ca is not None
    assert material.client_ca.not_after == (NOW + DAY).timestamp()
    assert material.context.verify_mode is ssl.CERT_OPTIONAL


def test_a_key_of_another_certificate_is_refused(tmp_path: Path, ca: trustme.CA) -> None:
    paths = in_files(tmp_path, a_pair(ca)._replace(key=a_pair(ca).key))
    error = refusal(paths)
    assert (error.path, error.problem) == (paths.key, "is not the key of the certificate")


def test_a_certificate_outside_its_time_is_refused(tmp_path: Path, ca: trustme.CA) -> None:
    old = a_pair(ca, begins=NOW - 2 * DAY, ends=NOW)
    assert refusal(in_files(tmp_path, old)).problem == "the certificate has expired"
    early = a_pair(ca, begins=NOW + DAY)
    assert refusal(in_files(tmp_path, early)).problem == "the certificate is not valid yet"


def test_a_file_of_client_cas_without_one_is_refused(tmp_path: Path, ca: trustme.CA) -> None:
    paths = in_files(tmp_path, a_pair(ca), a_pair(ca, name="a-caller").cert)
    error = refusal(paths)
    assert (error.path, error.problem) == (paths.client_ca, "has certificates, and none of a CA")
    for good in (ca, ca.create_child_ca()):
        load(in_files(tmp_path, a_pair(ca), good.cert_pem.bytes()), now=EPOCH)


def test_client_cas_that_have_all_expired_are_refused(tmp_path: Path, ca: trustme.CA) -> None:
    gone = ca.issue_cert("ca.example", not_after=NOW).cert_chain_pems[0].bytes()
    paths = in_files(tmp_path, a_pair(ca), gone)
    error = refusal(paths)
    assert (error.path, error.problem) == (paths.client_ca, "every certificate has expired")


def test_an_encrypted_key_is_refused_without_asking_for_its_password(
    tmp_path: Path, ca: trustme.CA
) -> None:
    pair = a_pair(ca)
    key = serialization.load_pem_private_key(pair.key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    assert refusal(in_files(tmp_path, pair._replace(key=key))).problem == "is encrypted"


@pytest.mark.parametrize("name", ["cert", "key", "client_ca"])
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"x" * (1024 * 1024 + 1), "has more than 1048576 bytes"),
    ],
    ids=["empty", "blank", "large"],
)
def test_a_file_of_no_use_is_named(
    tmp_path: Path, ca: trustme.CA, name: str, content: bytes, problem: str
) -> None:
    paths = in_files(tmp_path, a_pair(ca), ca.cert_pem.bytes())
    path = getattr(paths, name)
    path.write_bytes(content)
    error = refusal(paths)
    assert (error.path, error.problem) == (path, problem)


@pytest.mark.parametrize("name", ["cert", "key", "client_ca"])
def test_what_is_no_pem_is_named(tmp_path: Path, ca: trustme.CA, name: str) -> None:
    paths = in_files(tmp_path, a_pair(ca), ca.cert_pem.bytes())
    path = getattr(paths, name)
    path.write_bytes(b"\x00\xff-----BEGIN no certificate")
    assert refusal(paths).path == path


@pytest.mark.parametrize("name", ["cert", "client_ca"])
def test_a_damaged_certificate_is_named(tmp_path: Path, ca: trustme.CA, name: str) -> None:
    paths = in_files(tmp_path, a_pair(ca), ca.cert_pem.bytes())
    path = getattr(paths, name)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"".join(lines[3:]))
    error = refusal(paths)
    assert (error.path, error.problem) == (path, "has a certificate that cannot be read")


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, ca: trustme.CA) -> None:
    paths = in_files(tmp_path, a_pair(ca))
    paths.key.unlink()
    assert refusal(paths).problem == "cannot be read: no such file or directory"
    paths.key.mkdir()
    assert refusal(paths).problem == "is no file"
    paths.key.rmdir()
    os.mkfifo(paths.key)
    assert refusal(paths).problem == "is no file"


def test_a_key_that_is_too_short_is_the_certificates_fault(tmp_path: Path, ca: trustme.CA) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 - the point
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "short")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 7, NOW - DAY, NOW + DAY)
    cert = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    paths = in_files(tmp_path, a_pair(ca))
    paths.cert.write_bytes(cert)
    paths.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    error = refusal(paths)
    assert (error.path, error.problem) == (paths.cert, "cannot be used (ee key too small)")


def test_files_that_change_while_they_are_read_are_read_again(
    tmp_path: Path, ca: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = a_pair(ca), a_pair(ca)
    secret = Secret(tmp_path / "tls", first)
    really_open, opened = os.open, 0

    def open_and_swap(path: os.PathLike[str] | str, flags: int) -> int:
        nonlocal opened
        opened += 1
        if opened == 2:  # the certificate was read, its key was not
            secret.put(second)
        return really_open(path, flags)

    monkeypatch.setattr("global_discovery.pem.os.open", open_and_swap)
    assert load(secret.paths, now=EPOCH).certificate.serial == second.serial


def test_a_fault_of_files_that_are_being_replaced_is_none(
    tmp_path: Path, ca: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = a_pair(ca)
    paths = in_files(tmp_path, a_pair(ca))
    really_open, opened = os.open, 0

    def open_and_replace(path: os.PathLike[str] | str, flags: int) -> int:
        nonlocal opened
        opened += 1
        if opened == 1:
            paths.cert.write_bytes(pair.cert)
        if opened == 3:  # the certificate and another's key were read, and refused
            paths.key.write_bytes(pair.key)
        return really_open(path, flags)

    monkeypatch.setattr("global_discovery.pem.os.open", open_and_replace)
    assert load(paths, now=EPOCH).certificate.serial == pair.serial
