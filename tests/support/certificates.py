"""Certificates made for a test, in files that are replaced as operators and Kubernetes do it."""

import asyncio
import datetime as dt
import os
import socket
import ssl
from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography import x509

from global_discovery.serving.tls.files import TlsPaths
from support.clock import EPOCH

HOST = "localhost"
NOW = dt.datetime.fromtimestamp(EPOCH, dt.UTC)
"""What a FakeClock that was not moved says."""


class Pair(NamedTuple):
    """A certificate with its key, in PEM."""

    cert: bytes
    key: bytes

    @property
    def serial(self) -> str:
        return f"{x509.load_pem_x509_certificate(self.cert).serial_number:02X}"


def a_pair(
    ca: trustme.CA,
    *,
    begins: dt.datetime | None = None,
    ends: dt.datetime | None = None,
    name: str = HOST,
) -> Pair:
    """A server's, valid from long ago to far away unless that is said."""
    made = ca.issue_cert(name, "127.0.0.1", not_before=begins, not_after=ends)
    chain = b"".join(blob.bytes() for blob in made.cert_chain_pems)
    return Pair(chain, made.private_key_pem.bytes())


class Secret:
    """A folder as Kubernetes mounts a Secret: `tls.crt` is a link into `..data`, itself one."""

    def __init__(self, folder: Path, pair: Pair, client_ca: bytes | None = None) -> None:
        self._folder = folder
        self._versions = 0
        folder.mkdir()
        self.put(pair, client_ca)
        names = ["tls.crt", "tls.key", *(["ca.crt"] if client_ca is not None else [])]
        for name in names:
            (folder / name).symlink_to(Path("..data") / name)
        ca = folder / "ca.crt" if client_ca is not None else None
        self.paths = TlsPaths(folder / "tls.crt", folder / "tls.key", ca)

    def put(self, pair: Pair, client_ca: bytes | None = None) -> None:
        """All files at once, by one rename of a link."""
        self._versions += 1
        version = self._folder / f"..v{self._versions}"
        version.mkdir()
        (version / "tls.crt").write_bytes(pair.cert)
        (version / "tls.key").write_bytes(pair.key)
        if client_ca is not None:
            (version / "ca.crt").write_bytes(client_ca)
        fresh = self._folder / "..data_tmp"
        fresh.symlink_to(version.name)
        fresh.rename(self._folder / "..data")


def replace(path: Path, content: bytes) -> None:
    """As careful programs do: written beside, and renamed over."""
    beside = path.with_name(path.name + ".new")
    beside.write_bytes(content)
    beside.rename(path)


def in_files(folder: Path, pair: Pair, client_ca: bytes | None = None) -> TlsPaths:
    """Plain files."""
    paths = TlsPaths(
        folder / "cert.pem", folder / "key.pem", None if client_ca is None else folder / "ca.pem"
    )
    for path, content in zip(paths.all, (pair.cert, pair.key, client_ca), strict=False):
        assert content is not None
        path.write_bytes(content)
    return paths


def client_context(
    ca: trustme.CA, certificate: trustme.LeafCert | None = None, *, alpn: str | None = None
) -> ssl.SSLContext:
    """Trusts `ca` only, and shows `certificate`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ca.configure_trust(context)
    if certificate is not None:
        certificate.configure_cert(context)
    if alpn is not None:
        context.set_alpn_protocols([alpn])
    return context


async def served_serial(port: int, context: ssl.SSLContext) -> str:
    """The serial number of the certificate that a new handshake is made with."""

    def shake() -> str:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
            context.wrap_socket(plain, server_hostname=HOST) as secured,
        ):
            der = secured.getpeercert(binary_form=True)
            assert der is not None
            return f"{x509.load_der_x509_certificate(der).serial_number:02X}"

    return await asyncio.to_thread(shake)


def leaf_files(folder: Path, leaf: trustme.LeafCert) -> tuple[Path, Path]:
    """A client's certificate and key, in files."""
    cert, key = folder / "client.pem", folder / "client-key.pem"
    cert.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    key.write_bytes(leaf.private_key_pem.bytes())
    os.chmod(key, 0o600)  # noqa: PTH101 - as short, and the same
    return cert, key
