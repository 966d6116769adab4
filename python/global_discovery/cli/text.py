"""Words for people: everything that a server says, made safe for a terminal.

What a server tells comes from whoever registered.
"""

from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from global_discovery.client.fold import is_exact
from global_discovery.domain.printable import printable as safe
from global_discovery.v1 import pool_pb2

__all__ = [
    "count",
    "mark_sentence",
    "number",
    "reason_codes",
    "rfc3339",
    "safe",
    "seconds_text",
]
_REASON_PREFIX = "ESTIMATED_REASON_"


def reason_codes(mark: pool_pb2.Mark) -> list[str]:
    """Why a view is estimated; a reason that this release does not know is named by number."""
    return [_reason_code(reason) for reason in mark.reasons]


def _reason_code(reason: int) -> str:
    value = pool_pb2.EstimatedReason.DESCRIPTOR.values_by_number.get(reason)
    return value.name.removeprefix(_REASON_PREFIX) if value else f"UNKNOWN_{reason}"


def mark_sentence(mark: pool_pb2.Mark | None, *, with_bound: bool) -> str:
    """How far a view can be trusted, in one line."""
    if mark is None:
        return "not known yet"
    bound = f" (bound {number(mark.bound_secs)} s{_slices(mark)})" if with_bound else ""
    if is_exact(mark):
        return f"EXACT{bound}"
    reasons = ", ".join(reason_codes(mark)) or "no reason given"
    return f"ESTIMATED: {reasons}{bound}; some may be missing"


def _slices(mark: pool_pb2.Mark) -> str:
    if not mark.HasField("slices_bound_secs"):
        return ""
    return f", slices {number(mark.slices_bound_secs)} s"


def number(value: float) -> int | float:
    """A whole number without a fraction."""
    return int(value) if value.is_integer() else value


def seconds_text(seconds: float) -> str:
    """How long, to the second."""
    return f"{max(0, round(seconds))} s"


def rfc3339(timestamp: Timestamp) -> str:
    """In UTC with milliseconds; a time that no calendar has is shown as seconds."""
    try:
        moment = datetime.fromtimestamp(timestamp.seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp.seconds}"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp.nanos // 1_000_000:03d}Z"


def count(number_of: int, noun: str) -> str:
    """`1 pool`, `2 pools`."""
    return f"{number_of} {noun}" if number_of == 1 else f"{number_of} {noun}s"
