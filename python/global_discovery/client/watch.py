"""Follows pools or routers for ever, over one server or several.

A watch yields a state after each thing that happened: the fold as it is now, what
changed in it, and how the connection stands. It reads only while the next state
is asked for; a caller that takes its time costs the server nothing, which merges
what it has not sent yet.

A stream that ends is begun again with the last position. An unavailable server
is left for the next one at once, over a new connection; when all of them were
tried there is a pause, jittered and doubling, which starts over with the first
message that comes. Every failure goes on to the next server. A stream that the
server ended well, to spread connections, is opened again at once.

A server given as `http://` or `https://` is one of which only the HTTP face can be
reached: its list is polled. In a mixed list it is the last resort, and is left
again after a while to see whether a better one has come back.

Nothing ends a watch but its caller. What it does not do: save its view.
"""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import grpc

from global_discovery.client.errors import CallFailed, answer
from global_discovery.client.fold import Fold, NoEnd, PoolFold, RouterFold, Update, WatchResponse
from global_discovery.client.polling import longest_silence, polled
from global_discovery.client.servers import (
    Servers,
    checked_servers,
    is_url,
    open_channel,
    open_stub,
)
from global_discovery.client.tls import ClientTls, TlsSettings
from global_discovery.domain.timer import SystemTimer, Timer, within
from global_discovery.v1 import pool_discovery_pb2 as pb

if TYPE_CHECKING:
    from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceAsyncStub

F = TypeVar("F", bound=Fold[Any, Any])

DEFAULT_IDLE_SECONDS = 15
FIRST_MESSAGE_SECONDS = 10.0
"""A server says at once who it is; this long is waited for the connection and that."""
LONGEST_IDLE_SECONDS = 25
"""What the protocol allows."""
DEAD_AFTER_INTERVALS = 3
DEFAULT_POLL_SECONDS = 5
LONGEST_POLLING_SECONDS = 300.0
"""How long a polled server is kept while the list has one that can be watched."""
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0
STEADY_SECONDS = 10.0
"""A stream that lasted this long worked; its end begins a new round of servers."""


Messages = AsyncIterator[Any]
"""What a server says: WatchResponse, or None for what could not be decoded."""
OpenStream = Callable[[str, str], AbstractAsyncContextManager[Messages]]


class _Ended:
    """What comes after the last message of a stream that ended well."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How the connection stands."""

    server: str
    """The server that is followed, or was when the connection was lost."""
    connected: bool
    """Whether its stream lives; while not, the view is as it was last known."""
    info: pb.ServerInfo | None = None
    """Who serves, as it said itself; None while not connected."""
    last_error: CallFailed | None = None
    """Why the connection was last lost; stays when it is restored."""


@dataclass(frozen=True, slots=True)
class WatchState(Generic[F]):
    """One step of a watch."""

    fold: F
    """Live: it changes when the next state is asked for, and only then."""
    update: Update[Any, Any] | None
    """What this step changed in the fold; None when only the connection changed."""
    connection: Connection


class Reconnect:
    """Decides, without doing anything, where and when to connect again."""

    def __init__(self, servers: Sequence[str], jitter: Callable[[], float] = random.random) -> None:
        """`jitter` gives numbers from 0 to below 1."""
        self._order = sorted(checked_servers(servers), key=is_url)
        self._servers = Servers(self._order)
        self._jitter = jitter
        self._pause = FIRST_PAUSE_SECONDS

    @property
    def server(self) -> str:
        """Where to connect."""
        return self._servers.current

    @property
    def makes_do(self) -> bool:
        """Whether the server is polled although one of the list can be watched."""
        return is_url(self.server) and not is_url(self._order[0])

    def begin_again(self) -> None:
        """Goes back to the first server."""
        self._servers = Servers(self._order)

    def heard(self) -> None:
        """A message came."""
        self._pause = FIRST_PAUSE_SECONDS

    def ended(self, error: CallFailed | None, *, lasted: float) -> float:
        """A stream ended, well or with an error; how many seconds to wait.

        `lasted` counts the seconds since its first message. Before the only server
        is called again it has the time that it asked for, up to LONGEST_PAUSE_SECONDS.
        """
        called = self._servers.current
        if lasted >= STEADY_SECONDS:
            self._servers.begin_round()
        if error is not None:
            self._servers.move_on()
        at_once = error is None or error.code is grpc.StatusCode.UNAVAILABLE
        if at_once and self._servers.repeat_at_once():
            return 0.0
        self._servers.begin_round()
        pause = self._pause * (0.5 + self._jitter() / 2)
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        if error is not None and self._servers.current == called:
            pause = max(pause, min(error.details.retry_after, LONGEST_PAUSE_SECONDS))
        return pause


class Watch(Generic[F]):
    """An endless async iterator of states; made by `watch_pools` and `watch_routers`.

    Use it as a context manager, so that its connection is closed when you leave.
    """

    def __init__(
        self,
        fold: F,
        open_stream: "OpenStream",
        servers: Sequence[str],
        *,
        idle_seconds: int,
        timer: Timer | None,
    ) -> None:
        """`open_stream` calls a server, with a position to continue from."""
        self._fold = fold
        self._open_stream = open_stream
        self._reconnect = Reconnect(servers)
        self._idle_seconds = idle_seconds
        self._timer = timer or SystemTimer()
        self._last_error: CallFailed | None = None
        self._first_message_at: float | None = None
        self._states = self._follow()

    async def __aenter__(self) -> "Watch[F]":
        """Nothing is opened before the first state is asked for."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes the connection."""
        await self._states.aclose()

    def __aiter__(self) -> AsyncIterator[WatchState[F]]:
        """There is one sequence of states; every iteration goes on with it."""
        return self._states

    async def _follow(self) -> AsyncGenerator[WatchState[F], None]:
        while True:
            server = self._reconnect.server
            error: CallFailed | None = None
            self._first_message_at = None
            try:
                async with aclosing(self._stream(server)) as states:
                    async for state in states:
                        yield state
            except CallFailed as failure:
                error = self._last_error = failure
            pause = self._reconnect.ended(error, lasted=self._lasted())
            if error is not None:
                self._reconsider_position(error)
                yield self._state(None, Connection(server, connected=False, last_error=error))
            elif self._reconnect.makes_do:
                self._reconnect.begin_again()
            await self._timer.sleep(pause)

    async def _stream(self, server: str) -> AsyncGenerator[WatchState[F], None]:
        """The states of one stream, until it ends. Raises CallFailed."""
        self._fold.begin_stream()
        info: pb.ServerInfo | None = None
        limit = longest_silence(0) if is_url(server) else FIRST_MESSAGE_SECONDS
        async with self._open_stream(server, self._fold.position) as messages:
            while (message := await self._next(server, messages, limit)) is not None:
                self._reconnect.heard()
                begins = self._first_message_at is None
                if begins:
                    self._first_message_at = self._timer.now()
                if message.HasField("server"):
                    info = message.server
                idle = (info.idle_interval_secs if info else 0) or self._idle_seconds
                # A server that promised less could not be told from a dead one.
                limit = float(DEAD_AFTER_INTERVALS * min(idle, LONGEST_IDLE_SECONDS))
                if is_url(server):
                    limit = max(limit, longest_silence(idle))
                update = self._apply(server, message)
                if begins or update is not None:
                    connection = Connection(server, True, info, self._last_error)
                    yield self._state(update, connection)
                if self._reconnect.makes_do and self._lasted() >= LONGEST_POLLING_SECONDS:
                    return

    async def _next(self, server: str, messages: Messages, limit: float) -> WatchResponse | None:
        """The next message; None at a good end. Raises CallFailed, also after `limit` seconds."""
        try:
            message = await within(self._timer, limit, answer(server, anext(messages, _Ended())))
        except TimeoutError:
            silent = f"nothing came for {limit:g} s"
            raise CallFailed(server, grpc.StatusCode.DEADLINE_EXCEEDED, silent) from None
        if isinstance(message, _Ended):
            return None
        if not isinstance(message, WatchResponse):
            raise CallFailed(server, grpc.StatusCode.INTERNAL, "a message could not be decoded")
        return message

    def _apply(self, server: str, message: WatchResponse) -> Update[Any, Any] | None:
        try:
            return self._fold.apply(message, now=self._timer.now())
        except NoEnd as error:
            raise CallFailed(server, grpc.StatusCode.INTERNAL, str(error)) from error

    def _reconsider_position(self, error: CallFailed) -> None:
        """Another release may not be able to read our position; the view is sent anew then."""
        if error.code is grpc.StatusCode.INVALID_ARGUMENT:
            self._fold.forget_position()

    def _lasted(self) -> float:
        if self._first_message_at is None:
            return 0.0
        return self._timer.now() - self._first_message_at

    def _state(self, update: Update[Any, Any] | None, connection: Connection) -> WatchState[F]:
        return WatchState(self._fold, update, connection)


def watch_pools(  # noqa: PLR0913 - all but the first have a good default
    servers: Sequence[str],
    *,
    wanted: pb.PoolFilter | None = None,
    fold: PoolFold | None = None,
    idle_seconds: int = DEFAULT_IDLE_SECONDS,
    poll_seconds: int = DEFAULT_POLL_SECONDS,
    tls: TlsSettings | None = None,
    timer: Timer | None = None,
) -> Watch[PoolFold]:
    """Follows the pools that match `wanted`, or all of them.

    `servers` are gRPC targets, the first one preferred, and URLs of servers that
    can only be polled, each `poll_seconds`. `fold` is where to go on from: what
    it lists is kept as the rules of the protocol say, so it must have been filled
    with the same filter. `idle_seconds`, 1 to 25, is how long a stream may be
    quiet; after three times that it is given up. Without `tls` gRPC is in plain text,
    and `https://` by the system's CAs.
    """
    timer = timer or SystemTimer()
    own_tls = ClientTls.of(tls, servers)

    def call(stub: "PoolDiscoveryServiceAsyncStub", position: str) -> Any:
        return stub.WatchPools(
            pb.WatchPoolsRequest(filter=wanted, position=position, idle_interval_secs=idle_seconds)
        )

    def stream(server: str, position: str) -> AbstractAsyncContextManager[Messages]:
        if is_url(server):
            return aclosing(
                polled(server, wanted=wanted, every=poll_seconds, timer=timer, tls=own_tls)
            )
        return _streamed(server, call, position, own_tls)

    return Watch(fold or PoolFold(), stream, servers, idle_seconds=idle_seconds, timer=timer)


def watch_routers(
    servers: Sequence[str],
    *,
    fold: RouterFold | None = None,
    idle_seconds: int = DEFAULT_IDLE_SECONDS,
    tls: TlsSettings | None = None,
    timer: Timer | None = None,
) -> Watch[RouterFold]:
    """Follows the routers, over gRPC only; everything else is as in `watch_pools`."""
    own_tls = ClientTls.of(tls, servers)

    def call(stub: "PoolDiscoveryServiceAsyncStub", position: str) -> Any:
        return stub.WatchRouters(
            pb.WatchRoutersRequest(position=position, idle_interval_secs=idle_seconds)
        )

    def stream(server: str, position: str) -> AbstractAsyncContextManager[Messages]:
        return _streamed(server, call, position, own_tls)

    return Watch(fold or RouterFold(), stream, servers, idle_seconds=idle_seconds, timer=timer)


@asynccontextmanager
async def _streamed(
    server: str,
    call: Callable[["PoolDiscoveryServiceAsyncStub", str], Any],
    position: str,
    tls: ClientTls | None,
) -> AsyncGenerator[Messages, None]:
    """The messages of one call, over a connection of its own."""
    async with open_channel(server, tls) as channel:
        stream = call(open_stub(channel), position)
        try:
            yield aiter(stream)
        finally:
            stream.cancel()
