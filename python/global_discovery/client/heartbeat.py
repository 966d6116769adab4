"""Keeps one pool registered: the calls and the waiting around a `HeartbeatSchedule`.

The registration may change at any time; the newest one is always what is sent.
No failure of a call ends the heartbeat, and none escapes from it: it goes on
until `stop`, and its state says what is wrong meanwhile.

Belongs to one event loop. Without withdrawal, or when it cannot reach a server,
the pool leaves the lists when its lease ends.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

import grpc

from global_discovery.client.errors import CallFailed
from global_discovery.client.heartbeat_schedule import (
    HeartbeatSchedule,
    HeartbeatState,
    Send,
    Wait,
)
from global_discovery.client.registration_calls import (
    RegistrationCalls,
    open_calls,
)
from global_discovery.client.rest_registration import Granted
from global_discovery.client.servers import Servers, checked_servers
from global_discovery.client.tls import ClientTls, TlsSettings
from global_discovery.domain.timer import SystemTimer, Timer, within
from global_discovery.v1 import pool_pb2

_ABOUT_THE_INSTANCE = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND}

_LOG = logging.getLogger(__name__)

FIRST_ANSWER_SECONDS = 1.0
"""How long a stop waits for the answer of a first registration, to learn what to withdraw."""


class PoolHeartbeat:
    """The registration of one pool. `set` what to register, `run` it, `stop` it."""

    def __init__(
        self,
        servers: Sequence[str],
        *,
        relay_id: str = "",
        tls: TlsSettings | None = None,
        on_state: Callable[[HeartbeatState], None] | None = None,
        timer: Timer | None = None,
    ) -> None:
        """`servers` are those to call, the first one preferred.

        Raises ValueError when there is none, when one cannot be called, and for one that
        would be shown a token without TLS. Each is a
        gRPC target, or an `http://` or `https://` URL of a server that is to be called
        over REST; one may stand beside the other. `relay_id` must differ between the
        relays of one pool and stay the same when one restarts.
        Without `tls` gRPC is in plain text, and `https://` by the system's CAs.
        `on_state` is called after each call that ended; what it raises is logged, and
        ends nothing.
        """
        checked = checked_servers(servers)
        self._schedule = HeartbeatSchedule(checked, relay_id=relay_id)
        self._tls = ClientTls.of(tls, checked)
        self._on_state = on_state
        self._timer = timer or SystemTimer()
        self._calls: RegistrationCalls | None = None
        self._calls_server = ""
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._running = False
        self._withdraw = False

    @property
    def state(self) -> HeartbeatState:
        """How things stand."""
        return self._schedule.state()

    def set(self, registration: pool_pb2.PoolRegistration | None) -> None:
        """What to register from now on; it goes out at once when it differs.

        That ends the call under way, if the lease is held: see `HeartbeatSchedule`.
        None sends nothing, and the lease ends by itself. The message is copied.
        """
        self._schedule.set(registration, self._timer.now())
        self._changed.set()

    async def run(self) -> None:
        """Calls until `stop`; to be run once, as a task of its own."""
        self._running = True
        try:
            while not self._stopping.is_set():
                self._changed.clear()
                step = self._schedule.poll(self._timer.now())
                if isinstance(step, Send):
                    await self._send(step)
                else:
                    await self._wait(step)
            if self._withdraw:
                await self._deregister()
        finally:
            self._running = False
            self._ended.set()
            await self._disconnect()

    async def stop(self, *, withdraw: bool) -> bool:
        """Ends `run`, and the outstanding call with it.

        With `withdraw` the lease is ended first, so that the pool leaves at once:
        one attempt at each instance, all within the deadline of one call, at
        most 5 s, the one that granted the lease first. Whether it was withdrawn is
        the result; otherwise, and without `withdraw`, the pool leaves when its
        lease ends. An instance that does not know the lease counts only when it is
        one that granted or renewed it: another one, or one that has forgotten it
        in a restart, has withdrawn nothing. A server that cannot withdraw is no
        error: the state's `can_withdraw` tells it. A lease that an independent server
        granted earlier, before this one took over, ends by itself.
        """
        self._withdraw = withdraw
        self._stopping.set()
        self._changed.set()
        if self._running:
            await self._ended.wait()
        return self._schedule.state().withdrawn

    # -- registering ---------------------------------------------------------

    async def _wait(self, wait: Wait) -> None:
        """Until the time has come, something was set, or a stop is asked for."""
        if wait.until is None:
            await self._changed.wait()
            return
        with contextlib.suppress(TimeoutError):
            await within(self._timer, wait.until - self._timer.now(), self._changed.wait())

    async def _send(self, send: Send) -> None:
        """Makes a call and takes its outcome, unless a stop or a new registration ends it."""
        call = asyncio.ensure_future(self._register(send))
        try:
            while not (call.done() or self._stopping.is_set() or self._is_in_the_way()):
                await self._done_or_changed(call)
            if not call.done() and self._needs_the_answer():
                with contextlib.suppress(TimeoutError):
                    await within(self._timer, FIRST_ANSWER_SECONDS, _done(call))
            if call.done():
                self._take(call)
            elif not self._stopping.is_set():
                self._schedule.gave_up(self._timer.now())
        finally:
            call.cancel()
            await asyncio.wait({call})

    def _is_in_the_way(self) -> bool:
        return self._schedule.gives_up(self._timer.now())

    async def _done_or_changed(self, call: "asyncio.Task[Granted]") -> None:
        """Until the call has ended, something was set, or a stop is asked for."""
        self._changed.clear()
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({call, changed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            await asyncio.wait({changed})

    def _needs_the_answer(self) -> bool:
        """Whether only the answer under way tells which lease the stop is to withdraw."""
        stops = self._stopping.is_set() and self._withdraw
        return stops and not self._schedule.holds_lease(self._timer.now())

    def _take(self, call: "asyncio.Task[Granted]") -> None:
        try:
            response, instance = call.result()
        except CallFailed as error:
            self._schedule.failed(error, self._timer.now())
        else:
            self._schedule.answered(response, self._timer.now(), instance=instance)
        self._tell()

    async def _register(self, send: Send) -> Granted:
        calls = await self._calls_to(send.server, new_connection=send.new_connection)
        return await calls.register(send.request, send.timeout)

    # -- withdrawing ---------------------------------------------------------

    async def _deregister(self) -> None:
        """Withdraws the lease where it was granted, else wherever it is known."""
        request = self._schedule.withdrawal()
        if request is None:
            return
        servers = self._schedule.servers
        servers.go_to(self._schedule.granted_by)
        servers.begin_round()
        give_up_at = self._timer.now() + self._schedule.call_seconds
        new_connection = False
        while (left := give_up_at - self._timer.now()) > 0:
            try:
                calls = await self._calls_to(servers.current, new_connection=new_connection)
                await calls.deregister(request, left)
            except CallFailed as error:
                if not self._schedule.has_ended(error):
                    self._schedule.not_withdrawn(error)
                    self._tell()
                    if not _is_tried_again(error, servers):
                        return
                    servers.move_on()
                    new_connection = True
                    continue
            self._schedule.withdrew()
            self._tell()
            return

    # -- connections ---------------------------------------------------------

    async def _calls_to(self, server: str, *, new_connection: bool) -> RegistrationCalls:
        if new_connection or server != self._calls_server:
            await self._disconnect()
        if self._calls is None:
            self._calls = open_calls(server, self._timer, self._tls)
            self._calls_server = server
        return self._calls

    async def _disconnect(self) -> None:
        calls, self._calls = self._calls, None
        if calls is not None:
            await calls.close()

    def _tell(self) -> None:
        if self._on_state is None:
            return
        try:
            self._on_state(self._schedule.state())
        except Exception:  # noqa: BLE001 - the caller's function may raise anything
            _LOG.exception("the on_state callback of a heartbeat failed")


def _is_tried_again(error: CallFailed, servers: Servers) -> bool:
    """Whether a withdrawal that failed is tried at the next instance.

    With one server that is the same name again, which is of use only where it led
    to none that could answer, or to one that may be another than knows the lease.
    """
    alone = len(servers.in_turn()) == 1
    if alone and (error.code not in _ABOUT_THE_INSTANCE or error.details.retry_after > 0):
        return False
    return servers.repeat_at_once()


async def _done(call: "asyncio.Task[Any]") -> None:
    """Returns when the call has ended, and leaves it alone when this is cancelled."""
    await asyncio.wait({call})
