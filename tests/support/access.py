"""Identities, policies and tokens to test with, and a reviewer whose word a test decides."""

import asyncio
import base64
import datetime as dt
import json
from pathlib import Path
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from global_discovery.domain.access import NO_KEY, Rights
from global_discovery.serving.access.reviews import ReviewFailed
from support.certificates import Pair
from support.clock import EPOCH

AUDIENCE = "global-discovery"
ISSUER = "https://oidc.example/east"
EAST = "spiffe://east.example/ns/dynamo/sa/relay"
WEST = "dns:relay.west.example"
READER = "dns:router.example"
NOTHING = Rights(NO_KEY, NO_KEY)
POLICY = f"""
[[rule]]
identities = ["{EAST}", "sa:east/dynamo/*"]
may = ["register", "read"]
clusters = ["east"]

[[rule]]
identities = ["{WEST}", "sa:west/dynamo/*"]
may = ["register", "read"]
clusters = ["west"]

[[rule]]
identities = ["{READER}"]
may = ["read"]
clusters = ["*"]
"""


def in_file(folder: Path, text: str = POLICY) -> Path:
    path = folder / "policy.toml"
    path.write_text(text)
    return path


def certified(
    ca: trustme.CA,
    *names: x509.GeneralName,
    common_name: str = "somebody",
    encoded_names: bytes = b"",
) -> Pair:
    """A client's certificate with exactly these alternative names, or with these bytes for them."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.load_pem_x509_certificate(ca.cert_pem.bytes())
    signer = serialization.load_pem_private_key(ca.private_key_pem.bytes(), None)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(dt.datetime(2000, 1, 1, tzinfo=dt.UTC))
        .not_valid_after(dt.datetime(2040, 1, 1, tzinfo=dt.UTC))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()),  # type: ignore[arg-type] # a CA's key is one of those
            critical=False,
        )
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if encoded_names:
        oid = x509.SubjectAlternativeName.oid
        builder = builder.add_extension(x509.UnrecognizedExtension(oid, encoded_names), False)
    made = builder.sign(signer, hashes.SHA256())  # type: ignore[arg-type] # as above
    return Pair(
        made.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def certificate_of(ca: trustme.CA, identity: str) -> Pair:
    """One that proves this identity."""
    if identity.startswith("dns:"):
        return certified(ca, x509.DNSName(identity.removeprefix("dns:")))
    return certified(ca, x509.UniformResourceIdentifier(identity))


def a_token(account: str = "relay", *, signature: str = "c2lnbmVk", **claims: Any) -> str:
    """A token in form; whether it is good is the reviewer's matter."""
    told = {
        "iss": ISSUER,
        "sub": f"system:serviceaccount:dynamo:{account}",
        "aud": [AUDIENCE],
        "exp": EPOCH + 3600,
        **claims,
    }
    told = {name: value for name, value in told.items() if value is not None}
    parts = ({"alg": "RS256", "kid": "1"}, told)
    return ".".join([*(_part(part) for part in parts), signature])


def _part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


class HandReviewer:
    """Stands where an API server is asked."""

    def __init__(self) -> None:
        self.good: dict[str, str] = {}
        """Users by token."""
        self.asked: list[str] = []
        self.away = False
        self.answering = asyncio.Event()
        self.answering.set()
        self.at_once = self.most_at_once = 0
        self.closed = False

    def accept(self, token: str, user: str = "system:serviceaccount:dynamo:relay") -> str:
        self.good[token] = user
        return token

    async def review(self, token: str) -> str | None:
        self.asked.append(token)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.answering.wait()
        finally:
            self.at_once -= 1
        if self.away:
            raise ReviewFailed("unreachable: nobody answers")
        return self.good.get(token)

    async def close(self) -> None:
        self.closed = True
