"""What stands around a message: names and values of metadata, deadlines, codings, bombs."""

import gzip
import itertools
import re
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from hypothesis import note
from hypothesis import strategies as st

from support.hostile import hostile
from support.hostile_http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    HELLO,
    call_fields,
    call_with,
    frame,
    header_block,
    message,
    talk,
)
from support.hostile_target import SERVICE, Target

Field = tuple[bytes, bytes]
CALLS = [(SERVICE + name).encode() for name in ("ListPools", "RegisterPool", "RenewPools")]
UNKNOWN = b"grpc-status\x012"
BOMB_ROOM = 64 * 1024 * 1024


def ask(target: Target, heads: Iterable[Iterable[Field]]) -> None:
    """A call with each of these heads, to its end; together, as gRPC answers some of them late.

    It may say INTERNAL of what it cannot parse itself; we may not.
    """

    def call(fields: Iterable[Field]) -> bytes:
        return talk(target.grpc_port, [call_with(fields)])

    with ThreadPoolExecutor(16) as threads:
        for came in threads.map(call, heads):
            assert UNKNOWN not in came


METADATA: dict[str, list[Field]] = {
    "latin-1": [(b"x", b"\xe9")],
    "no utf-8": [(b"authorization", b"Bearer \xff\xfe"), (b"x-forwarded-for", b"\xff")],
    "a name in capitals": [(b"Authorization", b"Bearer x")],
    "a name that is not ascii": [(b"\xff", b"a")],
    "an empty name": [(b"", b"a")],
    "nul": [(b"x", b"a\0b"), (b"x\0y", b"a")],
    "a line end": [(b"x", b"a\r\nauthorization: Bearer y")],
    "no base64": [(b"x-bin", b"!!!")],
    "base64 of half a byte": [(b"x-bin", b"A")],
    "much base64": [(b"x-bin", b",".join([b"AA=="] * 1000))],
    "traces": [(b"grpc-trace-bin", b"AA"), (b"traceparent", b"00-" + b"f" * 5000)],
    "tags": [(b"grpc-tags-bin", b"\0"), (b"grpc-previous-rpc-attempts", b"-1")],
    "a deadline of nothing": [(b"grpc-timeout", b"0n")],
    "a deadline without end": [(b"grpc-timeout", b"99999999999H")],
    "a deadline before now": [(b"grpc-timeout", b"-1S")],
    "a deadline without unit": [(b"grpc-timeout", b"1")],
    "no deadline": [(b"grpc-timeout", b"\xd9\xa3S"), (b"grpc-timeout", b"1S")],
    "an unknown coding": [(b"grpc-encoding", b"snappy")],
    "two codings": [(b"grpc-encoding", b"gzip"), (b"grpc-encoding", b"deflate")],
    "codings that are taken": [(b"grpc-accept-encoding", b",".join([b"gzip"] * 1000))],
    "nobody's agent": [(b"user-agent", b"\xff" * 100)],
    "a length that lies": [(b"content-length", b"1")],
    "another host": [(b"host", b"b"), (b":authority", b"c")],
    "many": [(b"x-%d" % number, b"y") for number in range(200)],
    "tokens": [(b"authorization", b"Bearer %d" % number) for number in range(200)],
    "a long token": [(b"authorization", b"Bearer " + b"x" * 7000)],
    "too long": [(b"authorization", b"Bearer " + b"x" * 20_000)],
    "a thousand proxies": [(b"x-forwarded-for", b", ".join([b"::1"] * 1000))],
}


def test_odd_metadata_is_no_fault(target: Target) -> None:
    odd = itertools.product(CALLS, METADATA.values())
    ask(target, [call_fields(path, *fields) for path, fields in odd])


HEADS: dict[str, dict[bytes, bytes]] = {
    "json": {b"content-type": b"application/json"},
    "grpc+json": {b"content-type": b"application/grpc+json"},
    "grpc-web": {b"content-type": b"application/grpc-web-text"},
    "grpc and more": {b"content-type": b"application/grpcx"},
    "no content type": {b"content-type": b""},
    "GET": {b":method": b"GET"},
    "CONNECT": {b":method": b"CONNECT"},
    "another scheme": {b":scheme": b"file"},
    "no trailers": {b"te": b"gzip"},
    "a path with a query": {b":path": CALLS[0] + b"?a=b"},
    "a path with a dot": {b":path": b"/./" + CALLS[0]},
    "an odd authority": {b":authority": b"\xff"},
}


def test_an_odd_head_is_no_fault(target: Target) -> None:
    usual = dict(call_fields(CALLS[0]))
    ask(target, [(usual | odd).items() for odd in HEADS.values()])
    ask(target, [[each for each in usual.items() if each[0] != name] for name in usual])


CODED = {
    "a gzip bomb": (b"gzip", gzip.compress(b"\0" * 30_000_000)),
    "a deflate bomb": (b"deflate", zlib.compress(b"\0" * 30_000_000)),
    "many gzip members": (b"gzip", gzip.compress(b"") * 2000),
    "half of a gzip": (b"gzip", gzip.compress(b"\0" * 1000)[:-12]),
    "a gzip with a wrong sum": (b"gzip", gzip.compress(b"\0" * 10)[:-8] + b"\0" * 8),
    "no gzip": (b"gzip", b"\x1f\x8b\x08" + b"\xff" * 100),
    "nothing": (b"gzip", b""),
    "gzip that is called deflate": (b"deflate", gzip.compress(b"")),
    "compressed without a coding": (b"identity", gzip.compress(b"")),
}


def test_an_odd_compressed_message_is_refused(target: Target) -> None:
    """With INTERNAL, where gRPC's rules have it so: it never reaches a method of ours."""
    for coding, data in CODED.values():
        block = header_block(call_fields(CALLS[0], (b"grpc-encoding", coding)))
        head = HELLO + frame(HEADERS, block, flags=END_HEADERS, stream=1)
        body = message(data, compressed=1)
        pieces = [body[at : at + 16_384] for at in range(0, len(body), 16_384)]
        frames = [frame(DATA, piece, stream=1) for piece in pieces]
        talk(target.grpc_port, [head, *frames, frame(DATA, flags=END_STREAM, stream=1)])
        target.pools()


@pytest.mark.parametrize("coding", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_bomb_is_refused_before_it_has_grown(target: Target, coding: grpc.Compression) -> None:
    """A quarter of a gibibyte in a quarter of a mebibyte."""
    before = peak_memory(target)
    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(
        f"127.0.0.1:{target.grpc_port}", options=options, compression=coding
    ) as channel:
        call = channel.unary_unary(CALLS[0].decode())
        call(b"", timeout=60)
        with pytest.raises(grpc.RpcError) as refused:
            call(b"\0" * (256 * 1024 * 1024), timeout=60)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert peak_memory(target) < before + BOMB_ROOM


def peak_memory(target: Target) -> int:
    """The most that the process ever had."""
    status = Path(f"/proc/{target.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


@hostile(
    examples=6,
    path=st.sampled_from(CALLS),
    several=st.lists(
        st.lists(
            st.tuples(
                st.one_of(
                    st.sampled_from(
                        [b"x", b"x-bin", b"grpc-timeout", b"authorization", b"x-forwarded-for"]
                    ),
                    st.binary(max_size=8),
                ),
                st.one_of(st.binary(max_size=40), st.from_regex(rb"[0-9]{0,9}[HMSmun]")),
            ),
            max_size=6,
        ),
        max_size=16,
    ),
)
def test_any_metadata_is_no_fault(target: Target, path: bytes, several: list[list[Field]]) -> None:
    note(repr(several))
    ask(target, [call_fields(path, *fields) for fields in several])
