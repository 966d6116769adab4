"""DER (X.690, 8.1), as far as the fields of certificates need it.

What is cut off raises IndexError, and what is something else ValueError.
"""

from collections.abc import Iterator
from typing import NamedTuple

INTEGER, BIT_STRING, OCTET_STRING, OBJECT_IDENTIFIER, SEQUENCE = 0x02, 0x03, 0x04, 0x06, 0x30
_LONG_FORM = 0x80


class Value(NamedTuple):
    """One value, and what follows it."""

    tag: int
    content: bytes
    rest: bytes


def first(data: bytes) -> Value:
    """The value at the beginning."""
    tag, length, begin = data[0], data[1], 2
    if length >= _LONG_FORM:
        begin += length - _LONG_FORM
        length = int.from_bytes(data[2:begin])
    end = begin + length
    if end > len(data):
        raise IndexError
    return Value(tag, data[begin:end], data[end:])


def values(data: bytes) -> Iterator[Value]:
    """All, one after the other."""
    while data:
        value = first(data)
        yield value
        data = value.rest


def expected(value: Value, tag: int) -> bytes:
    """The content of a value that must have this tag."""
    if value.tag != tag:
        raise ValueError(f"tag {value.tag} has no place here")
    return value.content


def inner(data: bytes) -> bytes:
    """The content of the sequence at the beginning."""
    return expected(first(data), SEQUENCE)
