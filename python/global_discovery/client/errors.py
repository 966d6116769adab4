"""What a call can fail with, as one error with everything the server said."""

import contextlib
from collections.abc import Awaitable, Iterable, Iterator
from typing import NamedTuple, TypeVar

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2 as details_pb
from google.rpc.status_pb2 import Status

T = TypeVar("T")

INSTANCE = "x-global-discovery-instance"
"""The header, and the trailing metadata, in which an instance names itself: its `ServerInfo` id."""
MAX_INSTANCE_CHARACTERS = 256
MAX_TOLD_CHARACTERS = 2_000
"""Of a sentence: libraries quote what a server sent, and that is told again and again."""
_DETAILS = "grpc-status-details-bin"
_WORDS = {
    grpc.StatusCode.UNAVAILABLE: "is unavailable",
    grpc.StatusCode.DEADLINE_EXCEEDED: "did not answer in time",
    grpc.StatusCode.INVALID_ARGUMENT: "refused the call",
    grpc.StatusCode.FAILED_PRECONDITION: "refused the call",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "refused the call",
    grpc.StatusCode.PERMISSION_DENIED: "refused the call",
    grpc.StatusCode.UNAUTHENTICATED: "refused the call",
    grpc.StatusCode.UNIMPLEMENTED: "does not know this call",
}


class FieldViolation(NamedTuple):
    """One broken rule: where, and what is wrong there."""

    field: str
    message: str


class ErrorDetails(NamedTuple):
    """What an answer says beside its code and message; empty when it has none of ours."""

    reason: str = ""
    """The fixed reason of the protocol."""
    violations: tuple[FieldViolation, ...] = ()
    more_violations: int = 0
    """How many violations the server did not name."""
    instance: str = ""
    """The instance that answered, when it named itself."""
    retry_after: float = 0.0
    """For how many seconds it asked not to be called; 0 when it did not."""


class CallFailed(Exception):
    """A call had no good answer. `str` is a sentence that names the server and the fields.

    The text comes from the server and from the network: escape it before it
    reaches a terminal. What led to the error is its `__cause__`; `causes` walks
    the whole chain.
    """

    def __init__(
        self,
        server: str,
        code: grpc.StatusCode,
        message: str,
        details: ErrorDetails | None = None,
    ) -> None:
        """`message` is used for the sentence when `details` name no fields."""
        self.server = server
        self.code = code
        self.message = message[:MAX_TOLD_CHARACTERS]
        self.details = details or ErrorDetails()
        words = _WORDS.get(code, f"failed with {code.name}")
        super().__init__(f"{server} {words}: {self._what()}")

    def _what(self) -> str:
        violations, more = self.details.violations, self.details.more_violations
        if not violations:
            return self.message or "no details were given"
        told = "; ".join(f"{field}: {message}" for field, message in violations)
        return f"{told}; and {more} more" if more else told

    @classmethod
    def of(cls, server: str, error: grpc.aio.AioRpcError) -> "CallFailed":
        """From what gRPC raised; raise it `from` that."""
        return cls(server, error.code(), error.details() or "", _details(error))


async def answer(server: str, call: Awaitable[T]) -> T:
    """What a call to `server` answers. Raises CallFailed, whatever went wrong with it."""
    try:
        return await call
    except CallFailed:
        raise
    except grpc.aio.AioRpcError as error:
        raise CallFailed.of(server, error) from error
    except Exception as error:
        raise CallFailed(server, grpc.StatusCode.UNKNOWN, str(error)) from error


def instance_name(told: str | bytes) -> str:
    """What can be the name of an instance; whatever else stands there names none."""
    good = isinstance(told, str) and told.isascii() and len(told) <= MAX_INSTANCE_CHARACTERS
    return str(told) if good else ""


def instance_in(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """The instance that trailing metadata name; empty when they name none."""
    return next((instance_name(value) for name, value in metadata or () if name == INSTANCE), "")


def causes(error: BaseException) -> Iterator[str]:
    """The error and everything that led to it, outermost first, one sentence each."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield _sentence(cause)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _sentence(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        code, what = error.code().name, error.debug_error_string() or error.details() or ""
        # gRPC's own words begin with the code in some of its releases, and not in others.
        told = f"{code}: {what.removeprefix(f'{code}:').lstrip()}"
    else:
        told = str(error) or type(error).__name__
    return told[:MAX_TOLD_CHARACTERS]


def _details(error: grpc.aio.AioRpcError) -> ErrorDetails:
    """The google.rpc details, as far as they can be read."""
    info, bad, retry = details_pb.ErrorInfo(), details_pb.BadRequest(), details_pb.RetryInfo()
    for name, value in error.trailing_metadata() or ():
        if name != _DETAILS or not isinstance(value, bytes):
            continue
        with contextlib.suppress(DecodeError):
            for detail in Status.FromString(value).details:
                detail.Unpack(info)
                detail.Unpack(bad)
                detail.Unpack(retry)
    more = info.metadata.get("more_violations", "")
    return ErrorDetails(
        reason=info.reason,
        violations=tuple(
            FieldViolation(violation.field, violation.description)
            for violation in bad.field_violations
        ),
        more_violations=int(more) if more.isascii() and more.isdecimal() else 0,
        instance=instance_in(error.trailing_metadata()),
        retry_after=max(0.0, retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9),
    )
