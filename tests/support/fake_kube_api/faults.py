"""What a request can be answered with in place of the truth."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Answer:
    """Any HTTP answer."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


@dataclass(frozen=True)
class Stream:
    """200, these bytes as they are, and then an end."""

    data: bytes = b""
    end: Literal["close", "reset", "hang"] = "close"


@dataclass(frozen=True)
class Hang:
    """No answer at all, until the caller goes."""


@dataclass(frozen=True)
class Drop:
    """The connection ends in place of an answer."""


Fault = Answer | Stream | Hang | Drop


def status(
    code: int,
    reason: str = "",
    message: str = "as the test says",
    *,
    headers: Mapping[str, str] | None = None,
    retry_after: int | None = None,
) -> Answer:
    """A Status object with its HTTP status."""
    document = _status(code, reason, message, retry_after)
    return Answer(code, json.dumps(document).encode(), headers or {})


def _status(code: int, reason: str, message: str, retry_after: int | None = None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    if retry_after is not None:
        document["details"] = {"retryAfterSeconds": retry_after}
    return document


def gone() -> Answer:
    """410 as an HTTP answer."""
    return status(410, "Expired", "too old resource version: 1 (2)")


def throttled(retry_after: int = 1) -> Answer:
    """429 as JSON."""
    return status(
        429,
        "TooManyRequests",
        "storage is (re)initializing",
        headers={"Retry-After": str(retry_after)},
        retry_after=retry_after,
    )


def throttled_text(retry_after: int = 1) -> Answer:
    """429 as priority and fairness answers it."""
    text = b"Too many requests, please try again later.\n"
    return Answer(429, text, {"Retry-After": str(retry_after)}, "text/plain")


def bad_gateway() -> Answer:
    """502 as a proxy answers it."""
    return Answer(502, b"<html><h1>502 Bad Gateway</h1></html>\n", {}, "text/html")


def forbidden(verb: str = "list") -> Answer:
    """403."""
    return status(403, "Forbidden", f'User "nobody" cannot {verb} resource')


def unauthorized() -> Answer:
    """401."""
    return status(401, "Unauthorized", "Unauthorized")


def too_large_version() -> Answer:
    """504 of a server that is behind."""
    return status(504, "Timeout", "Too large resource version: 9, current: 1", retry_after=1)


def watch_event(change: str, item: Mapping[str, Any]) -> bytes:
    """One line of a watch."""
    return json.dumps({"type": change, "object": item}).encode() + b"\n"


def error_event(
    code: int = 410, reason: str = "Expired", message: str = "as the test says", **more: Any
) -> bytes:
    """An ERROR line."""
    return watch_event("ERROR", _status(code, reason, message) | more)
