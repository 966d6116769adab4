"""Whether gRPC and REST can both be served with a certificate.

OpenSSL, which REST is served with, takes certificates that gRPC's BoringSSL does
not: it either does not serve with them at all, or no gRPC client accepts them.
"""

from global_discovery.serving.tls.certificate import extensions, public_key
from global_discovery.serving.tls.der import (
    BIT_STRING,
    INTEGER,
    OBJECT_IDENTIFIER,
    Value,
    expected,
    first,
    inner,
    values,
)

_RSA = bytes.fromhex("2a864886f70d010101")
_EC = bytes.fromhex("2a8648ce3d0201")
_CURVES = {bytes.fromhex("2a8648ce3d030107"), bytes.fromhex("2b81040022")}
"""P-256 and P-384, by their names (RFC 5480, 2.1.1.1)."""
_OTHERS = {
    bytes.fromhex("2b6570"): "Ed25519",
    bytes.fromhex("2b6571"): "Ed448",
    bytes.fromhex("2a864886f70d01010a"): "RSASSA-PSS",
    bytes.fromhex("2b81040023"): "P-521",
}
_MIN_RSA_BITS = 2048

_KEY_USAGE = bytes((0x55, 0x1D, 0x0F))
_DIGITAL_SIGNATURE = 0x80
_EXTENDED_KEY_USAGE = bytes((0x55, 0x1D, 0x25))
_SERVER_AUTH = bytes.fromhex("2b06010505070301")


def unfit(der: bytes) -> str | None:
    """What makes the certificate one that no face, or one face only, can be served with.

    Raises ValueError or IndexError for one that cannot be read.
    """
    return _unfit_key(public_key(der)) or _unfit_usage(der)


def _unfit_key(info: bytes) -> str | None:
    algorithm, key = values(info)
    kind, parameters = _algorithm(algorithm)
    if kind == _RSA:
        modulus = first(inner(expected(key, BIT_STRING)[1:]))
        bits = int.from_bytes(expected(modulus, INTEGER)).bit_length()
        if bits < _MIN_RSA_BITS:
            return f"the certificate's RSA key has {bits} bits, and {_MIN_RSA_BITS} are the least"
        return None
    curve = parameters if kind == _EC else b""
    if curve in _CURVES:
        return None
    other = _OTHERS.get(curve or kind, "of another kind")
    return f"the certificate's key is {other}; gRPC needs RSA, P-256 or P-384"


def _algorithm(value: Value) -> tuple[bytes, bytes]:
    """Identifier, and the one that is its parameter; empty without one."""
    identifier, *parameters = values(value.content)
    named = [each.content for each in parameters if each.tag == OBJECT_IDENTIFIER]
    return identifier.content, named[0] if named else b""


def _unfit_usage(der: bytes) -> str | None:
    """A server signs in every handshake (RFC 8446, 4.4.2.2; RFC 8422, 2).

    anyExtendedKeyUsage is not enough for OpenSSL and BoringSSL, which clients verify with.
    """
    for usage in extensions(der, _KEY_USAGE):
        bits = expected(first(usage), BIT_STRING)[1:]
        if not bits or not bits[0] & _DIGITAL_SIGNATURE:
            return "the certificate's keyUsage lacks digitalSignature"
    for usage in extensions(der, _EXTENDED_KEY_USAGE):
        if _SERVER_AUTH not in [purpose.content for purpose in values(inner(usage))]:
            return "the certificate's extendedKeyUsage lacks serverAuth"
    return None
