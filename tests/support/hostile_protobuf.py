"""Protobuf messages as no client would send them: values, bytes and structure."""

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

_Field = FieldDescriptor
_INTEGERS = {
    _Field.TYPE_INT32: (-(2**31), 2**31 - 1),
    _Field.TYPE_INT64: (-(2**63), 2**63 - 1),
    _Field.TYPE_UINT32: (0, 2**32 - 1),
    _Field.TYPE_UINT64: (0, 2**64 - 1),
    _Field.TYPE_ENUM: (-(2**31), 2**31 - 1),
}
ODD_TEXTS = [
    "",
    ".",
    "..",
    "/",
    "a/b",
    "%00",
    "\0",
    "\x7f",
    "\u202egnp.exe",
    "\ufeff",
    "e\u0301",
    "\u00e9",
    "\U0001f4a9",
    " a",
    "a\n",
    "ip:10.0.0.1",
    "ip:::ffff:10.0.0.1",
    "ip:fe80::1%eth0",
    "ip:",
    "http://a",
    "HTTP://A:80/",
    "http://[::1]:1/",
    "http://[[::1]]",
    "http://a:99999",
    "http://0x7f.1",
    "http://2852039166",
    "http://user:pw@h",
    "http://h/?q#f",
    "http://" + "a" * 300,
    "ftp://x",
    "c1",
    "ns",
    "pool-00000",
    "r1",
    "m",
    "relay",
]
SIZES = [1, 64, 65, 128, 129, 253, 254, 512, 513, 1024, 1025, 65_536]


def odd_text() -> st.SearchStrategy[str]:
    """Text at and beyond every limit, and what looks like something it is not."""
    long = st.builds(
        lambda letter, size: letter * size, st.sampled_from("aé\u202e "), st.sampled_from(SIZES)
    )
    return st.one_of(st.sampled_from(ODD_TEXTS), st.text(max_size=20), long)


def a_message(descriptor: Descriptor) -> st.SearchStrategy[Any]:
    """Any message of this type; every value has the right type and little else."""
    fields = {field.name: _values(field) for field in descriptor.fields}
    return st.fixed_dictionaries({}, optional=fields).map(
        lambda values: GetMessageClass(descriptor)(**values)
    )


def _values(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    one = _value(field)
    if not field.is_repeated:
        return one
    many = st.builds(_repeated, one, st.sampled_from([65, 257, 1025]))
    return st.one_of(st.lists(one, max_size=4), many)


def _repeated(value: Any, times: int) -> list[Any]:
    return [value] * (times if len(repr(value)) < 100 else 2)


def _value(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.type == _Field.TYPE_MESSAGE:
        return a_message(field.message_type)
    if field.type in {_Field.TYPE_STRING, _Field.TYPE_BYTES}:
        return odd_text()
    if field.type == _Field.TYPE_BOOL:
        return st.booleans()
    if field.type in {_Field.TYPE_DOUBLE, _Field.TYPE_FLOAT}:
        return st.floats(width=32)
    return st.integers(*_INTEGERS[field.type])


def varint(number: int, *, length: int = 0) -> bytes:
    """The encoding of a number, padded to `length` bytes if that is more than it needs."""
    out = bytearray()
    while number > 0x7F or len(out) < length - 1:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def wire_fields() -> st.SearchStrategy[bytes]:
    """Fields of any number and wire type, nested in each other, some with a lying length."""
    tag = st.builds(
        lambda number, kind, pad: varint(number << 3 | kind, length=pad),
        st.one_of(st.integers(0, 8), st.sampled_from([2047, 2**29 - 1, 2**32])),
        st.integers(0, 7),
        st.sampled_from([0, 0, 0, 5, 10, 11]),
    )
    number = st.builds(
        lambda value, pad: varint(value, length=pad),
        st.one_of(st.integers(0, 300), st.integers(0, 2**70)),
        st.sampled_from([0, 0, 10, 11, 200]),
    )
    payload = st.one_of(
        number,
        st.binary(max_size=16),
        st.binary(max_size=40).map(lambda data: varint(len(data)) + data),
        odd_text().map(lambda text: varint(len(text.encode())) + text.encode()),
    )
    field = st.builds(bytes.__add__, tag, payload)
    tree = st.recursive(
        field,
        lambda inner: st.builds(
            lambda outer, data: outer + varint(len(data)) + data,
            st.integers(1, 8).map(lambda n: varint(n << 3 | 2)),
            st.lists(inner, max_size=4).map(b"".join),
        ),
        max_leaves=12,
    )
    groups = st.builds(
        lambda n, depth: varint(n << 3 | 3) * depth,
        st.integers(1, 8),
        st.sampled_from([1, 99, 101, 50_000]),
    )
    nested = st.builds(_nested, st.integers(1, 3), st.sampled_from([10, 99, 101, 500]))
    return st.one_of(st.lists(tree, max_size=8).map(b"".join), groups, nested)


def _nested(number: int, depth: int) -> bytes:
    data = b""
    for _ in range(depth):
        data = varint(number << 3 | 2) + varint(len(data)) + data
    return data


def damaged(good: bytes) -> st.SearchStrategy[bytes]:
    """The bytes with a few things done to them."""
    return st.lists(_damage(len(good)), min_size=1, max_size=6).map(
        lambda deeds: _apply(good, deeds)
    )


def _damage(length: int) -> st.SearchStrategy[tuple[str, int, Any]]:
    place = st.integers(0, max(0, length))
    return st.one_of(
        st.tuples(st.just("flip"), place, st.integers(0, 7)),
        st.tuples(st.just("set"), place, st.sampled_from([0, 1, 0x7F, 0x80, 0xC0, 0xFE, 0xFF])),
        st.tuples(st.just("cut"), place, st.none()),
        st.tuples(st.just("drop"), place, st.integers(1, 8)),
        st.tuples(st.just("insert"), place, st.binary(min_size=1, max_size=12)),
        st.tuples(st.just("repeat"), place, st.integers(2, 40)),
        st.tuples(st.just("insert"), place, st.integers(0, 2**70).map(varint)),
    )


def _apply(good: bytes, deeds: list[tuple[str, int, Any]]) -> bytes:
    data = bytearray(good)
    for kind, wanted, what in deeds:
        place = min(wanted, len(data))
        if kind == "cut":
            del data[place:]
        elif kind == "drop":
            del data[place : place + what]
        elif kind == "insert":
            data[place:place] = what
        elif kind == "repeat":
            data[place:place] = bytes(data[place:]) * min(what, 200_000 // (len(data) + 1))
        elif place < len(data):
            data[place] = data[place] ^ (1 << what) if kind == "flip" else what
    return bytes(data)
