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

from collections.abc import Callable, Iterable, Iterator, KeysView, Sequence
from itertools import islice

from global_discovery.domain.access import EVERY_KEY, Scope
from global_discovery.domain.change import Departure
from global_discovery.domain.clock import Clock
from global_discovery.domain.completeness import (
    RENEWALS_MAY_BE_MISSED_ELSEWHERE,
    Mark,
    Reason,
)
from global_discovery.domain.errors import LeaseWithdrawn
from global_discovery.domain.events import Event, Report, ignore
from global_discovery.domain.explanation import RegistrationSide
from global_discovery.domain.lease import Heartbeat, LeaseTerms, Withdrawal
from global_discovery.domain.pool import Pool, PoolKey
from global_discovery.domain.timing_wheel import SLOT_SECONDS
from global_discovery.sources.registered.admission import RegistrationLimits
from global_discovery.sources.registered.audit import last_fields, relay_name
from global_discovery.sources.registered.explained_shares import explain_shares
from global_discovery.sources.registered.found_shares import FoundShares
from global_discovery.sources.registered.lease_states import LeaseState, count_leases
from global_discovery.sources.registered.listening import Listening
from global_discovery.sources.registered.mass_lapse import MassLapse
from global_discovery.sources.registered.outcomes import Effect, Renewed
from global_discovery.sources.registered.share_table import ShareTable, new_lease_id
from global_discovery.sources.registered.shares import Share
from global_discovery.sources.registered.store_doubts import StoreDoubts
from global_discovery.sources.registered.withdrawn_ids import WithdrawnIds
from global_discovery.sources.source import Update
from global_discovery.storage.store import MovedLease, Reading, SeenShare, StoredShare, StoreState

LEASES_A_TICK = 2_500
LAPSES_TOLD_ONE_BY_ONE = 20
WHEEL_DELAY = 2 * SLOT_SECONDS
"""A lease that ended longer ago than this has been looked at."""


class Registrations:
    """The shares of all pools, as a source of pools."""

    def __init__(  # noqa: PLR0913 - by keyword, and most have a default
        self,
        *,
        terms: LeaseTerms,
        clock: Clock,
        report: Report = ignore,
        mass_lapse_protection: bool = True,
        lease_id: Callable[[], str] = new_lease_id,
        store: Callable[[], StoreState] = StoreState,
        shared: bool = False,
        limits: RegistrationLimits | None = None,
    ) -> None:
        """Takes calls only after `ready`.

        `store` says how the store is doing; `shared` whether other instances
        write it too.
        """
        self.terms = terms
        self._clock = clock
        self._report = report
        self._listening = Listening(terms=terms, clock=clock)
        self._mass_lapse = MassLapse(
            lease_duration=terms.lease_duration, enabled=mass_lapse_protection
        )
        self._doubts = StoreDoubts(store, clock.monotonic())
        self._table = ShareTable(
            terms=terms,
            clock=clock,
            report=report,
            lease_id=lease_id,
            shared=shared,
            limits=limits or RegistrationLimits(),
        )
        self.counters = self._table.counters
        self._withdrawn = WithdrawnIds()
        self._found = FoundShares(self._table, self._listening, self._withdrawn, report)
        self._shared = shared
        self._store = store
        self._waiting: list[Share] = []
        """Their leases have ended, unless another instance renewed them just before that."""
        self._moved: list[MovedLease] = []
        self._judged = clock.monotonic()
        self._told_mark: Mark | None = None
        self._heard_at: float | None = None

    def __len__(self) -> int:
        """How many pools are registered."""
        return len(self._table.pools)

    @property
    def shares(self) -> int:
        """How many shares are live."""
        return len(self._table.by_lease)

    @property
    def heartbeat_age(self) -> float | None:
        """Seconds since this instance last took a registration or a renewal; None before one."""
        return None if self._heard_at is None else self._clock.monotonic() - self._heard_at

    def leases(self) -> dict[LeaseState, int]:
        """How many leases are in each state, now."""
        return count_leases(
            self._table.by_lease.values(), terms=self.terms, now=self._clock.monotonic()
        )

    @property
    def waits_for_a_reading(self) -> bool:
        """Whether leases have ended of which a later reading may say otherwise."""
        return bool(self._waiting)

    def ready(self) -> None:
        """Callers can reach this instance from now on."""
        self._notice_stall()
        self._listening.ready()
        self._table.wake()

    # -- what a store had ------------------------------------------------------

    def begin_restoring(self, reading: Reading) -> float:
        """What must be known of a first reading before its shares are taken in portions; the time.

        The reading was handed over now.
        """
        now = self._notice_stall()
        self._found.withdraw(reading.withdrawn.items(), now)
        granted = (seen.share.granted for seen in reading.shares if seen.remaining > 0)
        self._listening.found(max(granted, default=0.0))
        self._listening.found(reading.longest_lease)
        return now

    def restore(self, shares: Sequence[SeenShare], since: float) -> None:
        """Takes a portion of a first reading, which was handed over at `since`."""
        self._notice_stall()
        if self._shared:
            self._found.see(shares, since)
        else:
            self.counters.restored += self._found.restore(shares, since)

    def take(self, reading: Reading) -> None:
        """Takes a later reading of a shared store, handed over now."""
        now = self._notice_stall()
        self._found.withdraw(reading.withdrawn.items(), now)
        self._found.see(reading.shares, now)

    def store_changed(self) -> None:
        """The store may have something new to say of itself."""
        self._table.wake()

    def knows(self, lease_id: str) -> bool:
        """Whether the id is current, or remembered as withdrawn."""
        return lease_id in self._table.by_lease or lease_id in self._withdrawn

    def stored(self, share: Share) -> StoredShare:
        """A live share as a store keeps it."""
        return self._table.stored(share)

    def take_judged(self) -> tuple[float, list[MovedLease]]:
        """Up to when lease ends were judged, and the leases that were moved since the last call."""
        moved, self._moved = self._moved, []
        return self._judged, moved

    # -- calls ---------------------------------------------------------------

    def register(self, heartbeat: Heartbeat) -> tuple[Share, Effect]:
        """Registers or renews a share; the second value says what that did to it.

        Raises LeaseWithdrawn, TooManyShares and LimitReached, and has then changed nothing.
        """
        now = self._notice_stall()
        if heartbeat.lease_id in self._withdrawn:
            raise LeaseWithdrawn
        key = heartbeat.registration.key
        share = self._table.by_lease.get(heartbeat.lease_id)
        if share is not None and share.key == key:
            if heartbeat.sequence and heartbeat.sequence < share.sequence:
                return share, Effect.NONE
            changed = self._table.set_content(share, heartbeat, now, same_caller=True)
            effect = Effect.CHANGED if changed else Effect.RENEWED
        else:
            share = self._table.begin(heartbeat, now, phase=self._listening.next_phase)
            effect = Effect.CHANGED
        share.sequence = heartbeat.sequence or share.sequence
        if self._table.renew(share, now) and effect is Effect.RENEWED:
            effect = Effect.CHANGED
        self._heard(now)
        return share, effect

    def renew(self, lease_ids: Sequence[str], scope: Scope = EVERY_KEY) -> Renewed:
        """Renews shares by their current ids; those of pools outside `scope` are unknown."""
        now = self._notice_stall()
        renewed: list[str] = []
        unknown: list[str] = []
        regranted: list[Share] = []
        for lease_id in lease_ids:
            share = self._table.by_lease.get(lease_id)
            if share is None or not scope.holds(share.key):
                unknown.append(lease_id)
            else:
                if self._table.renew(share, now):
                    regranted.append(share)
                renewed.append(lease_id)
        if renewed:
            self._heard(now)
        return Renewed(renewed, unknown, regranted)

    def _heard(self, now: float) -> None:
        self._heard_at = now
        self._listening.heard(now)

    def find(self, withdrawal: Withdrawal) -> list[Share]:
        """See ShareTable."""
        return self._table.find(withdrawal)

    def withdraw(self, lease_ids: Iterable[str], *, caller: str, identity: str = "") -> int:
        """Ends the shares with these current ids, and remembers the ids; how many ended.

        `caller` and `identity` are told.
        """
        now = self._notice_stall()
        ended = 0
        for lease_id in lease_ids:
            self._withdrawn.add(lease_id, now + self.terms.withdrawn_memory)
            share = self._table.by_lease.get(lease_id)
            if share is not None:
                ended += 1
                self.counters.withdrawals += 1
                if self._table.end(
                    share, Departure.REMOVED, withdrawn_by=caller, identity=identity
                ):
                    self._report(
                        Event.POOL_WITHDRAWN,
                        pool=str(share.key),
                        caller=caller,
                        identity=identity,
                        relay=relay_name(share.identity),
                        **last_fields(share),
                    )
        return ended

    # -- for people ----------------------------------------------------------

    def keys(self) -> KeysView[PoolKey]:
        """The registered pools; those that were renewed longest ago come first."""
        return self._table.pools.keys()

    def overdue(self) -> Iterator[PoolKey]:
        """The pools that missed a heartbeat; those that were renewed longest ago come first."""
        horizon = self._clock.monotonic() - self.terms.overdue_after
        for key, pool in self._table.pools.items():
            if pool.last_renewal >= horizon:
                return
            yield key

    def disagreeing(self) -> Iterator[PoolKey]:
        """The pools whose live relays register different content."""
        return (key for key, pool in self._table.pools.items() if pool.disagreeing)

    def explain(self, key: PoolKey) -> RegistrationSide:
        """What is known of a key, registered or not."""
        return explain_shares(self._table, self._listening, key, self._notice_stall())

    # -- time ----------------------------------------------------------------

    def tick(self) -> bool:
        """Ends the leases that are due; True when there are more, for which to call again soon."""
        now = self._notice_stall()
        self._withdrawn.forget(now)
        self._end_due(now)
        if self._mark(now) != self._told_mark:
            self._table.wake()
        behind = self._table.wheel.behind(now)
        if not behind:
            self._judged = now - WHEEL_DELAY
            self._listening.forget(now)
            if self._mass_lapse.over(now):
                self._report(Event.MASS_LAPSE_ENDED)
        return behind

    def _end_due(self, now: float) -> None:
        ending: list[Share] = []
        extended = 0
        waited, self._waiting = self._waiting, []
        due = [*waited, *self._table.wheel.take_due(now, LEASES_A_TICK)]
        store = self._store() if due else StoreState()
        for share in due:
            if self._table.by_lease.get(share.lease_id) is not share:
                continue  # it was withdrawn while it waited
            before = share.deadline
            extended += self._listening.extend(share, now)
            if share.deadline > now:
                self._table.wheel.discard(share)  # it may be there again since it waits
                self._table.wheel.add(share)
                if share.deadline != before:
                    self._moved.append(MovedLease(share.lease_id, share.deadline, share.extensions))
            elif _may_be_renewed(share, now, store):
                self._waiting.append(share)
            else:
                ending.append(share)
        if extended:
            self.counters.extensions += extended
            self._report(Event.LEASES_EXTENDED, leases=extended)
        if ending:
            self._lapse(ending, now)

    def _lapse(self, ending: list[Share], now: float) -> None:
        if self._mass_lapse.may_begin(now):
            registered = len(self._table.pools)
            overdue = self._table.overdue(
                now - self.terms.overdue_after, self._mass_lapse.overdue_needed(registered)
            )
            if self._mass_lapse.lease_ended(now, registered=registered, overdue=overdue):
                self.counters.mass_lapses += 1
                self._report(
                    Event.MASS_LAPSE_BEGAN, registered=registered, overdue_at_least=overdue
                )
        doubtful = bool(self._reasons(now) & RENEWALS_MAY_BE_MISSED_ELSEWHERE)
        gone: dict[PoolKey, tuple[Departure, Share]] = {}
        left = 0
        for share in ending:
            # By when its lease ended, not by when that was seen.
            unlisted = (
                doubtful
                or not share.confirmed
                or self._mass_lapse.active(share.deadline)
                or self._doubts.held_at(share.deadline)
            )
            departure = Departure.UNLISTED if unlisted else Departure.REMOVED
            quiet = left >= LAPSES_TOLD_ONE_BY_ONE
            if self._table.end(share, departure, quiet=quiet):
                gone[share.key] = departure, share
            else:
                left += 1
        if left > LAPSES_TOLD_ONE_BY_ONE:
            self._report(Event.SHARES_LAPSED, shares=left)
        self.counters.lapses += len(ending)
        self._tell_gone(gone)

    def _tell_gone(self, gone: dict[PoolKey, tuple[Departure, Share]]) -> None:
        for key, (departure, share) in islice(gone.items(), LAPSES_TOLD_ONE_BY_ONE):
            self._report(
                Event.POOL_LAPSED,
                pool=str(key),
                departure=departure.value,
                relay=relay_name(share.identity),
                **last_fields(share),
            )
        if len(gone) > LAPSES_TOLD_ONE_BY_ONE:
            unlisted = sum(departure is Departure.UNLISTED for departure, _ in gone.values())
            self._report(Event.POOLS_LAPSED, pools=len(gone), unlisted=unlisted)

    def _notice_stall(self) -> float:
        """What every entrance does first; the time."""
        seconds = self._listening.notice_stall()
        if seconds:
            self.counters.stalls += 1
            self._report(Event.STALLED, seconds=round(seconds, 3))
            self._table.wake()
        return self._listening.alive_at

    # -- the source ----------------------------------------------------------

    def on_change(self, wake: Callable[[], None]) -> None:
        """See Source."""
        self._table.wake = wake

    def drain(self) -> Update[PoolKey, Pool]:
        """See Source."""
        self._notice_stall()
        changes = self._table.changes()
        self._told_mark = self._mark(self._clock.monotonic())
        return Update(changes, self._told_mark)

    def _reasons(self, now: float) -> set[Reason]:
        reasons = self._listening.reasons(now)
        reasons |= self._doubts.reasons(now, self._listening.longest_lease)
        if self._mass_lapse.active(now):
            reasons.add(Reason.MASS_LAPSE)
        return reasons

    def _mark(self, now: float) -> Mark:
        return Mark(frozenset(self._reasons(now)), self._doubts.bound)


def _may_be_renewed(share: Share, now: float, store: StoreState) -> bool:
    """Whether another instance may have renewed a lease before its end, and that was not read yet.

    Nothing is waited for longer than the bound: then the store itself is in doubt.
    """
    return store.read_until < share.deadline and now < share.deadline + store.bound
