"""HTTP as bytes on a socket: a grammar of requests, right and wrong, and what may come back.

An answer is one of the contract's, with a problem document where it tells a
problem; or the connection ends. Nothing else is an answer.
"""

import contextlib
import json
import socket
from dataclasses import dataclass
from typing import NamedTuple

from hypothesis import strategies as st

STATUSES = {200, 204, 304, 400, 404, 405, 408, 409, 413, 415, 422, 429}
PATIENCE_SECONDS = 20.0
_NO_BODY = {204, 304}


class Answer(NamedTuple):
    """One answer; header names in lower case."""

    version: str
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def is_last(self) -> bool:
        """Whether the connection ends with it."""
        return self.version == "HTTP/1.0" or self.headers.get("connection") == "close"


class NoHttp(AssertionError):
    """What came back is no answer in HTTP/1.1."""


def exchange(port: int, *pieces: bytes, end: bool = True) -> bytes:
    """Sends pieces on a connection of their own; what came until the server ended it.

    With `end` our side is ended after the last one, as a caller that waits does.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
        came = bytearray()
        with contextlib.suppress(OSError):
            for piece in pieces:
                connection.sendall(piece)
            if end:
                connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while chunk := connection.recv(65_536):
                came += chunk
        return bytes(came)


def answers(data: bytes, *, methods: tuple[str, ...] = ()) -> list[Answer]:
    """All answers that stand one after the other. `methods` are those asked with, in order."""
    found: list[Answer] = []
    while data:
        head, end, data = data.partition(b"\r\n\r\n")
        if not end or not head.startswith(b"HTTP/1."):
            raise NoHttp(head[:200])
        line, *lines = head.decode("latin-1").split("\r\n")
        version, code, _ = line.split(" ", 2)
        status = int(code)
        if status == 100:
            continue
        headers = {}
        for text in lines:
            name, colon, value = text.partition(":")
            if not colon or not name or name != name.strip():
                raise NoHttp(text)
            headers[name.lower()] = value.strip()
        method = methods[len(found)] if len(found) < len(methods) else ""
        has_body = status not in _NO_BODY and method != "HEAD"
        length = int(headers.get("content-length", "0")) if has_body else 0
        if len(data) < length:
            raise NoHttp(f"a body of {len(data)} instead of {length} bytes")
        found.append(Answer(version, status, headers, data[:length]))
        data = data[length:]
    return found


def judge(answer: Answer) -> None:
    """Raises AssertionError for an answer that the contract does not have."""
    assert answer.status in STATUSES, answer
    if answer.status >= 400 and answer.body:
        assert answer.headers["content-type"] == "application/problem+json"
        told = json.loads(answer.body)
        assert told["status"] == answer.status
        assert len(answer.body) <= 16 * 1024


@dataclass(frozen=True)
class Request:
    """One request as its lines; `sent` is what goes on the wire."""

    method: bytes
    target: bytes
    version: bytes
    headers: tuple[bytes, ...]
    body: bytes
    line_end: bytes = b"\r\n"

    @property
    def sent(self) -> bytes:
        line = b" ".join((self.method, self.target, self.version))
        return self.line_end.join([line, *self.headers, b"", self.body])


METHODS = [
    b"GET",
    b"POST",
    b"HEAD",
    b"DELETE",
    b"OPTIONS",
    b"PUT",
    b"PATCH",
    b"TRACE",
    b"CONNECT",
    b"PRI",
    b"get",
    b"G\0T",
    b"",
    b"A" * 300,
]
TARGETS = [
    b"/pools",
    b"/routers",
    b"/healthz",
    b"/readyz",
    b"/livez",
    b"/metrics",
    b"/openapi.json",
    b"/",
    b"/why?cluster_id=a&namespace=b&dgd_name=c",
    b"*",
    b"",
    b"/pools/c1/ns/pool-00000",
    b"/pools/c1/ns/pool-00000?all=true",
    b"http://other/pools",
    b"https://user:pw@[::1]:99999/pools?model=a",
    b"//other/pools",
    b"other:443",
    b"/pools/../pools",
    b"/pools/%2e%2e/b/c",
    b"/pools/a%2Fb/c/d",
    b"/pools/%00/%C0%AF/%252e",
    b"/pools/\xc0\xaf/b/c",
    b"/pools/\xff/b/c",
    b"/pools#fragment",
    b"/pools\t",
    b"/pools;a=b",
    b"/" + b"a" * 8100,
    b"/" + b"a" * 9000,
    b"/" + b"../" * 2000,
]
QUERIES = [
    b"",
    b"?",
    b"?model=",
    b"?model=a&model=b",
    b"?model=a+b%20c",
    b"?model=%",
    b"?model=%zz",
    b"?model=%FF",
    b"?model=%00",
    b"?model=%ED%A0%80",
    b"?model=%C0%AF",
    b"?model",
    b"?=a",
    b"?&&&&",
    b"?;model=a",
    b"?model[]=a",
    b"?Model=a",
    b"?all=true&all=true",
    b"?all=TRUE",
    b"?relay_id=",
    b"?relay_id=a&relay_id=b",
    b"?relay=ip:10.0.0.1&relay=x",
    b"?unknown=1",
    b"?" + b"model=a&" * 900,
    b"?" + b"&" * 5000,
    b"??model=a?",
    b"?model=" + b"%F0%9F%92%A9" * 80,
]
HEADERS = [
    b"Host: a",
    b"Host: b",
    b"Host:",
    b"Host: a/../b",
    b"Connection: close",
    b"Connection: keep-alive",
    b"Connection: close, keep-alive, Host, Content-Length",
    b"Connection: Upgrade, HTTP2-Settings",
    b"Upgrade: h2c",
    b"Upgrade: websocket",
    b"HTTP2-Settings: AAMAAABkAAQAAP__",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    b"Content-Type: application/json",
    b"Content-Type: application/json; charset=utf-16",
    b"Content-Type: text/plain",
    b"Content-Type: multipart/form-data; boundary=x",
    b"Content-Type: " + b";" * 500,
    b"Content-Encoding: gzip",
    b"Content-Encoding: identity",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: chunked, gzip",
    b"Transfer-Encoding: chunked, chunked",
    b"Transfer-Encoding: identity",
    b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding:\tchunked ",
    b"Transfer-Encoding : chunked",
    b"Content-Length: 0",
    b"Content-Length: 5",
    b"Content-Length: 5, 5",
    b"Content-Length: +5",
    b"Content-Length: -1",
    b"Content-Length: 0x5",
    b"Content-Length: 5 ",
    b"Content-Length: 05",
    b"Content-Length: 1048577",
    b"Content-Length: 18446744073709551617",
    b"Content-Length: \xef\xbc\x95",
    b"Content-Length:",
    b"Expect: 100-continue",
    b"Expect: 200-ok",
    b"If-Match: *",
    b'If-Match: "a", W/"b", c',
    b'If-Match: "',
    b"If-Match: " + b'"a",' * 1000,
    b'If-None-Match: "x"',
    b"If-None-Match: *",
    b'If-None-Match: W/"',
    b"If-None-Match: " + b'",' * 2000,
    b"If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
    b"Range: bytes=0-1,2-3",
    b"Accept-Encoding: gzip",
    b"Accept-Encoding: gzip;q=0, *;q=1",
    b"Accept-Encoding: gzip;q=nan, identity;q=1e9",
    b"Accept-Encoding: " + b"a;q=0.1," * 700,
    b"Accept: text/event-stream",
    b"Accept: application/openmetrics-text; version=99; q=x",
    b"Accept: */*;q=0",
    b"Accept: " + b"," * 7000,
    b"X-Forwarded-For: 10.0.0.1, , fe80::1%eth0, ::ffff:1.2.3.4, [::1]:80, 1.2.3.4:80, x",
    b"X-Forwarded-For: " + b"1," * 3000,
    b"Forwarded: for=_x",
    b"X-HTTP-Method-Override: DELETE",
    b"Cookie: " + b"a=b; " * 1000,
    b"Authorization: Bearer " + b"x" * 4000,
    b"Authorization: Basic \xff\xff",
    b"X: a\0b",
    b"X: a\rb",
    b"X: a\nb",
    b"X\xe9: a",
    b" X: folded",
    b"\tfolded",
    b": no name",
    b"no colon",
    b"X: \xff\xfe",
    b"Trailer: X",
    b"TE: trailers, chunked;q=0.5",
    b"Max-Forwards: 0",
    b"Date: never",
    b"Sec-Fetch-Site: cross-site",
    b"Origin: null",
]
GOOD_BODY = json.dumps(
    {
        "cluster_id": "c1",
        "namespace": "ns",
        "dgd_name": "pool-00000",
        "model": "m",
        "location": {"region": "r1"},
        "frontends": ["http://10.0.0.1:8000"],
    }
).encode()


def chunks(body: bytes) -> st.SearchStrategy[bytes]:
    """The body in chunks, some of which are not framed as HTTP has it."""
    size = b"%x" % len(body)
    framed = [
        size + b"\r\n" + body + b"\r\n0\r\n\r\n",
        size.upper() + b';ext="a;b"\r\n' + body + b"\r\n0\r\n\r\n",
        b"000000" + size + b"\r\n" + body + b"\r\n0\r\n\r\n",
        size + b"\n" + body + b"\n0\n\n",
        size + b" \r\n" + body + b"\r\n0\r\n\r\n",
        b"+" + size + b"\r\n" + body + b"\r\n0\r\n\r\n",
        b"0x" + size + b"\r\n" + body + b"\r\n0\r\n\r\n",
        b"-1\r\n" + body + b"\r\n0\r\n\r\n",
        b"ffffffffffffffff\r\n" + body,
        b"fffffffffffffffff\r\n" + body,
        b"\r\n" + body,
        size + b"\r\n" + body + b"0\r\n\r\n",
        size + b"\r\n" + body + b"\r\n0\r\nX: trailer\r\nContent-Length: 3\r\n\r\n",
        size + b"\r\n" + body + b"\r\n0\r\n" + b"X: y\r\n" * 2000 + b"\r\n",
        size + b";" + b"a" * 70_000 + b"\r\n" + body + b"\r\n0\r\n\r\n",
        size + b"\r\n" + body,
        b"1\r\n{\r\n" * 500,
        b"0\r\n\r\n",
    ]
    return st.sampled_from(framed)


def bodies() -> st.SearchStrategy[bytes]:
    """What may follow the headers."""
    whole = st.one_of(st.just(GOOD_BODY), st.just(b""), st.just(b"hello"), st.binary(max_size=60))
    return st.one_of(whole, whole.flatmap(chunks))


def requests() -> st.SearchStrategy[Request]:
    """Mostly almost right."""
    target = st.builds(bytes.__add__, st.sampled_from(TARGETS), st.sampled_from(QUERIES))
    version = st.sampled_from(
        [b"HTTP/1.1"] * 6
        + [b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.2", b"HTTP/11", b"http/1.1", b""]
    )
    some = st.lists(st.sampled_from(HEADERS), max_size=5)
    usual = st.sampled_from([(b"Host: a",), (b"Host: a", b"Content-Type: application/json"), ()])
    length = st.sampled_from([(), (b"Content-Length: %d" % len(GOOD_BODY),)])
    headers = st.builds(lambda first, more, last: (*first, *more, *last), usual, some, length)
    line_end = st.sampled_from([b"\r\n"] * 12 + [b"\n", b"\r", b"\n\r", b"\r\r\n"])
    return st.builds(
        Request, st.sampled_from(METHODS), target, version, headers, bodies(), line_end
    )
