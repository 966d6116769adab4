"""What can go wrong between a list and watch and the API server, as fixed words.

Kubernetes answers with a `Status` object, as an HTTP body or as an ERROR event;
what stands between it and us answers with text, HTML or nothing. All of it
becomes one `CallFailed`. The status code decides, never the words of a text.
"""

from collections.abc import Mapping
from enum import Enum

import msgspec

MAX_MESSAGE = 300
MAX_RETRY_AFTER = 300.0
"""Seconds: one who asks for more is asked again after this."""
_TOO_LARGE = "too large resource version"


class Failure(Enum):
    """Why a list or a watch ended. The values are labels of metrics and fields of the log."""

    CREDENTIALS = "credentials"
    """The kubeconfig or the service account's files cannot be read."""
    UNREACHABLE = "unreachable"
    """No connection, or one that ended before it was answered."""
    TLS = "tls"
    """The two sides do not accept each other's certificates."""
    UNAUTHORIZED = "unauthorized"
    """401: the credentials are not taken."""
    FORBIDDEN = "forbidden"
    """403: a permission is missing."""
    NOT_FOUND = "not_found"
    """404: the server does not know the kind."""
    EXPIRED = "expired"
    """410: the version, or the place in a list, is no longer kept."""
    THROTTLED = "throttled"
    """429: later."""
    TOO_NEW = "too_new"
    """504, or "too large resource version": the server is behind the version it was asked for."""
    SERVER_ERROR = "server_error"
    """Any other 5xx."""
    REFUSED = "refused"
    """Any other status."""
    ERROR_EVENT = "error_event"
    """An ERROR event that is none of the above."""
    CUT = "cut"
    """The connection ended in the middle of an answer."""
    SILENT = "silent"
    """No answer, event or bookmark for too long."""
    EMPTY = "empty"
    """A watch was accepted and ended at once, without an event."""
    UNDECODABLE = "undecodable"
    """An answer that is not what Kubernetes sends, or half a line."""
    TOO_LONG = "too_long"
    """A line or a page beyond the limit."""
    INTERNAL = "internal"
    """A fault of this program."""


LOSES_ITS_PLACE = frozenset(
    {
        Failure.EXPIRED,
        Failure.ERROR_EVENT,
        Failure.UNDECODABLE,
        Failure.TOO_LONG,
        Failure.INTERNAL,
    }
)
"""After one of these a watch cannot go on from where it was: everything is listed again."""


class CallFailed(Exception):
    """A list or a watch failed. The message is for the log only."""

    def __init__(
        self,
        failure: Failure,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        """`retry_after` is in seconds."""
        self.failure = failure
        self.status = status
        self.retry_after = retry_after
        self.message = " ".join(message.split())[:MAX_MESSAGE]
        super().__init__(self.message)


class _Details(msgspec.Struct):
    retry_after: float | None = msgspec.field(name="retryAfterSeconds", default=None)


class Status(msgspec.Struct):
    """meta/v1 Status, as far as it matters here. Any of it may be absent or null."""

    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: _Details | None = None


_STATUS = msgspec.json.Decoder(Status)
_BY_CODE = {
    401: Failure.UNAUTHORIZED,
    403: Failure.FORBIDDEN,
    404: Failure.NOT_FOUND,
    410: Failure.EXPIRED,
    429: Failure.THROTTLED,
    504: Failure.TOO_NEW,
}
_SERVER_ERRORS = range(500, 600)


def refused(code: int, headers: Mapping[str, str], body: bytes) -> CallFailed:
    """An HTTP answer that is not 200."""
    status = _read(body)
    message = status.message or body.decode(errors="replace") or "no text"
    retry_after = _seconds(headers.get("Retry-After")) or _asked(status)
    failure = _classified(code, message)
    return CallFailed(failure, message, status=code, retry_after=retry_after)


def error_event(body: bytes) -> CallFailed:
    """The object of an ERROR event."""
    status = _read(body)
    message = status.message or status.reason or "no text"
    failure = Failure.ERROR_EVENT
    if status.code is not None:
        failure = _classified(status.code, message)
    if failure in (Failure.REFUSED, Failure.SERVER_ERROR, Failure.NOT_FOUND):
        failure = Failure.ERROR_EVENT
    return CallFailed(failure, message, status=status.code, retry_after=_asked(status))


def _read(body: bytes) -> Status:
    try:
        return _STATUS.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Status()


def _classified(code: int, message: str) -> Failure:
    if code in _SERVER_ERRORS and _TOO_LARGE in message.lower():
        return Failure.TOO_NEW
    other = Failure.SERVER_ERROR if code in _SERVER_ERRORS else Failure.REFUSED
    return _BY_CODE.get(code, other)


def _asked(status: Status) -> float | None:
    details = status.details
    return _bounded(details.retry_after) if details and details.retry_after else None


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds; its form as a date is not used by Kubernetes."""
    if header is None or not header.isascii() or not header.isdigit():
        return None
    return _bounded(float(header[:9]))


def _bounded(seconds: float) -> float | None:
    return min(seconds, MAX_RETRY_AFTER) if seconds > 0 else None
