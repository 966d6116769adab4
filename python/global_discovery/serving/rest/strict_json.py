"""JSON without its ambiguities (RFC 8259, I-JSON): one reading of a text, or an error.

Refused, besides what is no JSON: text that is not UTF-8, a duplicate name at any
depth, an escape that is no character (a lone surrogate), NaN and Infinity, and
nesting above 32. A number of any length is read without work that grows faster
than the text: one far out of any range stays far out of it.
"""

import json
from collections.abc import Iterable
from typing import Any

MAX_NESTING = 32
_SAFE_DIGITS = 24
"""More than any number here may have, and short enough for int() to be quick."""


class Malformed(ValueError):
    """Says in its text what is wrong; the text never repeats the input."""


def parse_object(body: bytes) -> dict[str, Any]:
    """The object that the whole body is. Raises Malformed."""
    try:
        value = _DECODER.decode(body.decode())
    except UnicodeDecodeError:
        raise Malformed("the body is not UTF-8") from None
    except json.JSONDecodeError:
        raise Malformed("the body is not JSON") from None
    except RecursionError:
        raise Malformed(_TOO_DEEP) from None
    if type(value) is not dict:
        raise Malformed("the body is not a JSON object")
    _check_inside(value)
    return value


_TOO_DEEP = f"the body is nested deeper than {MAX_NESTING} levels"


def _check_inside(value: dict[str, Any]) -> None:
    """Looks at the depth and at every text, level by level."""
    level: list[Any] = [value]
    for _ in range(MAX_NESTING):
        inner: list[Any] = []
        for container in level:
            inner.extend(container)
            if type(container) is dict:
                inner.extend(container.values())
        _check_texts(item for item in inner if type(item) is str)
        level = [item for item in inner if type(item) is dict or type(item) is list]
        if not level:
            return
    raise Malformed(_TOO_DEEP)


def _check_texts(texts: Iterable[str]) -> None:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise Malformed("the body has an escape that is no character") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Malformed("the body has a duplicate name in an object")
    return members


def _whole(digits: str) -> int:
    return int(digits[:_SAFE_DIGITS])


def _constant(name: str) -> None:
    del name
    raise Malformed("the body has a number that JSON does not have")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole, parse_constant=_constant, strict=True
)
