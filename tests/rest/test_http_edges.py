"""Every oddity of HTTP has one answer: media types, sizes, methods, paths, broken framing."""

import asyncio
import json
import logging
import random

import pytest
import structlog

from global_discovery.serving.rest.connection import Limits
from support.rest import RestUnderTest, a_body, a_rest_face, parse_replies

BODY = json.dumps(a_body()).encode()
JSON_POST = b"POST /pools HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
CLOSE = b"Host: a\r\nConnection: close\r\n"


# -- media types (57) ---------------------------------------------------------


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "APPLICATION/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
        "application/json ; Charset=UTF-8",
        "application/json; profile=x",
    ],
)
async def test_json_in_utf8_is_taken_however_it_is_spelled(
    rest: RestUnderTest, content_type: str
) -> None:
    assert (await rest.post(BODY, content_type=content_type)).status == 200


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
        "application/problem+json",
        "application/json; charset=iso-8859-1",
        "application/json; charset=utf-16",
        "application/json; charset",
        "",
        ";",
    ],
)
async def test_another_media_type_is_refused(rest: RestUnderTest, content_type: str) -> None:
    reply = await rest.post(BODY, content_type=content_type)
    assert reply.status == 415
    assert reply.headers["content-type"] == "application/problem+json"
    assert await rest.listed() == []


async def test_a_body_without_a_content_type_is_refused(rest: RestUnderTest) -> None:
    reply = await rest.call("POST", "/pools", data=BODY)
    assert reply.status == 415


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "identity, gzip", "x"])
async def test_a_content_encoding_is_refused_before_anything_is_decoded(
    rest: RestUnderTest, coding: str
) -> None:
    reply = await rest.post(BODY, content_encoding=coding)
    assert (reply.status, reply.json["code"]) == (415, "UNSUPPORTED_CONTENT_ENCODING")


async def test_the_identity_coding_is_no_coding(rest: RestUnderTest) -> None:
    assert (await rest.post(BODY, content_encoding="Identity")).status == 200


# -- sizes (58) ---------------------------------------------------------------


async def test_a_body_too_large_by_its_length_is_refused_before_it_is_sent(
    rest: RestUnderTest,
) -> None:
    [reply] = await rest.send(JSON_POST + b"Content-Length: 1048577\r\n\r\n")
    assert reply.status == 413
    assert reply.headers["connection"] == "close"


async def test_a_caller_that_asks_first_is_told_before_it_sends_a_large_body(
    rest: RestUnderTest,
) -> None:
    head = JSON_POST + b"Content-Length: 2000000\r\nExpect: 100-continue\r\n\r\n"
    replies = await rest.send(head)
    assert [reply.status for reply in replies] == [413]


async def test_a_caller_that_asks_first_is_told_to_go_on(rest: RestUnderTest) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", rest.face.port)
    length = b"Content-Length: %d\r\n" % len(BODY)
    writer.write(JSON_POST + length + b"Expect: 100-continue\r\nConnection: close\r\n\r\n")
    async with asyncio.timeout(20):
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(BODY)
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    writer.close()


async def test_a_body_of_exactly_the_limit_is_read(rest: RestUnderTest) -> None:
    for excess, status in ((0, 200), (1, 413)):
        size = 1024 * 1024 + excess
        length = b"Connection: close\r\nContent-Length: %d\r\n\r\n" % size
        [reply] = await rest.send(JSON_POST + length + BODY.ljust(size))
        assert reply.status == status


async def test_an_endless_chunked_body_is_answered_and_cut() -> None:
    async with a_rest_face(limits=Limits(linger_seconds=0.2)) as rest:
        reader, writer = await asyncio.open_connection("127.0.0.1", rest.face.port)
        writer.write(JSON_POST + b"Transfer-Encoding: chunked\r\n\r\n")

        async def send_for_ever() -> None:
            while True:
                writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
                await writer.drain()

        sending = asyncio.create_task(send_for_ever())
        async with asyncio.timeout(20):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 413 ")
            with pytest.raises(ConnectionError):
                await sending
        writer.close()


async def test_a_chunked_body_within_the_limit_is_taken(rest: RestUnderTest) -> None:
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"
    request = JSON_POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
    [reply] = await rest.send(request)
    assert reply.status == 200


# -- methods (60) -------------------------------------------------------------

ALLOW = {
    "/pools": "GET, HEAD, POST, OPTIONS",
    "/pools/a/b/c": "DELETE, OPTIONS",
    "/routers": "GET, HEAD, OPTIONS",
    "/healthz": "GET, HEAD, OPTIONS",
    "/readyz": "GET, HEAD, OPTIONS",
    "/livez": "GET, HEAD, OPTIONS",
    "/metrics": "GET, HEAD, OPTIONS",
    "/openapi.json": "GET, HEAD, OPTIONS",
}
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"]


@pytest.mark.parametrize("path", ALLOW)
async def test_a_method_that_a_path_does_not_take_is_told_what_it_takes(
    rest: RestUnderTest, path: str
) -> None:
    for method in METHODS:
        reply = await rest.call(method, path)
        if method == "OPTIONS":
            assert (reply.status, reply.headers["allow"]) == (204, ALLOW[path])
            assert reply.body == b""
        elif method in ALLOW[path].split(", "):
            assert reply.status != 405
        else:
            assert (reply.status, reply.headers["allow"]) == (405, ALLOW[path])
            assert reply.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", [path for path in ALLOW if "HEAD" in ALLOW[path]])
async def test_head_is_get_without_its_body(rest: RestUnderTest, path: str) -> None:
    get, head = await rest.call("GET", path), await rest.call("HEAD", path)
    assert head.body == b""
    assert head.status == get.status
    changing = {"date"} | ({"content-length"} if path == "/metrics" else set())
    assert {k: v for k, v in head.headers.items() if k not in changing} == {
        k: v for k, v in get.headers.items() if k not in changing
    }


async def test_options_of_the_whole_server_names_every_method(rest: RestUnderTest) -> None:
    [reply] = await rest.send(b"OPTIONS * HTTP/1.1\r\n" + CLOSE + b"\r\n")
    assert reply.status == 204
    assert set(reply.headers["allow"].split(", ")) == {"GET", "HEAD", "POST", "DELETE", "OPTIONS"}


@pytest.mark.parametrize("method", METHODS)
async def test_an_unknown_path_is_not_found_whatever_the_method(
    rest: RestUnderTest, method: str
) -> None:
    reply = await rest.call(method, "/nothing")
    assert reply.status == 404
    assert reply.headers["content-type"] == "application/problem+json"


# -- paths (62) ---------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "//pools",
        "/pools/",
        "/pools%2F",
        "/./pools",
        "/pools/.",
        "/pools/..",
        "/../pools",
        "/%70ools",
        "/pools%00",
        "/pools;x=1",
        "/Pools",
        "/pools/a",
        "/pools/a/b",
        "/pools/a/b/",
        "/pools/a//c",
        "/pools/a/b/c/",
        "/pools/a/b/c/d",
        "/pools//a/b/c",
        "/openapi.json/",
        "/healthz%20",
    ],
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_another_spelling_of_a_path_is_another_path(
    rest: RestUnderTest, method: str, path: str
) -> None:
    [reply] = await rest.send(f"{method} {path} HTTP/1.1\r\n".encode() + CLOSE + b"\r\n")
    assert reply.status == 404
    assert reply.json["title"] == "Not Found"


@pytest.mark.parametrize(
    ("segment", "status"),
    [
        ("pool-00000", 204),
        ("%70ool-00000", 204),
        ("pool%2D00000", 204),
        ("pool-00000%2f", 422),
        ("a%20b", 404),
        ("%20pool", 422),
        ("pool%20", 422),
        ("a:b", 404),
        ("a%3Ab", 404),
        ("a+b", 404),
        ("a%2Bb", 404),
        ("100%25", 404),
        ("%2570ool-00000", 404),
        ("%00", 422),
        ("a%0Ab", 422),
        ("%C3%A9", 422),
        ("%FF", 422),
        (".", 422),
        ("..", 422),
        ("%2E%2E", 422),
        ("x" * 254, 422),
        ("%", 400),
        ("%zz", 400),
        ("a%4", 400),
    ],
)
async def test_a_part_of_a_key_is_decoded_once_and_then_checked(
    rest: RestUnderTest, segment: str, status: int
) -> None:
    await rest.post(a_body(0))
    request = f"DELETE /pools/c1/ns/{segment} HTTP/1.1\r\n".encode()
    [reply] = await rest.send(request + CLOSE + b"\r\n")
    assert reply.status == status
    if status == 422:
        assert reply.fields == ["dgd_name"]


async def test_a_target_in_absolute_form_is_its_path(rest: RestUnderTest) -> None:
    for target in (b"http://other/pools", b"HTTP://other:1/pools?region=x"):
        [reply] = await rest.send(b"GET " + target + b" HTTP/1.1\r\n" + CLOSE + b"\r\n")
        assert reply.status == 200
    [reply] = await rest.send(b"GET http://other HTTP/1.1\r\n" + CLOSE + b"\r\n")
    assert reply.status == 404


# -- what is no HTTP ----------------------------------------------------------

NO_HTTP = {
    "an unknown method": b"BREW /pools HTTP/1.1\r\nHost: a\r\n\r\n",
    "a lower-case method": b"get /pools HTTP/1.1\r\nHost: a\r\n\r\n",
    "an older version behind a declined tunnel": (
        b"CONNECT /pools HTTP/1.1\r\nHost: a\r\n\r\nGET /pools HTTP/0.9\r\nHost: a\r\n\r\n"
    ),
    "no Host": b"GET /pools HTTP/1.1\r\n\r\n",
    "two Hosts": b"GET /pools HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "an HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "an unknown version": b"GET /pools HTTP/7.3\r\nHost: a\r\n\r\n",
    "an older version": b"GET /pools HTTP/0.9\r\nHost: a\r\n\r\n",
    "a newer version": JSON_POST.replace(b"1.1", b"2.0") + b"Content-Length: 2\r\n\r\n{}",
    "a space in a header name": b"GET /pools HTTP/1.1\r\nHo st: a\r\n\r\n",
    "a header without a colon": b"GET /pools HTTP/1.1\r\nHost a\r\n\r\n",
    "a folded header": b"GET /pools HTTP/1.1\r\nHost: a\r\n b\r\nX : y\r\n\r\n",
    "a NUL in a header": b"GET /pools HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
    "a raw byte in the path": b"GET /p\xc3\xa4ols HTTP/1.1\r\nHost: a\r\n\r\n",
    "a space in the path": b"GET /po ols HTTP/1.1\r\nHost: a\r\n\r\n",
    "a long target": b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "a long header": b"GET /pools HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    "a header of megabytes": b"GET /pools HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 8_000_000,
    "many headers": b"GET /pools HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 500 + b"\r\n",
    "a negative length": JSON_POST + b"Content-Length: -1\r\n\r\n",
    "a length in words": JSON_POST + b"Content-Length: ten\r\n\r\n",
    "a length beyond any": JSON_POST + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n",
    "two lengths": JSON_POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    "a length and chunks": JSON_POST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a broken chunk": JSON_POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "noise": random.Random(1).randbytes(5000),
}


@pytest.mark.parametrize("what", NO_HTTP)
async def test_what_is_no_http_is_told_so_and_leaves_no_trace_in_the_log(
    rest: RestUnderTest, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    caplog.set_level(logging.INFO)
    *_, reply = await rest.send(NO_HTTP[what])
    assert reply.status == 400
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json["code"] == "MALFORMED_REQUEST"
    assert caplog.records == []


async def test_a_chunk_that_breaks_under_way_ends_the_call_at_once(rest: RestUnderTest) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", rest.face.port)
    writer.write(JSON_POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
    await writer.drain()
    await until_read(rest)
    writer.write(b"zz\r\n")
    async with asyncio.timeout(5):
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()


async def test_a_caller_that_leaves_within_its_body_leaves_no_trace(
    rest: RestUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", rest.face.port)
    writer.write(JSON_POST + b"Content-Length: 100\r\n\r\n{")
    await until_read(rest)
    writer.transport.abort()
    await rest.until(lambda: not rest.connections)
    assert caplog.records == []
    assert await rest.listed() == []


@pytest.mark.parametrize(
    "beginning",
    [
        b"BREW / HTTP/1.1\r\n\r\n",
        JSON_POST + b"Content-Length: 100\r\n\r\n{",
        JSON_POST + b"Content-Length: 2000000\r\n\r\n{",
        b"GET /pools HTTP/1.1\r\nHost: a\r\n\r\n" * 20,
        b"\x16\x03\x01",
    ],
)
async def test_callers_that_leave_at_once_leave_no_trace(
    rest: RestUnderTest, caplog: pytest.LogCaptureFixture, beginning: bytes
) -> None:
    await rest.post(a_body(frontends=[f"http://h{n}.example" for n in range(1000)]))
    before = len(rest.connections)
    with structlog.testing.capture_logs() as logged:
        for pause in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", rest.face.port)
            writer.write(beginning)
            for _ in range(pause):
                await asyncio.sleep(0)
            writer.transport.abort()
        await rest.until(lambda: len(rest.connections) == before)
    assert caplog.records == []
    assert logged == []


async def test_pipelined_requests_are_answered_in_their_order(rest: RestUnderTest) -> None:
    length = b"Content-Length: %d\r\n\r\n" % len(BODY)
    get = b"GET /pools HTTP/1.1\r\n" + CLOSE + b"\r\n"
    first, second, third = await rest.send(
        b"GET /pools HTTP/1.1\r\nHost: a\r\n\r\n" + JSON_POST + length + BODY + get
    )
    assert first.json["pools"] == []
    assert "lease_id" in second.json
    assert len(third.json["pools"]) == 1


async def test_an_http_1_0_caller_is_served(rest: RestUnderTest) -> None:
    [reply] = await rest.send(b"GET /pools HTTP/1.0\r\n\r\n")
    assert reply.status == 200


# -- slow callers -------------------------------------------------------------

IMPATIENT = Limits(
    headers_seconds=0.1, body_stall_seconds=0.1, write_seconds=0.1, linger_seconds=0.1
)


@pytest.mark.parametrize(
    "beginning",
    [
        b"G",
        b"GET /pools HTTP/1.1\r\nHost: a\r\n",
        JSON_POST + b"Content-Length: 100\r\n\r\n{",
        JSON_POST + b"Transfer-Encoding: chunked\r\n\r\n",
    ],
)
async def test_a_request_that_does_not_arrive_is_told_so_and_cut(beginning: bytes) -> None:
    async with a_rest_face(limits=IMPATIENT) as rest:
        [reply] = await rest.send(beginning)
        assert (reply.status, reply.json["code"]) == (408, "REQUEST_TIMEOUT")


async def test_a_second_request_of_a_connection_is_timed_too() -> None:
    async with a_rest_face(limits=IMPATIENT) as rest:
        reader, writer = await asyncio.open_connection("127.0.0.1", rest.face.port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        async with asyncio.timeout(20):
            await reader.readuntil(b'"live"}')
            writer.write(b"GET ")
            [reply] = parse_replies(await reader.read())
        assert reply.status == 408
        writer.close()


async def test_a_connection_on_which_nothing_more_comes_is_closed() -> None:
    async with a_rest_face(limits=Limits(idle_seconds=0.1)) as rest:
        assert await rest.send(b"") == []
        [reply] = await rest.send(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        assert reply.status == 200


async def test_a_head_that_has_begun_is_no_idle_connection() -> None:
    async with a_rest_face(limits=Limits(idle_seconds=0.05, headers_seconds=0.5)) as rest:
        [reply] = await rest.send(b"GET ")
        assert reply.status == 408


async def test_a_body_that_trickles_for_too_long_is_cut() -> None:
    limits = Limits(body_stall_seconds=5.0, body_seconds=0.3, linger_seconds=0.1)
    async with a_rest_face(limits=limits) as rest:
        reader, writer = await asyncio.open_connection("127.0.0.1", rest.face.port)
        writer.write(JSON_POST + b"Content-Length: 1000000\r\n\r\n")

        async def trickle() -> None:
            while True:
                writer.write(b" ")
                await asyncio.sleep(0.02)

        trickling = asyncio.create_task(trickle())
        async with asyncio.timeout(20):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 408 ")
        trickling.cancel()
        writer.close()


async def test_a_caller_that_does_not_read_its_answer_is_cut() -> None:
    async with a_rest_face(limits=IMPATIENT) as rest:
        for number in range(40):
            frontends = [f"http://h{n}-{'x' * 50}.example:1234" for n in range(800)]
            await rest.post(a_body(number, frontends=frontends))
        _, writer = await asyncio.open_connection("127.0.0.1", rest.face.port, limit=1)
        writer.write(b"GET /pools HTTP/1.1\r\nHost: a\r\n\r\n" * 10)
        await rest.until(lambda: any(each._paused for each in rest.connections))
        await rest.until(lambda: not any(each._paused for each in rest.connections))
        assert len(rest.connections) == 1
        writer.close()


async def until_read(rest: RestUnderTest) -> None:
    """Until the server has begun to read the body of a request."""
    await rest.until(lambda: any(each._current_request for each in rest.connections))
