"""The registered pools: every share, its lease, and the list that follows from them.

This is the one place where a lease begins, is renewed and ends. It is
synchronous and does no input or output; `tick` must be called about ten times a
second, from the loop that also takes the calls. A renewal costs constant work
and changes nothing that a watcher could see; one `tick` looks at a bounded
number of leases and says whether there are more.

Guaranteed: a pool is listed from its registration until its last share is
withdrawn or its lease has ended; it leaves at the lease's end at the earliest
and within one second of it. Not guaranteed here: durability, which is the
store's.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from global_discovery.domain.change import Change, Departure
from global_discovery.domain.clock import Clock
from global_discovery.domain.completeness import (
    RENEWALS_MAY_BE_MISSED_ELSEWHERE,
    Mark,
    Reason,
)
from global_discovery.domain.errors import LeaseWithdrawn, TooManyShares
from global_discovery.domain.events import Event, Report, ignore
from global_discovery.domain.lease import Heartbeat, LeaseTerms, Withdrawal
from global_discovery.domain.pool import Pool, PoolKey
from global_discovery.domain.timing_wheel import TimingWheel
from global_discovery.sources.listening import Listening
from global_discovery.sources.mass_lapse import MassLapse
from global_discovery.sources.shares import MAX_SHARES, PoolShares, Share, identity_of
from global_discovery.sources.source import Update

OWN_STORE_BOUND = 1.0
LEASES_A_TICK = 2_500
LAPSES_TOLD_ONE_BY_ONE = 20


class Effect(Enum):
    """What a heartbeat did to its share."""

    NONE = 0
    """It was overtaken by a later one."""
    RENEWED = 1
    """Its lease was renewed, and nothing else."""
    CHANGED = 2
    """It began, began anew, or its content or relays changed."""


@dataclass(slots=True)
class Counters:
    """How often things happened since the start."""

    registrations: int = 0
    renewals: int = 0
    withdrawals: int = 0
    lapses: int = 0
    extensions: int = 0
    stalls: int = 0
    mass_lapses: int = 0


def new_lease_id() -> str:
    """An id that nobody guesses and nobody had before: 16 characters, 96 bits."""
    return secrets.token_urlsafe(12)


class Registrations:
    """The shares of all pools, as a source of pools."""

    def __init__(
        self,
        *,
        terms: LeaseTerms,
        clock: Clock,
        report: Report = ignore,
        mass_lapse_protection: bool = True,
        lease_id: Callable[[], str] = new_lease_id,
    ) -> None:
        """Takes calls only after `ready`."""
        self.terms = terms
        self.counters = Counters()
        self._clock = clock
        self._report = report
        self._new_lease_id = lease_id
        now = clock.monotonic()
        self._listening = Listening(terms=terms, clock=clock)
        self._mass_lapse = MassLapse(
            lease_duration=terms.lease_duration, enabled=mass_lapse_protection
        )
        self._wheel: TimingWheel[Share] = TimingWheel(
            now=now, deadline_of=lambda share: share.deadline
        )
        self._pools: OrderedDict[PoolKey, PoolShares] = OrderedDict()
        """In the order of their last renewal, the longest ago first."""
        self._by_lease: dict[str, Share] = {}
        self._withdrawn: OrderedDict[str, float] = OrderedDict()
        """Withdrawn ids, and until when they are remembered."""
        self._listed: dict[PoolKey, Pool] = {}
        self._dirty: dict[PoolKey, Departure | None] = {}
        self._told_mark: Mark | None = None
        self._wake: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        """How many pools are registered."""
        return len(self._pools)

    @property
    def shares(self) -> int:
        """How many shares are live."""
        return len(self._by_lease)

    def ready(self) -> None:
        """Callers can reach this instance from now on."""
        self._notice_stall()
        self._listening.ready()
        self._wake()

    # -- calls ---------------------------------------------------------------

    def register(self, heartbeat: Heartbeat) -> tuple[Share, Effect]:
        """Registers or renews a share; the second value says what that did to it.

        Raises LeaseWithdrawn and TooManyShares, and has then changed nothing.
        """
        now = self._notice_stall()
        if heartbeat.lease_id in self._withdrawn:
            raise LeaseWithdrawn
        key = heartbeat.registration.key
        share = self._by_lease.get(heartbeat.lease_id)
        if share is not None and share.key == key:
            if heartbeat.sequence and heartbeat.sequence < share.sequence:
                return share, Effect.NONE
            changed = self._set_content(share, heartbeat, now, same_caller=True)
            effect = Effect.CHANGED if changed else Effect.RENEWED
        else:
            share = self._begin(heartbeat, now)
            effect = Effect.CHANGED
        share.sequence = heartbeat.sequence or share.sequence
        self._renew(share, now)
        self._listening.heard(now)
        return share, effect

    def renew(self, lease_ids: Sequence[str]) -> tuple[list[Share], list[str]]:
        """Renews shares by their current ids; gives them, and the ids that are not current."""
        now = self._notice_stall()
        renewed: list[Share] = []
        unknown: list[str] = []
        for lease_id in lease_ids:
            share = self._by_lease.get(lease_id)
            if share is None:
                unknown.append(lease_id)
            else:
                self._renew(share, now)
                renewed.append(share)
        if renewed:
            self._listening.heard(now)
        return renewed, unknown

    def find(self, withdrawal: Withdrawal) -> list[Share]:
        """The live shares that a withdrawal names; none when there is no such share."""
        pool = self._pools.get(withdrawal.key)
        if pool is None:
            return []
        if withdrawal.all_shares:
            return list(pool.shares.values())
        if withdrawal.lease_ids:
            current = map(self._by_lease.get, withdrawal.lease_ids)
            return [share for share in current if share and share.key == withdrawal.key]
        identity = identity_of(withdrawal.relay_id, withdrawal.relays, withdrawal.caller)
        share = pool.shares.get(identity)
        return [share] if share else []

    def withdraw(self, lease_ids: Iterable[str], *, caller: str) -> int:
        """Ends the shares with these current ids, and remembers the ids; how many ended."""
        now = self._notice_stall()
        ended = 0
        for lease_id in lease_ids:
            self._withdrawn[lease_id] = now + self.terms.withdrawn_memory
            self._withdrawn.move_to_end(lease_id)
            share = self._by_lease.get(lease_id)
            if share is not None:
                ended += 1
                self.counters.withdrawals += 1
                if self._end(share, Departure.REMOVED):
                    self._report(Event.POOL_WITHDRAWN, pool=str(share.key), caller=caller)
        return ended

    # -- time ----------------------------------------------------------------

    def tick(self) -> bool:
        """Ends the leases that are due; True when there are more, for which to call again soon."""
        now = self._notice_stall()
        self._forget_withdrawn(now)
        self._end_due(now)
        if self._mark(now) != self._told_mark:
            self._wake()
        behind = self._wheel.behind(now)
        if not behind:
            self._listening.forget(now)
            if self._mass_lapse.over(now):
                self._report(Event.MASS_LAPSE_ENDED)
        return behind

    def _end_due(self, now: float) -> None:
        ending: list[Share] = []
        extended = 0
        for share in self._wheel.take_due(now, LEASES_A_TICK):
            extended += self._listening.extend(share, now)
            if share.deadline > now:
                self._wheel.add(share)
            else:
                ending.append(share)
        if extended:
            self.counters.extensions += extended
            self._report(Event.LEASES_EXTENDED, leases=extended)
        if ending:
            self._lapse(ending, now)

    def _lapse(self, ending: list[Share], now: float) -> None:
        if self._mass_lapse.may_begin(now):
            registered, overdue = len(self._pools), self._overdue(now)
            if self._mass_lapse.lease_ended(now, registered=registered, overdue=overdue):
                self.counters.mass_lapses += 1
                self._report(
                    Event.MASS_LAPSE_BEGAN, registered=registered, overdue_at_least=overdue
                )
        doubtful = bool(self._reasons(now) & RENEWALS_MAY_BE_MISSED_ELSEWHERE)
        gone: dict[PoolKey, Departure] = {}
        for share in ending:
            # By when its lease ended, not by when that was seen.
            unlisted = doubtful or self._mass_lapse.active(share.deadline)
            departure = Departure.UNLISTED if unlisted else Departure.REMOVED
            if self._end(share, departure):
                gone[share.key] = departure
        self.counters.lapses += len(ending)
        self._tell_gone(gone)

    def _tell_gone(self, gone: dict[PoolKey, Departure]) -> None:
        for key, departure in islice(gone.items(), LAPSES_TOLD_ONE_BY_ONE):
            self._report(Event.POOL_LAPSED, pool=str(key), departure=departure.value)
        if len(gone) > LAPSES_TOLD_ONE_BY_ONE:
            unlisted = sum(departure is Departure.UNLISTED for departure in gone.values())
            self._report(Event.POOLS_LAPSED, pools=len(gone), unlisted=unlisted)

    def _overdue(self, now: float) -> int:
        """How many pools are overdue, counted only as far as a mass lapse needs it."""
        horizon = now - self.terms.overdue_after
        enough = self._mass_lapse.overdue_needed(len(self._pools))
        overdue = 0
        for pool in self._pools.values():
            if overdue == enough or pool.last_renewal >= horizon:
                break
            overdue += 1
        return overdue

    def _forget_withdrawn(self, now: float) -> None:
        while self._withdrawn and next(iter(self._withdrawn.values())) <= now:
            self._withdrawn.popitem(last=False)

    def _notice_stall(self) -> float:
        """What every entrance does first; the time."""
        seconds = self._listening.notice_stall()
        if seconds:
            self.counters.stalls += 1
            self._report(Event.STALLED, seconds=round(seconds, 3))
            self._wake()
        return self._listening.alive_at

    # -- the source ----------------------------------------------------------

    def on_change(self, wake: Callable[[], None]) -> None:
        """See Source."""
        self._wake = wake

    def drain(self) -> Update[PoolKey, Pool]:
        """See Source."""
        self._notice_stall()
        dirty, self._dirty = self._dirty, {}
        wall = self._clock.wall()
        changes = []
        for key, departure in dirty.items():
            change = self._change(key, departure, wall)
            if change is not None:
                changes.append(change)
        self._told_mark = self._mark(self._clock.monotonic())
        return Update(changes, self._told_mark)

    def _change(
        self, key: PoolKey, departure: Departure | None, wall: float
    ) -> Change[PoolKey, Pool] | None:
        pool, before = self._pools.get(key), self._listed.get(key)
        if pool is None:
            self._listed.pop(key, None)
            return Change(key, None, departure)
        content, relays = pool.listed_content(), pool.listed_relays()
        entered = pool.registered_time
        changed = entered
        if before is not None and before.registered_time == entered:
            if (before.content, before.relays) == (content, relays):
                return None
            changed = wall
        listed = self._listed[key] = Pool(key, content, relays, entered, changed)
        return Change(key, listed)

    def _reasons(self, now: float) -> set[Reason]:
        reasons = self._listening.reasons(now)
        if self._mass_lapse.active(now):
            reasons.add(Reason.MASS_LAPSE)
        return reasons

    def _mark(self, now: float) -> Mark:
        return Mark(frozenset(self._reasons(now)), OWN_STORE_BOUND)

    # -- shares --------------------------------------------------------------

    def _begin(self, heartbeat: Heartbeat, now: float) -> Share:
        """A new share, or a new incarnation of the caller's share."""
        registration = heartbeat.registration
        pool = self._pools.get(registration.key)
        identity = identity_of(heartbeat.relay_id, registration.relays, heartbeat.caller)
        share = pool.shares.get(identity) if pool else None
        if share is None:
            share = self._add_share(pool, heartbeat, identity)
        else:
            del self._by_lease[share.lease_id]
            self._set_content(share, heartbeat, now, same_caller=False)
        share.lease_id = self._new_lease_id()
        share.sequence = 0
        share.granted = float(self.terms.lease_duration)
        self._by_lease[share.lease_id] = share
        return share

    def _add_share(
        self, pool: PoolShares | None, heartbeat: Heartbeat, identity: tuple[str, str]
    ) -> Share:
        key = heartbeat.registration.key
        if pool is None:
            pool = self._pools[key] = PoolShares(key, registered_time=self._clock.wall())
            self._report(Event.POOL_REGISTERED, pool=str(key), caller=heartbeat.caller)
        elif len(pool.shares) >= MAX_SHARES:
            raise TooManyShares(MAX_SHARES, retry_after=float(self.terms.lease_duration))
        share = Share(heartbeat, identity, phase=self._listening.next_phase)
        share.deadline = self._clock.monotonic() + self.terms.lease_duration
        pool.shares[identity] = share
        pool.set_content(share, share.content)
        self._wheel.add(share)
        self.counters.registrations += 1
        self._changed(pool)
        return share

    def _set_content(
        self, share: Share, heartbeat: Heartbeat, now: float, *, same_caller: bool
    ) -> bool:
        """Takes what the call says of the pool; whether that is a change."""
        content = heartbeat.registration.content
        relays = heartbeat.registration.relays or share.relays
        same_content = content is share.content or content == share.content
        if same_content and relays == share.relays:
            return False
        if not same_caller and share.goes_back(content, relays, now):
            self._report(Event.RELAY_ID_NEEDED, pool=str(share.key), caller=heartbeat.caller)
        pool = self._pools[share.key]
        share.leave(now)
        share.relays = relays
        if not same_content:
            pool.set_content(share, content)
        self._changed(pool)
        return True

    def _renew(self, share: Share, now: float) -> None:
        share.counted_from = now
        share.deadline = now + share.granted
        share.extensions = 0
        pool = self._pools[share.key]
        pool.last_renewal = now
        self._pools.move_to_end(share.key)
        self.counters.renewals += 1

    def _end(self, share: Share, departure: Departure) -> bool:
        """Ends a share; whether its pool leaves with it."""
        del self._by_lease[share.lease_id]
        self._wheel.discard(share)
        pool = self._pools[share.key]
        del pool.shares[share.identity]
        if pool.shares:
            self._changed(pool)
            return False
        del self._pools[share.key]
        self._dirty.pop(share.key, None)
        self._dirty[share.key] = departure
        self._wake()
        return True

    def _changed(self, pool: PoolShares) -> None:
        if pool.begins_to_disagree():
            self._report(Event.RELAYS_DISAGREE, pool=str(pool.key), relays=len(pool.shares))
        self._dirty[pool.key] = None
        self._wake()
