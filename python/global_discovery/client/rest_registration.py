"""Registering over REST: `POST /pools`, and `DELETE` to withdraw.

Made for servers of any age. One that knows only `POST /pools` grants leases
without an id: each call then starts anew there, and nothing can be withdrawn. An
HTTP status is told as the gRPC code that means the same, so that the rules of a
heartbeat are the same over both wires.

Each call has a connection of its own, which spreads relays over the instances
behind one name and is never one that the server has just given up.
"""

import json
import re
from typing import Any, NamedTuple
from urllib.parse import quote

import aiohttp
import grpc
from yarl import URL

from global_discovery.client.errors import CallFailed, ErrorDetails, FieldViolation
from global_discovery.client.http_answer import (
    TooLarge,
    instance_of,
    open_session,
    read_bounded,
    retry_after,
)
from global_discovery.client.tls import ClientTls, headers, request_options
from global_discovery.domain.timer import Timer, within
from global_discovery.transport import transport_text
from global_discovery.v1 import pool_discovery_pb2 as pb

MAX_ANSWER_BYTES = 64 * 1024
MAX_SECONDS = 86_400
"""No server grants more; an absurd lease would silence a heartbeat for years."""
MAX_TOLD_CHARACTERS = 1_000
_LEASE_ID = re.compile(r"[!#-~]{0,64}")
_PROBLEM = "application/problem+json"
_NOT_FOUND = 404
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.UNIMPLEMENTED,
    405: grpc.StatusCode.UNIMPLEMENTED,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    409: grpc.StatusCode.FAILED_PRECONDITION,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    415: grpc.StatusCode.UNIMPLEMENTED,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    501: grpc.StatusCode.UNIMPLEMENTED,
    502: grpc.StatusCode.UNAVAILABLE,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}


class Granted(NamedTuple):
    """A lease, and who granted it."""

    response: pb.RegisterPoolResponse
    instance: str
    """The instance that answered; empty when it did not name itself."""


class _Answer(NamedTuple):
    status: int
    is_problem: bool
    body: bytes
    instance: str
    retry_after: float

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300  # noqa: PLR2004 - what HTTP calls successful


class RestRegistrationCalls:
    """The calls to one server that is given as a URL."""

    def __init__(self, server: str, timer: Timer, tls: ClientTls | None = None) -> None:
        """Belongs to the running event loop; close it."""
        self._tls = tls
        self._server = server
        self._timer = timer
        self._session = open_session()

    async def register(self, request: pb.RegisterPoolRequest, seconds: float) -> Granted:
        """`POST /pools`. Raises CallFailed, also for an answer that grants no lease."""
        document = registration_document(request)
        answer = await self._call("POST", "/pools", seconds, json=document)
        if not answer.is_good:
            raise self._refused(answer)
        try:
            return Granted(granted_lease(answer.body), answer.instance)
        except ValueError as error:
            raise CallFailed(self._server, grpc.StatusCode.INTERNAL, str(error)) from error

    async def deregister(self, request: pb.DeregisterPoolRequest, seconds: float) -> None:
        """`DELETE` of the pool, of the named lease only. Raises CallFailed."""
        key = request.key
        parts = (key.cluster_id, key.namespace, key.dgd_name)
        path = "/".join(["/pools", *(quote(part, safe="") for part in parts)])
        only = {"If-Match": f'"{request.lease_id}"'}
        answer = await self._call("DELETE", path, seconds, headers=only)
        if not answer.is_good:
            raise self._refused(answer)

    async def close(self) -> None:
        """Closes what is open."""
        await self._session.close()

    async def _call(self, method: str, path: str, seconds: float, **what: Any) -> _Answer:
        try:
            return await within(self._timer, seconds, self._exchange(method, path, **what))
        except TimeoutError as error:
            code, told = grpc.StatusCode.DEADLINE_EXCEEDED, f"no answer within {seconds:g} s"
            raise CallFailed(self._server, code, told) from error
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
            told = transport_text(error)
            raise CallFailed(self._server, grpc.StatusCode.UNAVAILABLE, told) from error
        except Exception as error:
            raise CallFailed(self._server, grpc.StatusCode.UNKNOWN, str(error)) from error

    async def _exchange(self, method: str, path: str, **what: Any) -> _Answer:
        url = URL(self._server + path, encoded=True)
        shown = what.get("headers", {}) | headers(self._tls, self._server)
        what |= {"allow_redirects": False, "headers": shown, **request_options(self._tls)}
        async with self._session.request(method, url, **what) as response:
            try:
                body = await read_bounded(response, MAX_ANSWER_BYTES)
            except TooLarge:
                if response.ok:
                    raise
                body = b""
            return _Answer(
                status=response.status,
                is_problem=response.content_type == _PROBLEM,
                body=body,
                instance=instance_of(response.headers),
                retry_after=retry_after(response.headers),
            )

    def _refused(self, answer: _Answer) -> CallFailed:
        code = _CODES.get(answer.status, grpc.StatusCode.UNKNOWN)
        if answer.status == _NOT_FOUND and answer.is_problem:
            # Said by a server that knows the call; without it the path itself is unknown.
            code = grpc.StatusCode.NOT_FOUND
        message, details = _problem(answer.body)
        told = f"HTTP {answer.status}" + (f": {message}" if message else "")
        details = details._replace(instance=answer.instance, retry_after=answer.retry_after)
        return CallFailed(self._server, code, told, details)


def registration_document(request: pb.RegisterPoolRequest) -> dict[str, Any]:
    """The body of `POST /pools`; what is empty is left out."""
    registration = request.registration
    key, location = registration.key, registration.location
    places = {
        "region": location.region,
        "availability_zone": location.availability_zone,
        "datacenter": location.datacenter,
    }
    document: dict[str, Any] = {
        "cluster_id": key.cluster_id,
        "namespace": key.namespace,
        "dgd_name": key.dgd_name,
        "model": registration.model,
        "location": {name: place for name, place in places.items() if place},
        "capabilities": list(registration.capabilities),
        "capacity": [
            {"gpu_sku": entry.gpu_sku, "gpu_count": entry.gpu_count}
            for entry in registration.capacity
        ],
        "frontends": list(registration.frontends),
        "relays": list(registration.relays),
        "relay_id": request.relay_id,
        "lease_id": request.lease_id,
        # A sequence counts within one lease only.
        "sequence": request.sequence if request.lease_id else 0,
    }
    return {name: value for name, value in document.items() if value}


def granted_lease(body: bytes) -> pb.RegisterPoolResponse:
    """What a good answer to `POST /pools` grants. Raises ValueError when that is no lease."""
    document = _json_object(body)
    if document is None:
        raise ValueError("the answer is not a JSON object")
    lease = _seconds(document, "lease_duration_secs")
    interval = _seconds(document, "heartbeat_interval_secs")
    if interval > lease:
        raise ValueError("the answer's heartbeat_interval_secs is above lease_duration_secs")
    lease_id = document.get("lease_id")
    if lease_id is None:
        lease_id = ""
    if not isinstance(lease_id, str) or not is_lease_id(lease_id):
        raise ValueError("the answer's lease_id is no lease id")
    return pb.RegisterPoolResponse(
        lease_duration_secs=lease, heartbeat_interval_secs=interval, lease_id=lease_id
    )


def is_lease_id(text: str) -> bool:
    """Whether a server can have meant this as an id; an empty one stands for none."""
    return _LEASE_ID.fullmatch(text) is not None


def _seconds(document: dict[str, Any], name: str) -> int:
    value = document.get(name)
    if type(value) is not int or not 1 <= value <= MAX_SECONDS:
        raise ValueError(f"the answer's {name} is no number of seconds")
    return value


def _json_object(body: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _problem(body: bytes) -> tuple[str, ErrorDetails]:
    """What a problem document says, as far as it can be read."""
    document = _json_object(body) or {}
    errors = document.get("errors")
    more = document.get("more_errors")
    return _text(document.get("detail")), ErrorDetails(
        reason=_text(document.get("code")),
        violations=tuple(
            FieldViolation(_text(error.get("field")), _text(error.get("message")))
            for error in (errors if isinstance(errors, list) else [])
            if isinstance(error, dict)
        ),
        more_violations=more if type(more) is int else 0,
    )


def _text(value: Any) -> str:
    return value[:MAX_TOLD_CHARACTERS] if isinstance(value, str) else ""
