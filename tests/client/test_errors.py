"""What a failed call tells."""

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2 as details_pb
from google.rpc.status_pb2 import Status

from global_discovery.client import CallFailed
from global_discovery.client.errors import FieldViolation, causes

INVALID = grpc.StatusCode.INVALID_ARGUMENT


def an_error(details: bytes) -> grpc.aio.AioRpcError:
    trailing = grpc.aio.Metadata(("grpc-status-details-bin", details))
    return grpc.aio.AioRpcError(INVALID, grpc.aio.Metadata(), trailing, details="the text")


def a_status() -> bytes:
    info = details_pb.ErrorInfo(
        reason="INVALID_ARGUMENT", domain="global-discovery", metadata={"more_violations": "5"}
    )
    bad = details_pb.BadRequest()
    bad.field_violations.add(field="model", description="is required")
    retry = details_pb.RetryInfo()
    retry.retry_delay.FromMilliseconds(2500)
    status = Status(code=3, message="the text")
    for detail in (info, bad, retry):
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    return bytes(status.SerializeToString())


def test_the_sentence_names_the_fields_and_counts_the_rest() -> None:
    error = CallFailed.of("host:1", an_error(a_status()))
    assert str(error) == "host:1 refused the call: model: is required; and 5 more"
    assert error.details.violations == (FieldViolation("model", "is required"),)
    assert (error.details.reason, error.details.more_violations) == ("INVALID_ARGUMENT", 5)
    assert error.details.retry_after == 2.5


@pytest.mark.parametrize("details", [b"", b"\xff\xff", b"\x1a\x02\x12\xff"])
def test_details_that_cannot_be_read_leave_the_text(details: bytes) -> None:
    assert str(CallFailed.of("host:1", an_error(details))) == "host:1 refused the call: the text"


def test_an_error_without_trailing_metadata_is_told_too() -> None:
    bare = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), None)
    assert str(CallFailed.of("host:1", bare)) == "host:1 is unavailable: no details were given"


def test_causes_are_told_to_the_last_one_and_never_in_a_circle() -> None:
    first, second, third = ValueError("one"), KeyError(), RuntimeError("three")
    first.__cause__, second.__context__, third.__cause__ = second, third, first
    assert list(causes(first)) == ["one", "KeyError", "three"]


@pytest.mark.parametrize("words", ["not here", "INVALID_ARGUMENT:not here"])
def test_a_cause_of_grpc_names_its_code_once_whether_or_not_its_words_begin_with_it(
    words: str,
) -> None:
    metadata = grpc.aio.Metadata()
    error = grpc.aio.AioRpcError(INVALID, metadata, metadata, debug_error_string=words)
    assert list(causes(error)) == ["INVALID_ARGUMENT: not here"]


def test_a_suppressed_context_is_no_cause() -> None:
    error = ValueError("one")
    error.__context__, error.__suppress_context__ = ValueError("hidden"), True
    assert list(causes(error)) == ["one"]
