"""Files of TLS in PEM, read so that what is used is what stood there at one moment.

A certificate and its key are two files, and whoever replaces them replaces one
after the other, or swaps a link between our two reads. Whatever is made of them
is made again when one of them has changed meanwhile.

No secret is in any error.
"""

import os
import ssl
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
Contents = tuple[bytes, ...]

MAX_FILE_BYTES = 1024 * 1024
_ATTEMPTS = 3
"""How often files are read that change meanwhile."""
_WEAK = {"EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"}
"""What OpenSSL holds against a certificate, and not against its key."""


class BadTlsFile(OSError):
    """A file cannot be used: `str` says which one and why."""

    def __init__(self, path: Path, problem: str) -> None:
        """`problem` can follow the path."""
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


def read(paths: Sequence[Path]) -> Contents:
    """What the files hold. Raises BadTlsFile, also for one that is empty or no file."""
    return tuple(_read(path) for path in paths)


def made_of(paths: Sequence[Path], make: Callable[[Contents], T]) -> T:
    """What `make` makes of the files, which it may open again by their paths.

    Raises BadTlsFile, and what `make` raised of files that did not change meanwhile.
    """
    for _ in range(_ATTEMPTS):
        contents = read(paths)
        try:
            made = make(contents)
        except BadTlsFile:
            if read(paths) == contents:
                raise
        else:
            if read(paths) == contents:
                return made
    raise BadTlsFile(paths[0], "changes all the time")


def load_pair(context: ssl.SSLContext, cert: Path, key: Path) -> None:
    """Makes the context show a certificate. Raises BadTlsFile for what OpenSSL does not take."""

    def encrypted() -> str:
        # Without this OpenSSL would ask the terminal.
        raise BadTlsFile(key, "is encrypted")

    try:
        context.load_cert_chain(cert, key, encrypted)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise BadTlsFile(key, "is not the key of the certificate") from error
        blamed = cert if error.reason in _WEAK else key
        raise BadTlsFile(blamed, f"cannot be used{_reason(error)}") from error
    except BadTlsFile:
        raise
    except OSError as error:
        raise BadTlsFile(cert, "cannot be read") from error


def load_cas(context: ssl.SSLContext, path: Path, content: bytes) -> None:
    """Makes the context believe the CAs of a file. Raises BadTlsFile.

    An intermediate CA may be all that is believed, as in gRPC.
    """
    try:
        context.load_verify_locations(cadata=content.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        raise BadTlsFile(path, f"cannot be used{_reason(error)}") from error
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _read(path: Path) -> bytes:
    try:
        # A pipe without a writer would hold us up.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            content = _content(path, descriptor)
        finally:
            os.close(descriptor)
    except BadTlsFile:
        raise
    except (OSError, ValueError) as error:
        why = (getattr(error, "strerror", None) or "no such path").lower()
        raise BadTlsFile(path, f"cannot be read: {why}") from error
    if not content.strip():
        raise BadTlsFile(path, "is empty")
    if len(content) > MAX_FILE_BYTES:
        raise BadTlsFile(path, f"has more than {MAX_FILE_BYTES} bytes")
    return content


def _content(path: Path, descriptor: int) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise BadTlsFile(path, "is no file")
    with open(descriptor, "rb", closefd=False) as file:
        return file.read(MAX_FILE_BYTES + 1)


def _reason(error: Exception) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    return f" ({reason.lower().replace('_', ' ')})" if reason else ""
