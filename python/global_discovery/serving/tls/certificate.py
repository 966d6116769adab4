"""What we tell about a certificate, and by which names a caller is known (RFC 5280, 4.2.1.6).

The standard library reads certificates only after a handshake has verified them,
and never an expired one; gRPC cuts a name off at its first NUL, as if the rest of it
was not there. So `cryptography` reads them. Nothing is verified here: whoever checks a
chain is OpenSSL.
"""

from typing import NamedTuple

from cryptography import x509

_BEGIN = b"-----BEGIN CERTIFICATE-----"
UNREADABLE = (
    ValueError,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""What the reading of a certificate raises, also of one that was loaded."""


class Certificate(NamedTuple):
    """One certificate. Times are seconds since the epoch."""

    serial: str
    """In hexadecimal, as OpenSSL prints it."""
    not_before: float
    not_after: float
    whole: x509.Certificate


def certificates(pem: bytes) -> tuple[Certificate, ...]:
    """Those in a PEM file, in its order; other text is skipped.

    Raises ValueError when there is none, and for one that cannot be read.
    """
    if _BEGIN not in pem:
        raise ValueError("has no certificate in PEM")
    try:
        return tuple(map(_certificate, x509.load_pem_x509_certificates(pem)))
    except UNREADABLE as error:
        raise ValueError("has a certificate that cannot be read") from error


def is_ca(certificate: x509.Certificate) -> bool:
    """Whether it may sign others (RFC 5280, 4.2.1.9); old roots do not say it.

    Raises `UNREADABLE`.
    """
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except x509.ExtensionNotFound:
        return certificate.subject == certificate.issuer
    return constraints.value.ca


class Names(NamedTuple):
    """Those of a subjectAltName, in its order."""

    uris: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()


def alternative_names(der: bytes) -> Names:
    """Each name whole, with all that is in it.

    None of a certificate that cannot be read, or that has a name which is none.
    """
    try:
        return _names(x509.load_der_x509_certificate(der))
    except UNREADABLE:
        return Names()


def names_in_pem(pem: bytes) -> Names:
    """The same, of the first certificate in PEM."""
    try:
        return _names(x509.load_pem_x509_certificate(pem))
    except UNREADABLE:
        return Names()


def _names(certificate: x509.Certificate) -> Names:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return Names()
    uris = found.get_values_for_type(x509.UniformResourceIdentifier)
    return Names(tuple(uris), tuple(found.get_values_for_type(x509.DNSName)))


def _certificate(whole: x509.Certificate) -> Certificate:
    begins, ends = whole.not_valid_before_utc, whole.not_valid_after_utc
    return Certificate(f"{whole.serial_number:02X}", begins.timestamp(), ends.timestamp(), whole)
