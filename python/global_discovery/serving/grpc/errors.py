"""Errors as gRPC tells them: a canonical code and google.rpc details (AIP-193).

Nothing internal reaches a caller. What is not a DiscoveryError becomes INTERNAL
with a fixed text and the id under which our log has the rest.
"""

import asyncio
import math
import secrets
from typing import NoReturn

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2 as details_pb
from google.rpc.status_pb2 import Status

from global_discovery.domain import errors
from global_discovery.domain.limits import LimitReached

DOMAIN = "global-discovery"
DETAILS = "grpc-status-details-bin"
INSTANCE = "x-global-discovery-instance"
"""Trailing metadata: the id of the instance that answered."""
ABORT_SECONDS = 30.0

_CODES: dict[type[errors.DiscoveryError], grpc.StatusCode] = {
    errors.InvalidInput: grpc.StatusCode.INVALID_ARGUMENT,
    errors.LeaseWithdrawn: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ShareNotFound: grpc.StatusCode.NOT_FOUND,
    errors.TooManyShares: grpc.StatusCode.RESOURCE_EXHAUSTED,
    LimitReached: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.PositionGone: grpc.StatusCode.ABORTED,
    errors.Unavailable: grpc.StatusCode.UNAVAILABLE,
    errors.StoreUnwritable: grpc.StatusCode.UNAVAILABLE,
    errors.ShuttingDown: grpc.StatusCode.UNAVAILABLE,
    errors.SlowWatcher: grpc.StatusCode.UNAVAILABLE,
    errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    errors.PermissionDenied: grpc.StatusCode.PERMISSION_DENIED,
    errors.AuthenticationUnavailable: grpc.StatusCode.UNAVAILABLE,
    errors.TooManyBadTokens: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.ScopeChanged: grpc.StatusCode.UNAVAILABLE,
}


def code_of(error: errors.DiscoveryError) -> grpc.StatusCode:
    """The canonical code."""
    return _CODES[type(error)]


def status_of(error: errors.DiscoveryError) -> Status:
    """The whole status, with its details."""
    info = details_pb.ErrorInfo(reason=error.reason, domain=DOMAIN)
    if isinstance(error, LimitReached):
        info.metadata["limit"] = error.limit.value
    details: list[Message] = [info]
    if error.retry_after is not None:
        retry = details_pb.RetryInfo()
        retry.retry_delay.FromMilliseconds(math.ceil(error.retry_after * 1000))
        details.append(retry)
    if isinstance(error, errors.InvalidInput):
        bad = details_pb.BadRequest(
            field_violations=[
                details_pb.BadRequest.FieldViolation(field=name, description=message)
                for name, message in error.violations
            ]
        )
        details.append(bad)
        if error.untold:
            info.metadata["more_violations"] = str(error.untold)
    return _status(code_of(error), str(error), details)


def internal_status(request_id: str) -> Status:
    """What a caller is told of a fault of ours."""
    info = details_pb.ErrorInfo(
        reason="INTERNAL", domain=DOMAIN, metadata={"request_id": request_id}
    )
    return _status(grpc.StatusCode.INTERNAL, "internal error", [info])


def new_request_id() -> str:
    """Names one failed call in our log and towards its caller."""
    return secrets.token_hex(8)


async def abort(
    context: "grpc.aio.ServicerContext[bytes, bytes]", status: Status, instance_id: str
) -> NoReturn:
    """Ends the call with a status, its details, and the name of this instance.

    A client that does not read gets the status behind what is in flight to it
    already; we wait for that only so long, and keep nothing meanwhile. Ends as
    a cancelled call when the client is gone or still does not read.
    """
    code = next(code for code in grpc.StatusCode if code.value[0] == status.code)
    trailing = ((DETAILS, status.SerializeToString()), (INSTANCE, instance_id))
    ending = context.abort(code, status.message, trailing_metadata=trailing)
    try:
        await asyncio.wait_for(ending, ABORT_SECONDS)
    except (TimeoutError, grpc.aio.InternalError):
        raise asyncio.CancelledError from None


def _status(code: grpc.StatusCode, message: str, details: list[Message]) -> Status:
    packed = []
    for detail in details:
        any_message = AnyMessage()
        any_message.Pack(detail)
        packed.append(any_message)
    return Status(code=code.value[0], message=message, details=packed)
