"""When a relay calls, whom, and with what: the rules of the heartbeat without the calls.

The schedule is told what happens (`set`, `answered`, `failed`) and asked what to
do (`poll`); it does nothing itself and reads no clock. One call is under way at
a time.

* The registration is sent at once when it is set or changed, and renewed at the
  lease's heartbeat interval, always the newest one, with the lease's id.
* An interval above half of the lease (older servers only want it below the lease)
  leaves no room for a second try: a third of the lease counts then.
* The lease is counted from before the call was sent, so it never ends later here
  than at the server.
* A failed call is tried again after 1 s, doubling up to the heartbeat interval,
  and once more 1 s before the lease ends; at the next server, unless the failure
  is about what was sent.
* A server that asks not to be called for a while (Retry-After, RetryInfo) is not
  called before that, for at most one lease and whatever there is to send: another
  one is, where there is one, and so is this one 1 s before the lease ends.
* An unavailable instance is first answered by repeating the call at each other
  one at once, over a new connection; one server alone is called once more, as
  another instance may stand behind its name, unless it asked for time.
* A changed registration does not wait for the call under way: that one is given
  up. It may still arrive; so this is done only where the lease's `sequence`, or
  another key, keeps it from undoing the new one, and not twice in a row, so that
  a registration that never rests is renewed all the same.
* A lease that was withdrawn is given up: its id is dropped, and the pool is
  registered anew one lease later.
* A lease without an id, as servers of an older kind grant it, is renewed by
  registering anew, and cannot be withdrawn.

Not here: withdrawing the pool of an earlier key when the registration gets
another key. Its lease ends by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import grpc

from global_discovery.client.errors import CallFailed
from global_discovery.client.servers import Servers
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2

ASSUMED_LEASE_SECONDS = 15.0
ASSUMED_INTERVAL_SECONDS = 5.0
"""What counts until a server has told its own: the protocol's defaults."""
FIRST_RETRY_SECONDS = 1.0
LAST_CHANCE_SECONDS = 1.0
LONGEST_CALL_SECONDS = 5.0
SHORTEST_CALL_SECONDS = 0.25

_ABOUT_THE_CALL = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
}
"""What any server would answer: another one is not tried because of it.

All else may be about that server alone: its rights, its limits, its release, what
stands before it.
"""


@dataclass(frozen=True, slots=True)
class Send:
    """Call RegisterPool now."""

    server: str
    request: pb.RegisterPoolRequest
    timeout: float
    """The call's deadline, in seconds from now."""
    new_connection: bool
    """Whether the connection that was used last must not be used."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until then, or until something happens."""

    until: float | None
    """On the clock of `poll`; None when only something that happens can end it."""


@dataclass(frozen=True, slots=True)
class HeldLease:
    """What the last answer granted. The lease's id is kept to ourselves."""

    seconds: float
    heartbeat_seconds: float
    ends_at: float
    """On the caller's clock, counted from before the call was sent."""


@dataclass(frozen=True, slots=True)
class HeartbeatState:
    """How a heartbeat stands. Times are on the clock that the heartbeat was given."""

    registration: pool_pb2.PoolRegistration | None
    """The newest one that was set."""
    server: str
    """The server that was answered from last, or is tried."""
    lease: HeldLease | None
    """None before the first answer and after the lease was refused or withdrawn."""
    last_success: float | None
    """When the last good answer came."""
    failing: bool
    """Whether the last call failed."""
    last_error: CallFailed | None
    """Stays when calls succeed again; its chain of `__cause__` tells what led to it."""
    next_attempt: float | None
    """When the next call is due; None while one is under way or there is nothing to send."""
    withdrawn: bool
    """Whether `stop` withdrew the lease, or found it ended at an instance that had held it."""
    can_withdraw: bool = True
    """False once a server granted a lease without an id, or did not know the withdrawal."""


class HeartbeatSchedule:
    """The heartbeat of one relay for one pool."""

    def __init__(self, servers: Sequence[str], *, relay_id: str = "") -> None:
        """Sends nothing until a registration is set. Raises ValueError without a server."""
        self._servers = Servers(servers)
        self._relay_id = relay_id
        self._registration: pool_pb2.PoolRegistration | None = None
        self._key: pool_pb2.PoolKey | None = None
        self._lease: HeldLease | None = None
        self._lease_id = ""
        self._lease_seconds = ASSUMED_LEASE_SECONDS
        self._interval = ASSUMED_INTERVAL_SECONDS
        self._granted_by = self._servers.current
        self._holders: set[str] = set()
        """The instances that granted or renewed the lease, of those that name themselves."""
        self._sequence = 0
        self._due = 0.0
        self._held_until = 0.0
        self._retry = FIRST_RETRY_SECONDS
        self._new_connection = False
        self._not_before: dict[str, float] = {}
        """The servers that asked not to be called, and until when."""
        self._sent: pool_pb2.PoolRegistration | None = None
        self._sent_at = 0.0
        self._sent_lease_id = ""
        self._gave_up = False
        """Whether the call before was given up."""
        self._last_success: float | None = None
        self._last_error: CallFailed | None = None
        self._failing = False
        self._withdrawn = False
        self._can_withdraw = True
        self._withdrawal_failed = False

    # -- what to do ----------------------------------------------------------

    def poll(self, now: float) -> Send | Wait:
        """What to do now. After a `Send`, tell how it went before the next one is given."""
        if self._sent is not None or self._registration is None:
            return Wait(None)
        due = max(self._due, self._held_until)
        if now < due:
            return Wait(due)
        self._sent, self._sent_at = self._registration, now
        self._sent_lease_id = self._lease_id
        self._sequence += 1
        new_connection, self._new_connection = self._new_connection, False
        request = pb.RegisterPoolRequest(
            registration=self._registration,
            relay_id=self._relay_id,
            lease_id=self._lease_id,
            sequence=self._sequence,
        )
        return Send(self._servers.current, request, self._timeout(now), new_connection)

    def withdrawal(self) -> pb.DeregisterPoolRequest | None:
        """What ends the registration; None when no lease is held.

        It names the lease, so that it never ends a registration newer than ours.
        """
        if not self._lease_id:
            return None
        return pb.DeregisterPoolRequest(key=self._key, lease_id=self._lease_id)

    @property
    def granted_by(self) -> str:
        """The server that granted or renewed the lease last: the first to withdraw it from."""
        return self._granted_by

    def has_ended(self, error: CallFailed) -> bool:
        """Whether the failure of a withdrawal says that the lease has ended.

        NOT_FOUND does, from an instance that granted or renewed this very lease: it
        ended there by itself, by somebody else's withdrawal, or by an attempt of
        ours whose answer was lost. From any other one it says nothing: an instance
        with a store of its own never knew the lease, and one that was restarted,
        behind the same name too, may have forgotten it while routers go on
        carrying the pool. One that does not name itself counts as another one.
        """
        not_found = error.code is grpc.StatusCode.NOT_FOUND
        return not_found and error.details.instance in self._holders

    @property
    def servers(self) -> Servers:
        """Whom to call."""
        return self._servers

    @property
    def call_seconds(self) -> float:
        """The deadline of a call: a third of the lease, at most 5 s."""
        return min(LONGEST_CALL_SECONDS, self._lease_seconds / 3)

    def holds_lease(self, now: float) -> bool:
        """Whether a lease runs, as far as is known here."""
        return self._lease is not None and now < self._lease.ends_at

    def state(self) -> HeartbeatState:
        """How things stand."""
        sending = self._registration is not None and self._sent is None
        return HeartbeatState(
            registration=self._registration,
            server=self._servers.current,
            lease=self._lease,
            last_success=self._last_success,
            failing=self._failing,
            last_error=self._last_error,
            next_attempt=max(self._due, self._held_until) if sending else None,
            withdrawn=self._withdrawn,
            can_withdraw=self._can_withdraw,
        )

    # -- what happens --------------------------------------------------------

    def set(self, registration: pool_pb2.PoolRegistration | None, now: float) -> None:
        """What to register from now on; None for nothing. An equal one changes nothing."""
        if registration == self._registration:
            return
        if registration is not None:
            copy = pool_pb2.PoolRegistration()
            copy.CopyFrom(registration)
            registration = copy
            if registration.key != self._key:
                self._key = registration.key
                self._forget_lease()
                self._held_until = now
            self._due = now
            self._servers.begin_round()
            if self._sent is None:  # else the server of the call under way stays the current one
                self._call_next(now, now)
        self._registration = registration

    def gives_up(self, now: float) -> bool:
        """Whether the call under way is in the way; if so, end it and tell `gave_up`."""
        sent, newest = self._sent, self._registration
        if sent is None or newest is None or sent is newest or self._gave_up:
            return False
        numbered = bool(self._sent_lease_id) and self.holds_lease(now)
        return numbered or sent.key != newest.key

    def gave_up(self, now: float) -> None:
        """The call under way was ended without an answer, for what is to be sent instead."""
        self._sent = None
        self._gave_up = True
        # The one in use may be why there was no answer.
        self._new_connection = True
        self._call_next(now, now)

    def answered(
        self, response: pb.RegisterPoolResponse, now: float, *, instance: str = ""
    ) -> None:
        """The call that was sent succeeded; `instance` is the one that answered, if it said so."""
        sent, self._sent = self._sent, None
        self._gave_up = False
        self._lease_seconds = max(1.0, float(response.lease_duration_secs))
        told = max(1.0, float(response.heartbeat_interval_secs))
        self._interval = told if 2 * told <= self._lease_seconds else self._lease_seconds / 3
        self._retry = FIRST_RETRY_SECONDS
        self._not_before.pop(self._servers.current, None)
        self._servers.begin_round()
        self._last_success = now
        self._failing = False
        self._due = self._sent_at + self._interval if sent is self._registration else now
        if sent is not None and sent.key == self._key:
            ends_at = self._sent_at + self._lease_seconds
            self._lease = HeldLease(self._lease_seconds, self._interval, ends_at)
            if response.lease_id != self._lease_id:
                self._holders.clear()
            if instance:
                self._holders.add(instance)
            self._granted_by = self._servers.current
            self._lease_id = response.lease_id
            self._can_withdraw = bool(response.lease_id)

    def failed(self, error: CallFailed, now: float) -> None:
        """The call that was sent failed, in whatever way."""
        sent, self._sent = self._sent, None
        self._gave_up = False
        self._failing = True
        self._last_error = error
        if error.details.retry_after > 0:
            wait = min(error.details.retry_after, self._lease_seconds)
            self._not_before[self._servers.current] = now + wait
        if error.code not in _ABOUT_THE_CALL:
            self._servers.move_on()
            self._new_connection = True
        if error.code is grpc.StatusCode.FAILED_PRECONDITION and _is_of(sent, self._key):
            self._forget_lease()
            self._held_until = now + self._lease_seconds
        elif sent is not self._registration or self._repeats(error, now):
            self._call_next(now, now)
        else:
            self._back_off(now)

    def not_withdrawn(self, error: CallFailed) -> None:
        """A withdrawal failed: the lease ends by itself.

        That a server knows no withdrawal is told by the state, and is no error. Only
        the first answer tells that or NOT_FOUND; from the servers that are tried
        after the one that granted the lease neither says anything.
        """
        nothing_new = {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNIMPLEMENTED}
        if self._withdrawal_failed and error.code in nothing_new:
            return
        self._withdrawal_failed = True
        if error.code is grpc.StatusCode.UNIMPLEMENTED:
            self._can_withdraw = False
            return
        self._failing = True
        self._last_error = error

    def withdrew(self) -> None:
        """The registration was withdrawn; there is nothing more to send."""
        self._forget_lease()
        self._registration = None
        self._failing = False
        self._withdrawn = True

    # -- the rules -----------------------------------------------------------

    def _repeats(self, error: CallFailed, now: float) -> bool:
        """Whether the call is repeated at once, at another instance, which is then current."""
        if error.code is not grpc.StatusCode.UNAVAILABLE:
            return False
        while self._servers.repeat_at_once():
            if self._not_before.get(self._servers.current, now) <= now:
                return True
            self._servers.move_on()
        return False

    def _back_off(self, now: float) -> None:
        self._servers.begin_round()
        retry, self._retry = self._retry, min(2 * self._retry, self._interval)
        self._call_next(now, now + retry)

    def _call_next(self, now: float, due: float) -> None:
        """The next call is due then, or later where all asked for time, or at the last chance."""
        self._due = due
        self._choose_willing()
        last_chance = self._last_chance
        if self._due <= now or last_chance is None or self._sent_at >= last_chance:
            return
        # A try shortly before the last chance would be under way when it comes.
        if (
            self._due > last_chance - LAST_CHANCE_SECONDS
            and now < last_chance + LAST_CHANCE_SECONDS
        ):
            self._due = max(now, last_chance)

    def _choose_willing(self) -> None:
        """Passes over the servers that asked not to be called by then, else waits for the first."""
        waits = {server: self._not_before.get(server, 0.0) for server in self._servers.in_turn()}
        willing = next((server for server in waits if waits[server] <= self._due), None)
        chosen = willing or min(waits, key=waits.__getitem__)
        self._due = max(self._due, waits[chosen])
        if chosen != self._servers.current:
            self._servers.go_to(chosen)
            self._new_connection = True

    def _timeout(self, now: float) -> float:
        """The deadline of a call sent now; it does not outlast the last chance of the lease."""
        last_chance = self._last_chance
        if last_chance is None or now >= last_chance:
            return self.call_seconds
        return min(self.call_seconds, max(last_chance - now, SHORTEST_CALL_SECONDS))

    @property
    def _last_chance(self) -> float | None:
        return self._lease.ends_at - LAST_CHANCE_SECONDS if self._lease else None

    def _forget_lease(self) -> None:
        self._lease = None
        self._lease_id = ""
        self._holders.clear()
        self._retry = FIRST_RETRY_SECONDS


def _is_of(sent: pool_pb2.PoolRegistration | None, key: pool_pb2.PoolKey | None) -> bool:
    return sent is not None and sent.key == key
