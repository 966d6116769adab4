"""Whether gRPC and REST can both be served with a certificate.

OpenSSL, which REST is served with, takes certificates that gRPC's BoringSSL does
not: it either does not serve with them at all, or no gRPC client accepts them.
"""

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, PublicKeyAlgorithmOID

_CURVES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}
_KEYS: tuple[tuple[type, str], ...] = (
    (RSAPublicKey, "RSA"),
    (Ed25519PublicKey, "Ed25519"),
    (Ed448PublicKey, "Ed448"),
)
_UNKNOWN = "of another kind"
_MIN_RSA_BITS = 2048


def unfit(certificate: x509.Certificate) -> str | None:
    """What makes the certificate one that no face, or one face only, can be served with.

    Raises `UNREADABLE` for one that cannot be read.
    """
    return _unfit_key(certificate) or _unfit_usage(certificate)


def _unfit_key(certificate: x509.Certificate) -> str | None:
    try:
        key = certificate.public_key()
    except UnsupportedAlgorithm:
        key = None
    kind = _kind(key)
    if certificate.public_key_algorithm_oid == PublicKeyAlgorithmOID.RSASSA_PSS:
        kind = "RSASSA-PSS"
    if kind not in {"RSA", "P-256", "P-384"}:
        return f"the certificate's key is {kind}; gRPC needs RSA, P-256 or P-384"
    if isinstance(key, RSAPublicKey) and key.key_size < _MIN_RSA_BITS:
        bits = key.key_size
        return f"the certificate's RSA key has {bits} bits, and {_MIN_RSA_BITS} are the least"
    return None


def _kind(key: object) -> str:
    if isinstance(key, EllipticCurvePublicKey):
        return _CURVES.get(key.curve.name, _UNKNOWN)
    for each, kind in _KEYS:
        if isinstance(key, each):
            return kind
    return _UNKNOWN


def _unfit_usage(certificate: x509.Certificate) -> str | None:
    """A server signs in every handshake (RFC 8446, 4.4.2.2; RFC 8422, 2).

    anyExtendedKeyUsage is not enough for OpenSSL and BoringSSL, which clients verify with.
    """
    for extension in certificate.extensions:
        usage = extension.value
        if isinstance(usage, x509.KeyUsage) and not usage.digital_signature:
            return "the certificate's keyUsage lacks digitalSignature"
        if (
            isinstance(usage, x509.ExtendedKeyUsage)
            and ExtendedKeyUsageOID.SERVER_AUTH not in usage
        ):
            return "the certificate's extendedKeyUsage lacks serverAuth"
    return None
