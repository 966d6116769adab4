"""No bytes on an HTTP connection lead to a fault, a hang or a second reading of a request."""

import contextlib
import socket

from hypothesis import note
from hypothesis import strategies as st

from support.hostile import hostile
from support.hostile_http import (
    GOOD_BODY,
    NoHttp,
    Request,
    answers,
    exchange,
    judge,
    requests,
)
from support.hostile_target import Target

POST = b"POST /pools HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
LIVE = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


def attack(target: Target, *pieces: bytes, methods: tuple[str, ...] = ()) -> None:
    """Every answer is one of the contract's."""
    note(b"".join(pieces)[:4096].hex())
    came = exchange(target.port, *pieces)
    # Where bytes that are no request follow, the last that is answered may be those.
    for known in range(len(methods), 0, -1):
        with contextlib.suppress(NoHttp):
            found = answers(came, methods=methods[:known])
            break
    else:
        found = answers(came)
    for answer in found:
        judge(answer)


@hostile(examples=150, request=requests())
def test_any_request_gets_an_answer_of_the_contract(target: Target, request: Request) -> None:
    attack(target, request.sent, methods=(request.method.decode("latin-1"),))
    [alive] = answers(exchange(target.port, LIVE))
    assert alive.status == 200


@hostile(examples=60, first=requests(), second=requests(), split=st.integers(1, 400))
def test_what_follows_a_request_is_not_taken_for_a_part_of_it(
    target: Target, first: Request, second: Request, split: int
) -> None:
    """In any pieces."""
    data = first.sent + second.sent + LIVE
    names = tuple(each.method.decode("latin-1") for each in (first, second))
    attack(target, data[:split], data[split:], methods=(*names, "GET"))


@hostile(
    examples=60,
    noise=st.binary(min_size=1, max_size=400),
    times=st.sampled_from([1, 1, 1, 50, 2000]),
)
def test_noise_is_refused(target: Target, noise: bytes, times: int) -> None:
    attack(target, noise * times)


SMUGGLED = b"DELETE /pools/good/ns/pool-0?all=true HTTP/1.1\r\nHost: a\r\n\r\n"


@hostile(
    examples=40,
    framing=st.sampled_from(
        [
            (b"Content-Length: %d" % len(SMUGGLED), b"Transfer-Encoding: chunked"),
            (b"Transfer-Encoding: chunked", b"Content-Length: 4"),
            (b"Content-Length: %d" % len(SMUGGLED), b"Content-Length: 0"),
            (b"Content-Length: 0", b"Content-Length: %d" % len(SMUGGLED)),
            (b"Content-Length: %d, 0" % len(SMUGGLED),),
            (b"Transfer-Encoding: xchunked",),
            (b"Transfer-Encoding: chunked\r\n\t, identity",),
            (b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"),
            (b"Transfer-Encoding\x0b: chunked",),
            (b"X: y\nTransfer-Encoding: chunked",),
            (b"Content-Length : %d" % len(SMUGGLED),),
        ]
    ),
    method=st.sampled_from([b"GET", b"POST"]),
    lead=st.sampled_from([b"", b"0\r\n\r\n", b"0\n\n", b"5;\nxx\r\nhello\r\n0\r\n\r\n"]),
)
def test_two_readings_of_where_a_body_ends_are_refused_and_nothing_behind_is_done(
    target: Target, framing: tuple[bytes, ...], method: bytes, lead: bytes
) -> None:
    """What a proxy passes on as a body must never be a request of its own here."""
    head = method + b" /pools HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    data = head + b"\r\n".join(framing) + b"\r\n\r\n" + lead + SMUGGLED
    note(data.hex())
    came = answers(exchange(target.port, data))
    assert [answer.status for answer in came] == [400]
    assert came[0].is_last


@hostile(examples=4, count=st.integers(900, 1100), last=st.sampled_from([b"", LIVE]))
def test_a_thousand_pipelined_requests_are_each_answered(
    target: Target, count: int, last: bytes
) -> None:
    """Read only when all are sent."""
    one = POST + b"Content-Length: %d\r\n\r\n" % len(GOOD_BODY) + GOOD_BODY
    came = answers(exchange(target.port, one * count, last))
    assert [answer.status for answer in came] == [200] * (count + bool(last))


@hostile(examples=3, size=st.sampled_from([20_000, 60_000]))
def test_pipelining_without_reading_costs_no_memory(target: Target, size: int) -> None:
    """Requests come faster than answers are read: the server stops reading, too."""
    one = b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n"
    with socket.create_connection(("127.0.0.1", target.port)) as connection:
        connection.settimeout(0.5)
        sent = 0
        try:
            while sent < size * 200:
                sent += connection.send(one * 500)
        except TimeoutError:
            pass
        target.check_growth()


@hostile(
    examples=10,
    beginnings=st.lists(
        st.sampled_from(
            [
                b"G",
                b"GET /pools HTTP/1.1\r\n",
                b"GET /pools HTTP/1.1\r\nHost: a\r\nX",
                POST + b"Content-Length: 1000\r\n\r\n{",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 9,
                b"",
            ]
        ),
        min_size=20,
        max_size=60,
    ),
)
def test_many_that_begin_and_never_go_on_hold_up_nobody(
    target: Target, beginnings: list[bytes]
) -> None:
    sockets = [socket.create_connection(("127.0.0.1", target.port)) for _ in beginnings]
    try:
        for connection, data in zip(sockets, beginnings, strict=True):
            connection.sendall(data)
        assert target.get("/livez")[0] == 200
    finally:
        for connection in sockets:
            connection.close()
