"""One HTTP connection, bounded in every direction, and never answered with a stack trace.

aiohttp parses HTTP and keeps the connection. What it leaves open is closed here:
headers that do not come to an end, requests in crumbs, a caller that does not read its answer,
bytes that are no HTTP (answered with a problem document, without a line in the
log), a caller that ends its own side after its last request and waits for the
answer, and an end of the process that waits for nobody but the calls under way.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from aiohttp import web
from aiohttp.http import HttpVersion10, HttpVersion11
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import RequestHandler, RequestPayloadError, _ErrInfo

from global_discovery.serving.caller import peer_address
from global_discovery.serving.rest import problem
from global_discovery.serving.rest.deadline import TURNS, Deadline
from global_discovery.serving.rest.pacing import Pacing
from global_discovery.serving.rest.problem import Problem
from global_discovery.serving.rest.unread import UnreadAnswer
from global_discovery.serving.tls.certificate import Names, alternative_names

if TYPE_CHECKING:
    from global_discovery.serving.rest.connection_server import ConnectionServer


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a caller may take, in seconds, for each thing that it must do."""

    handshake_seconds: float = 10.0
    """For the handshake of TLS."""
    headers_seconds: float = 30.0
    """From the first byte of a request to the end of its headers."""
    body_stall_seconds: float = 10.0
    """Between two pieces of a body."""
    body_seconds: float = 60.0
    """For a whole body."""
    write_seconds: float = 30.0
    """Without the caller reading anything of its answer."""
    idle_seconds: float = 75.0
    """Between two requests; longer than the usual idle time of a proxy's upstream."""
    linger_seconds: float = 2.0
    """For reading a refused request to its end, so that its answer is not lost; and for
    the other side of TLS to say that it ends too."""


class CallerGone(Exception):
    """The connection broke under a call: there is nobody to answer."""


class Gate(Protocol):
    """Answers requests, and what was none."""

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Never raises but for cancellation."""
        ...

    def refuse(self, why: Problem) -> web.Response:
        """The answer to what could not even be parsed."""
        ...

    def fail(self) -> web.Response:
        """The answer while an exception of ours is being handled."""
        ...


class Connection(RequestHandler):
    """Belongs to a `ConnectionServer`."""

    def __init__(self, server: "ConnectionServer", limits: Limits, **options: Any) -> None:
        """See aiohttp for `options`."""
        super().__init__(server, **options)
        self._server = server
        self._limits = limits
        self._headers_timer: Deadline | None = None
        self._body: StreamReader = EMPTY_PAYLOAD
        """Of the last request that came in, as long as some of it is missing."""
        self._head_bytes = 0
        """Of a head that has not come to its end."""
        self._ended: asyncio.Event | None = None
        self._at_hand: web.BaseRequest | None = None
        """The request that was taken from the queue and has no answer yet."""
        self._sends_no_more = False
        self._open: asyncio.Transport | None = None
        self._pacing: Pacing | None = None
        self._unread: UnreadAnswer | None = None
        self._is_refused = False
        self.peer = ""
        """The address at the other end, in its canonical form."""
        self.certified = False
        """Whether the caller showed a certificate of a CA that we trust."""
        self.certificate_names = Names()
        """Those of that certificate."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._open = cast("asyncio.Transport", transport)
        if not self._admitted(self._open):
            return
        super().connection_made(transport)
        self._pacing = Pacing(self._open, self._loop, self._has_room)
        self._unread = UnreadAnswer(self._open, self._loop, self._limits.write_seconds)
        self._server.opened(self)
        tls = transport.get_extra_info("ssl_object")
        certificate = None if tls is None else tls.getpeercert(binary_form=True)
        if certificate is not None:
            self.certified = True
            self.certificate_names = alternative_names(certificate)
        if not self.peer:
            self.abort()

    def _admitted(self, transport: asyncio.Transport) -> bool:
        """Whether there is room for it; else it gets an answer to whatever it wants to ask."""
        peername = transport.get_extra_info("peername")
        if peername:
            self.peer = peer_address(peername[0])
        refusal = self._server.enter(self)
        self._is_refused = refusal is not None
        if refusal is not None:
            transport.write(refusal)
            transport.close()
        return refusal is None

    def connection_lost(self, exc: BaseException | None) -> None:
        """Called by the loop."""
        if self._is_refused:
            self._open = None
            return
        self._stop_headers_timer()
        if self._unread is not None:
            self._unread.stop()
        if self._pacing is not None:
            self._pacing.stop()
        super().connection_lost(exc)
        self._open = None
        if self._ended is not None:
            self._ended.set()
        self._server.closed(self)

    def eof_received(self) -> bool:  # type: ignore[override] # asyncio asks, aiohttp never does
        """Called by the loop: the caller sends no more, but may wait for its answers."""
        if self._is_refused:
            return False
        self._sends_no_more = True
        if self._ended is not None:
            self._ended.set()
        self._drop_incomplete()
        if self._at_hand is None and not self._messages:
            self.force_close()
        # TLS has no such half of a connection: there it ends as a whole.
        return not self._force_close and self._open is not None and self._open.can_write_eof()

    def data_received(self, data: bytes) -> None:
        """Called by the loop, and by aiohttp with nothing to go on parsing."""
        if self._is_refused:
            return
        requests, in_body = self._request_count, not self._body.is_eof()
        super().data_received(data)
        if self._request_count != requests:
            body = self._messages[-1][1]
            self._body, self._head_bytes = EMPTY_PAYLOAD if body.is_eof() else body, 0
        elif not in_body:
            self._count_head(len(data))
        if data and self._pacing is not None:
            begun = self._request_count != requests
            self._pace(self._pacing, len(data), begun=begun, in_body=in_body)
        waiter = self._waiter
        if waiter is None or waiter.done():
            if self._headers_timer is not None:
                self._stop_headers_timer()
            if self._messages:
                self._fail_unfinished_body()
        elif data and self._headers_timer is None:
            seconds = self._limits.headers_seconds
            self._headers_timer = Deadline(self._loop, seconds, self._headers_late)

    def _pace(self, pacing: Pacing, size: int, *, begun: bool, in_body: bool) -> None:
        """Tells what came in: whether a head ended with it, and whether it found a body open."""
        ended = (begun or in_body) and self._body.is_eof()
        if begun or ended:
            pacing.begin_anew()
        if not ended:
            pacing.unfinished(size)

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002 - as there
        """Called by aiohttp, whenever it has taken something of a body."""
        super().resume_reading(resume_parser)
        if self._pacing is not None:
            self._pacing.hold()

    def _has_room(self) -> bool:
        """Whether a body has room for what would be read."""
        return not (self._reading_paused or self._buffer_paused)

    async def start(self) -> None:
        """Serves until the connection ends; what it leaves unsent is then given up in time."""
        try:
            await super().start()
        finally:
            if self._open is not None and self._unread is not None:
                self._unread.given_up()

    def pause_writing(self) -> None:
        """Called by the loop: the caller does not read as fast as we write."""
        super().pause_writing()
        if self._unread is not None:
            self._unread.paused()

    def resume_writing(self) -> None:
        """Called by the loop."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.resumed()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """The last answer of a connection also when its headers went out before that was known."""
        if self._is_last():
            resp.force_close()
        answered = await super().finish_response(request, resp, start_time)
        self._at_hand = None
        if self._sends_no_more:
            self._drop_incomplete()
        if self._is_last():
            answered[0].force_close()
        return answered

    @property
    def sends_no_more(self) -> bool:
        """Whether the caller is gone, or has ended its side."""
        return self._sends_no_more or self._open is None

    def close_if_idle(self) -> None:
        """Ends it at once unless a call is under way, whose answer will end it."""
        waiter = self._waiter
        if self._request_count == 0 or (waiter is not None and not waiter.done()):
            self.force_close()
        elif self._ended is not None:
            self._ended.set()

    def abort(self) -> None:
        """Ends it, whatever is under way."""
        if self._open is not None:
            self._open.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to an exception that got past the gate."""
        del status, message
        if request.writer.output_size > 0:
            # An answer is on its way, or the caller left: aiohttp takes this for the end.
            raise ConnectionResetError from exc
        response = self._server.gate.fail()
        response.force_close()
        return response

    def _handle_request(
        self,
        request: web.BaseRequest,
        start_time: float | None,
        request_handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
    ) -> Coroutine[Any, Any, tuple[web.StreamResponse, bool]]:
        """Called by aiohttp in the same step in which it takes a request from the queue."""
        self._at_hand = request
        if _head_bytes(request) > HEAD_LINES * self.max_line_size:  # it came in few pieces
            refusal = _ErrInfo(400, LineTooLong(b"", HEAD_LINES * self.max_line_size), "")
            return super()._handle_request(request, start_time, self._make_error_handler(refusal))
        if request._version not in _VERSIONS:  # noqa: SLF001 - `version` remembers what it told
            # The parser lets HTTP/0.9 and HTTP/2.0 pass; the answer would claim to be in them.
            request._version = HttpVersion10  # noqa: SLF001 - it takes its version from nowhere else
            error = BadHttpMessage("another version of HTTP")
            request_handler = self._make_error_handler(_ErrInfo(400, error, ""))
        return super()._handle_request(request, start_time, request_handler)

    def _process_keepalive(self) -> None:
        """Called by aiohttp: as with a Deadline, what came in goes first."""
        self._keepalive_handle = self._loop.call_soon(self._idle_late, TURNS - 1)

    def _idle_late(self, turns: int) -> None:
        if turns:
            self._keepalive_handle = self._loop.call_soon(self._idle_late, turns - 1)
        elif self._headers_timer is None:  # which else tells what there is too little of
            super()._process_keepalive()

    def _is_last(self) -> bool:
        """Whether the connection ends with the answer that is made now."""
        nothing_left = not self._messages and not self._message_tail
        return self._server.draining or (self._sends_no_more and nothing_left)

    def _drop_incomplete(self) -> None:
        """A request that the caller broke off is not answered; those before it are."""
        if self._messages:
            body = self._messages[-1][1]
            if body.is_eof():
                return
            if len(self._messages) > 1 or self._waiter is None or not self._waiter.done():
                self._messages.pop()
                return
            # `start` was woken for it in this same step, as happens with TLS, and will take it.
        elif self._at_hand is not None and not self._at_hand.content.is_eof():
            body = self._at_hand.content
        else:
            return
        if body.exception() is None:
            body.set_exception(ConnectionResetError("broken off"))
        self.force_close()

    def _make_error_handler(
        self, err_info: _ErrInfo
    ) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
        """Answers what is no HTTP, and reads on for a while, or the answer would be lost."""
        if err_info.status == _LATE:
            why = problem.too_slow("the request's headers")
        elif isinstance(err_info.exc, LineTooLong):
            why = problem.malformed("the request's head or a line of it is too long", close=True)
        else:
            why = problem.malformed("the request is not well-formed HTTP/1.1", close=True)

        async def refuse(request: web.BaseRequest) -> web.StreamResponse:
            response = self._server.gate.refuse(why)
            await response.prepare(request)
            await response.write_eof()
            self._close = True
            await self._linger()
            return response

        return refuse

    async def _linger(self) -> None:
        """Until the caller has sent all it wants; nothing of it is parsed any more."""
        transport = self.transport
        if transport is None or self._server.draining or self._sends_no_more:
            return
        if transport.can_write_eof():
            transport.write_eof()
        self._ended = asyncio.Event()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.linger_seconds):
                await self._ended.wait()

    def _count_head(self, size: int) -> None:
        """The parser keeps all of a head, of which it bounds the lines and their number only."""
        self._head_bytes += size
        limit = HEAD_LINES * self.max_line_size
        if self._head_bytes > limit and not self._refuse_head(400, LineTooLong(b"", limit)):
            self._close = True  # nothing more is parsed, and what is under way is answered

    def _headers_late(self) -> None:
        self._headers_timer = None
        self._refuse_head(_LATE, TimeoutError())

    def _refuse_head(self, status: int, error: Exception) -> bool:
        """Answers what is no whole request; not while another one is under way."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            return False
        self._messages.append((_ErrInfo(status=status, exc=error, message=""), EMPTY_PAYLOAD))
        waiter.set_result(None)
        return True

    def _stop_headers_timer(self) -> None:
        if self._headers_timer is not None:
            self._headers_timer.cancel()
            self._headers_timer = None

    def _fail_unfinished_body(self) -> None:
        """A body whose framing broke ends with an error; aiohttp would have it wait."""
        request = self._current_request
        if request is not None and isinstance(self._messages[-1][0], _ErrInfo):
            body = request.content
            if not body.is_eof() and body.exception() is None:
                body.set_exception(RequestPayloadError("malformed"))


def _head_bytes(request: web.BaseRequest) -> int:
    """Of a whole head, but for its first line, which is bounded by itself."""
    return sum(len(name) + len(value) + 4 for name, value in request.raw_headers)


_LATE = 408
HEAD_LINES = 4
"""A whole head may be as long as so many of the longest lines."""
_VERSIONS = (HttpVersion10, HttpVersion11)
