"""The gRPC port, spoken to in HTTP/2 that no client would speak: the others are served on."""

import itertools
import socket
import time
from collections.abc import Iterable

import pytest
from hypothesis import note
from hypothesis import strategies as st

from support.hostile import hostile
from support.hostile_http2 import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    HELLO,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH,
    RST_STREAM,
    SETTINGS,
    WINDOW,
    a_call,
    call_fields,
    frame,
    header_block,
    message,
    reset,
    send,
    settings,
)
from support.hostile_target import SERVICE, Target

REGISTER = (SERVICE + "RegisterPool").encode()
WATCH = (SERVICE + "WatchPools").encode()
LIST = (SERVICE + "ListPools").encode()
BLOCK = header_block(call_fields(LIST))


def rapid_resets(count: int) -> Iterable[bytes]:
    """CVE-2023-44487: calls that are reset as soon as they are made."""
    yield HELLO
    for stream in range(1, 2 * count, 2):
        yield a_call(stream, WATCH, flags=0) + reset(stream)


def endless_headers(count: int) -> Iterable[bytes]:
    """CVE-2024-27316 and its like: a header block that never ends."""
    yield HELLO + frame(HEADERS, BLOCK, stream=1)
    block = header_block([(b"x-%d" % number, b"y" * 1000) for number in range(10)])
    yield from (frame(CONTINUATION, block, stream=1) for _ in range(count))


def nothing_fits(count: int) -> Iterable[bytes]:
    """A window of nothing: answers pile up at the server, or not."""
    yield PREFACE + settings((4, 0))
    yield from (a_call(stream, LIST) for stream in range(1, 2 * count, 2))


FLOODS = {
    "rapid resets": rapid_resets(2000),
    "a header block without an end": endless_headers(500),
    "empty continuations": [
        HELLO + frame(HEADERS, BLOCK, stream=1),
        frame(CONTINUATION, stream=1) * 20_000,
    ],
    "settings": [PREFACE, settings((3, 100)) * 20_000],
    "settings of every number": [PREFACE + settings(*((n, 2**32 - 1) for n in range(2000)))],
    "pings": [HELLO, frame(PING, b"12345678") * 20_000],
    "empty data": [HELLO + a_call(1, LIST, flags=0), frame(DATA, stream=1) * 20_000],
    "priorities": [HELLO, frame(PRIORITY, b"\0\0\0\x01\xff", stream=3) * 20_000],
    "window updates": [HELLO, frame(WINDOW, b"\x7f\xff\xff\xff") * 5],
    "a window of nothing": nothing_fits(200),
    "padding only": [
        HELLO + a_call(1, LIST, flags=0),
        frame(DATA, b"\xff" + b"\0" * 255, flags=PADDED, stream=1) * 5000,
    ],
    "streams without an end": [
        HELLO,
        *(frame(HEADERS, BLOCK, flags=END_HEADERS, stream=n) for n in range(1, 2001, 2)),
    ],
    "goaways": [HELLO, frame(GOAWAY, b"\0" * 8 + b"x" * 1000) * 2000],
    "resets of what never was": [HELLO, frame(RST_STREAM, b"\0" * 4, stream=999) * 2000],
    "a table of four gibibytes": [PREFACE + settings((1, 2**32 - 1)) + a_call(1, LIST)],
    "a table that is resized again and again": [
        HELLO + frame(HEADERS, b"\x3f\xe1\x1f" * 1000, flags=END_HEADERS, stream=1)
    ],
    "a message of four gibibytes": [
        HELLO + frame(HEADERS, BLOCK, flags=END_HEADERS, stream=1),
        frame(DATA, message(b"x", length=2**32 - 1), stream=1),
    ],
    "a compressed message that is none": [
        HELLO + frame(HEADERS, BLOCK, flags=END_HEADERS, stream=1),
        frame(DATA, message(b"x", compressed=1), flags=END_STREAM, stream=1),
    ],
    "a frame of sixteen mebibytes": [HELLO + b"\xff\xff\xff\0\0\0\0\0\x01", b"x" * 100_000],
    "http/1.1": [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"],
    "a tls hello": [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500],
}


@pytest.mark.parametrize("what", FLOODS)
def test_a_flood_is_survived(target: Target, what: str) -> None:
    for _ in range(3):
        send(target.grpc_port, list(FLOODS[what]))
        target.pools()


def test_a_caller_who_goes_while_it_is_answered_is_no_fault(target: Target) -> None:
    calls = b"".join(nothing_fits(200))
    for milliseconds in range(0, 60, 2):
        with socket.create_connection(("127.0.0.1", target.grpc_port)) as connection:
            connection.sendall(calls)
            time.sleep(milliseconds / 1000)  # some answers are being sent, whenever that is
    target.pools()


def frames() -> st.SearchStrategy[bytes]:
    """Frames of every kind in any order, many of them in no state that takes them."""
    kinds = st.sampled_from(
        [
            DATA,
            HEADERS,
            PRIORITY,
            RST_STREAM,
            SETTINGS,
            PUSH,
            PING,
            GOAWAY,
            WINDOW,
            CONTINUATION,
            77,
        ]
    )
    blocks = st.sampled_from(
        [
            BLOCK,
            BLOCK[:20],
            b"\x82\x86\x84",
            b"\xff" * 20,
            b"\x7f\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
            header_block(call_fields(LIST, (b"grpc-timeout", b"99999999999H"))),
            header_block(call_fields(LIST, (b"grpc-encoding", b"gzip"))),
            header_block(call_fields(LIST, (b"x-bin", b"!!!"))),
            header_block(call_fields(LIST, (b":path", b"/again"))),
            header_block(call_fields(LIST, (b"Upper", b"case"))),
            header_block(call_fields(LIST, (b"connection", b"close"))),
            header_block(call_fields(b"\xff\0")),
            header_block(call_fields(b"")),
            header_block([(b":method", b"GET")]),
        ]
    )
    payloads = st.one_of(
        st.binary(max_size=40), blocks, st.sampled_from([message(b""), message(b"\xff" * 9)])
    )
    numbers = st.one_of(st.integers(0, 9), st.just(2**31 - 1), st.just(2**31 + 1))
    one = st.builds(
        lambda kind, payload, flags, stream: frame(kind, payload, flags=flags, stream=stream),
        kinds,
        payloads,
        st.sampled_from([0, ACK, END_HEADERS, END_STREAM | END_HEADERS, PADDED, 0xFF]),
        numbers,
    )
    usual = st.sampled_from(
        [a_call(1, LIST), a_call(3, WATCH), a_call(5, REGISTER, flags=0), settings()]
    )
    return st.lists(st.one_of(one, usual), max_size=12).map(b"".join)


@hostile(
    examples=150,
    hello=st.sampled_from([HELLO] * 8 + [PREFACE, b"", PREFACE[:-1] + b"x", PREFACE * 2]),
    data=frames(),
    cut=st.one_of(st.just(0), st.integers(1, 200)),
)
def test_any_frames_leave_the_others_served(
    target: Target, hello: bytes, data: bytes, cut: int
) -> None:
    whole = hello + data
    note(whole.hex())
    send(target.grpc_port, [whole[: len(whole) - cut]])
    target.pools()


@hostile(examples=40, noise=st.binary(max_size=200), times=st.sampled_from([1, 1, 300]))
def test_noise_leaves_the_others_served(target: Target, noise: bytes, times: int) -> None:
    note(noise.hex())
    for hello in (b"", PREFACE, HELLO):
        send(target.grpc_port, itertools.repeat(hello + noise, times))
    target.pools()
