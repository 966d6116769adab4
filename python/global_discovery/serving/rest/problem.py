"""Errors as HTTP tells them: RFC 9457 problem details.

Nothing that a caller sent and nothing internal is repeated in one. `code` is a
fixed reason, the same as gRPC's ErrorInfo where both faces can have it.
"""

import math
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from global_discovery.domain import errors
from global_discovery.domain.errors import Violation
from global_discovery.domain.limits import LimitReached
from global_discovery.serving.rest.answer import PROBLEM, Answer, headers
from global_discovery.serving.turns import MISTAKE

TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}

_STATUS: dict[type[errors.DiscoveryError], int] = {
    errors.InvalidInput: 422,
    errors.LeaseWithdrawn: 409,
    errors.ShareNotFound: 404,
    errors.TooManyShares: 429,
    LimitReached: 429,
    errors.Unavailable: 503,
    errors.StoreUnwritable: 503,
    errors.ShuttingDown: 503,
    errors.Unauthenticated: 401,
    errors.PermissionDenied: 403,
    errors.AuthenticationUnavailable: 503,
    errors.TooManyBadTokens: 429,
    errors.ScopeChanged: 503,
}


class Problem(Exception):
    """Raised by whatever finds that a call cannot be answered as asked."""

    def __init__(  # noqa: PLR0913 - the parts of the document, all but three by name
        self,
        status: int,
        code: str,
        detail: str,
        *,
        violations: Sequence[Violation] = (),
        more: Mapping[str, Any] | None = None,
        header_fields: Mapping[str, str] | None = None,
        close: bool = False,
    ) -> None:
        """`code` is from a fixed set; `more` are further members of the document."""
        super().__init__(detail)
        self.status = status
        self.code = code
        self.violations = violations
        self._more = more or {}
        self.header_fields = header_fields or {}
        self._close = close

    def answer(self) -> Answer:
        """The problem document."""
        document: dict[str, Any] = {
            "title": TITLES[self.status],
            "status": self.status,
            "detail": str(self),
            "code": self.code,
        }
        if self.violations:
            document["errors"] = [violation._asdict() for violation in self.violations]
        document.update(self._more)
        fields = headers(PROBLEM, self.header_fields)
        cost = 0.0 if self.status >= 500 else MISTAKE  # noqa: PLR2004 - from there on it is ours
        return Answer(self.status, fields, orjson.dumps(document), self._close, cost)


def of(error: errors.DiscoveryError, *, status: int | None = None) -> Problem:
    """How an error of the domain is told; `status` where it is not the usual one."""
    fields: dict[str, str] = {}
    if error.retry_after is not None:
        fields["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    if isinstance(error, errors.Unauthenticated):
        fields["WWW-Authenticate"] = _challenge(bad_token=error.bad_token)
    violations: Sequence[Violation] = ()
    more: dict[str, Any] = {}
    if isinstance(error, errors.InvalidInput):
        violations = error.violations
        if error.untold:
            more["more_errors"] = error.untold
    if isinstance(error, LimitReached):
        more["limit"] = error.limit.value
    return Problem(
        status or _STATUS[type(error)],
        error.reason,
        str(error),
        violations=violations,
        more=more,
        header_fields=fields,
    )


def _challenge(*, bad_token: bool) -> str:
    """RFC 6750, 3: without a token no error is named."""
    challenge = 'Bearer realm="global-discovery"'
    return challenge + ', error="invalid_token"' if bad_token else challenge


def internal() -> tuple[Problem, str]:
    """What a caller is told of a fault of ours, and the id under which our log has the rest."""
    request_id = secrets.token_hex(8)
    return Problem(500, "INTERNAL", "internal error", more={"request_id": request_id}), request_id


def malformed(detail: str, *, close: bool = False) -> Problem:
    """The request is no HTTP, or a part of it has the wrong form."""
    return Problem(400, "MALFORMED_REQUEST", detail, close=close)


def too_slow(what: str) -> Problem:
    """The caller did not send `what` in time."""
    return Problem(408, "REQUEST_TIMEOUT", f"{what} did not arrive in time", close=True)


def unauthenticated() -> Problem:
    """The caller showed no certificate. HTTP asks for a challenge; this one has a name only."""
    return Problem(
        401,
        "UNAUTHENTICATED",
        "a client certificate is needed",
        header_fields={"WWW-Authenticate": "ClientCertificate"},
    )
