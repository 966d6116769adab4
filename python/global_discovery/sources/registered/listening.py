"""When this instance could hear heartbeats, and what its silence costs the relays: nothing.

A *deaf phase* is a time in which renewals could not be heard: before the
instance was ready, and every stop, suspension or blocked loop longer than a
heartbeat interval. It is over when the instance *listens* again: with the first
registration or renewal that it takes afterwards, and at the latest one lease
afterwards. Every lease that ran when the phase began ends no earlier than one
lease after that. A further phase may begin before that; it is one of its own
and does not move the end of the earlier one, so that no chain of phases keeps a
lease for longer than its extensions.

Stalls are measured on the clock that runs while suspended, leases on the one
that does not. What is not covered: an instance that runs but whose packets do
not arrive; for that there is the mass lapse.
"""

from bisect import bisect_left
from dataclasses import dataclass

from global_discovery.domain.clock import Clock
from global_discovery.domain.completeness import Reason
from global_discovery.domain.lease import LeaseTerms
from global_discovery.sources.registered.shares import Share

MAX_EXTENSIONS = 3


@dataclass(slots=True)
class DeafPhase:
    """Times are on the monotonic clock; `began` of the first one is minus infinity."""

    index: int
    began: float
    over: float
    """When the process was ready, or its loop ran again."""
    listens: float | None = None


class Listening:
    """Follows the deaf phases of one instance."""

    def __init__(self, *, terms: LeaseTerms, clock: Clock) -> None:
        """Deaf until `ready` is called."""
        self._terms = terms
        self._clock = clock
        self._alive = (clock.monotonic(), clock.boottime())
        self._phases: list[DeafPhase] = [DeafPhase(0, float("-inf"), float("inf"))]
        self._begun = 1
        self.start_lease = float(terms.lease_duration)
        """The longest lease that may have run before the start, in seconds."""
        self.longest_lease = self.start_lease
        """The longest that any share was ever granted here."""

    @property
    def next_phase(self) -> int:
        """The index that the next deaf phase will have."""
        return self._begun

    @property
    def alive_at(self) -> float:
        """When the loop was last known to run."""
        return self._alive[0]

    def found(self, granted: float) -> None:
        """A share with this lease was found in the store; before `ready` it is one of the start."""
        if granted > self.longest_lease:
            self.longest_lease = granted
            if self._phases[0].over == float("inf"):
                self.start_lease = granted

    def ready(self) -> None:
        """The instance can be reached from now on."""
        self._phases[0].over = self._clock.monotonic()

    def notice_stall(self) -> float:
        """Called whenever the loop runs. How long it did not, in seconds, if that was a stall.

        A stall before the instance is ready is part of its start.
        """
        now, boottime = self._clock.monotonic(), self._clock.boottime()
        then, boottime_then = self._alive
        self._alive = (now, boottime)
        gap = boottime - boottime_then
        if gap <= self._terms.heartbeat_interval:
            return 0.0
        if self._phases[-1].over <= now:
            self._phases.append(DeafPhase(self._begun, then, now))
            self._begun += 1
        return gap

    def heard(self, now: float) -> None:
        """A registration or renewal was taken."""
        if self._phases[-1].listens is not None:
            return  # as nearly always
        self._settle(now)
        for phase in reversed(self._phases):
            if phase.listens is not None:
                break
            if phase.over <= now:
                phase.listens = now

    def reasons(self, now: float) -> set[Reason]:
        """STARTING and STALLED, each for one lease after the instance listens."""
        self._settle(now)
        lease = float(self._terms.lease_duration)
        reasons = set()
        for phase in self._phases:
            starting = phase.index == 0
            whole = self.start_lease if starting else lease
            if phase.listens is None or now < phase.listens + whole:
                reasons.add(Reason.STARTING if starting else Reason.STALLED)
        return reasons

    def extend(self, share: Share, now: float) -> int:
        """Moves the deadline of a share whose lease has come to its end, as far as it is due.

        How often it was extended; it may also have been moved provisionally,
        until the instance listens, which is no extension yet.
        """
        self._settle(now)
        before = share.extensions
        first = bisect_left(self._phases, share.phase, key=lambda phase: phase.index)
        for phase in self._phases[first:]:
            if share.deadline > now or share.extensions >= MAX_EXTENSIONS:
                break
            ran = phase.began < share.deadline
            if ran and phase.listens is None:
                latest = self._latest_listening(phase)
                share.deadline = min(latest, now + self._terms.lease_duration)
                break
            share.phase = phase.index + 1
            if ran and phase.listens is not None and phase.listens > share.counted_from:
                share.counted_from = phase.listens
                share.deadline = max(share.deadline, phase.listens + share.granted)
                share.extensions += 1
        return share.extensions - before

    def foresee(self, share: Share, now: float) -> tuple[float, int]:
        """When the lease ends at the earliest if nobody renews it, and how often extended by then.

        What `extend` will do when the lease comes due, ahead of time: a share that
        waits for the instance to listen has one whole lease from now on.
        """
        self._settle(now)
        deadline, counted_from, extensions = share.deadline, share.counted_from, share.extensions
        first = bisect_left(self._phases, share.phase, key=lambda phase: phase.index)
        for phase in self._phases[first:]:
            listens = now if phase.listens is None else phase.listens
            due = phase.began < deadline and listens > counted_from
            if due and extensions < MAX_EXTENSIONS:
                counted_from, extensions = listens, extensions + 1
                deadline = max(deadline, listens + share.granted)
        return deadline, extensions

    def _latest_listening(self, phase: DeafPhase) -> float:
        return phase.over + self._terms.lease_duration

    def _settle(self, now: float) -> None:
        """Ends the phases in which nobody called for a whole lease."""
        for phase in reversed(self._phases):
            if phase.listens is not None:
                break
            if self._latest_listening(phase) <= now:
                phase.listens = self._latest_listening(phase)

    def forget(self, now: float) -> None:
        """Drops phases that no lease depends on, once every lease that was due was looked at.

        The remaining leases are counted from a moment later than these phases.
        """
        horizon = now - self.longest_lease
        while len(self._phases) > 1 and (self._phases[0].listens or now) < horizon:
            del self._phases[0]
