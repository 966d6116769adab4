"""Certificates with a key or usages of our choice, which a CA of trustme does not make."""

import datetime as dt
from collections.abc import Collection, Sequence

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

from support.certificates import HOST, NOW, Pair

Key = (
    ec.EllipticCurvePrivateKey
    | rsa.RSAPrivateKey
    | ed25519.Ed25519PrivateKey
    | ed448.Ed448PrivateKey
)
SIGNS, AGREES = "digital_signature", "key_agreement"
ENCIPHERS, CERTIFIES = "key_encipherment", "key_cert_sign"
PURPOSE = x509.ExtendedKeyUsageOID
_USAGES = (
    *(SIGNS, "content_commitment", ENCIPHERS, "data_encipherment", AGREES),
    *(CERTIFIES, "crl_sign", "encipher_only", "decipher_only"),
)
_YEARS = dt.timedelta(days=36_500)


def p256() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def rsa_of(bits: int) -> Key:
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def a_special_pair(
    ca: trustme.CA,
    key: Key,
    *,
    usages: Collection[str] | None = None,
    purposes: Sequence[x509.ObjectIdentifier] | None = None,
) -> Pair:
    """A server's; keyUsage and extendedKeyUsage are not there unless they are given."""
    issuer = x509.load_pem_x509_certificate(ca.cert_pem.bytes())
    signer = serialization.load_pem_private_key(ca.private_key_pem.bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    builder = x509.CertificateBuilder(
        *(issuer.subject, name, key.public_key()),
        *(x509.random_serial_number(), NOW - _YEARS / 10, NOW + _YEARS),
    ).add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
    if usages is not None:
        usage = x509.KeyUsage(**{each: each in usages for each in _USAGES})
        builder = builder.add_extension(usage, critical=True)
    if purposes is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    return Pair(
        builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
