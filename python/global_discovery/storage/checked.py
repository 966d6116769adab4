"""What a store gave back, looked at before it is believed.

A table or a file may have been written by another release, by hand or by a failing
disk. A value of a wrong kind in one share must not reach the lists, where it would
fail for everybody. Everything here raises ValueError for what is none.
"""

import math
from typing import Any

from global_discovery.domain.pool import PoolKey

LONGEST_LEASE_SECONDS = 86_400
LATEST_TIME = 253_402_300_799.0
"""The end of the year 9999, up to which protobuf and RFC 3339 reach."""
MAX_NUMBER = 2**53
"""Of contents; it grows by one with each change."""
MAX_GPU_COUNT = 2**31 - 1


def text(value: Any) -> str:
    """A text that can be written in UTF-8."""
    if not isinstance(value, str):
        raise ValueError("no text")  # noqa: TRY004 - every garbage is one error
    value.encode()  # UnicodeEncodeError is a ValueError
    return value


def texts(value: Any) -> tuple[str, ...]:
    """A list of them."""
    if not isinstance(value, list | tuple):
        raise ValueError("no list")  # noqa: TRY004 - as above
    return tuple(map(text, value))


def key(value: Any) -> PoolKey:
    """The three parts of a pool's key, none of them empty."""
    parts = texts(value)
    if len(parts) != len(PoolKey._fields) or not all(parts):
        raise ValueError("no key of a pool")
    return PoolKey(*parts)


def whole(value: Any, *, most: int = MAX_NUMBER) -> int:
    """A whole number from 0 on."""
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError("no whole number")
    return value


def lease_seconds(value: float) -> float:
    """How long a lease can have been granted."""
    if not 0 < value <= LONGEST_LEASE_SECONDS:
        raise ValueError(f"a lease of {value:g} s")
    return value


def wall_time(value: float) -> float:
    """A time for people; one that no calendar has is as good as none."""
    return value if math.isfinite(value) and 0 <= value <= LATEST_TIME else 0.0
