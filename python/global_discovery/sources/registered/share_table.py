"""The table of shares: which are live, under which id, and what their pools list.

The share half of the registrations. It knows no rule about time but that a
renewed lease lasts as long as was granted, and reports what a watcher could
see: the pools that changed or left since somebody last asked.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from global_discovery.domain.change import Change, Departure
from global_discovery.domain.clock import Clock
from global_discovery.domain.errors import TooManyShares
from global_discovery.domain.events import Event, Report
from global_discovery.domain.lease import Heartbeat, LeaseTerms, Withdrawal
from global_discovery.domain.pool import Content, Pool, PoolKey
from global_discovery.domain.timing_wheel import TimingWheel
from global_discovery.sources.registered.admission import Admission, RegistrationLimits
from global_discovery.sources.registered.audit import (
    Listed,
    changed_fields,
    listed,
    new_fields,
    relay_name,
)
from global_discovery.sources.registered.ended_shares import EndedShares
from global_discovery.sources.registered.shares import (
    MAX_REPLACED,
    MAX_SHARES,
    Identity,
    PoolShares,
    Share,
    identity_of,
)
from global_discovery.storage.store import StoredShare


@dataclass(slots=True)
class Counters:
    """How often things happened since the start."""

    registrations: int = 0
    renewals: int = 0
    withdrawals: int = 0
    lapses: int = 0
    extensions: int = 0
    restored: int = 0
    stalls: int = 0
    mass_lapses: int = 0


def new_lease_id() -> str:
    """An id that nobody guesses and nobody had before: 16 characters, 96 bits."""
    return secrets.token_urlsafe(12)


class ShareTable:
    """The live shares of all pools. Times are on the monotonic clock."""

    def __init__(  # noqa: PLR0913 - made by Registrations only, by keyword
        self,
        *,
        terms: LeaseTerms,
        clock: Clock,
        report: Report,
        lease_id: Callable[[], str],
        shared: bool,
        limits: RegistrationLimits,
    ) -> None:
        """Empty. `shared` when readings of a shared store come in too."""
        self.counters = Counters()
        self.wheel: TimingWheel[Share] = TimingWheel(
            now=clock.monotonic(), deadline_of=lambda share: share.deadline
        )
        self.pools: OrderedDict[PoolKey, PoolShares] = OrderedDict()
        """In the order of their last renewal, the longest ago first."""
        self.by_lease: dict[str, Share] = {}
        self.ended = EndedShares()
        self.wake: Callable[[], None] = lambda: None
        """Called whenever there may be a change."""
        self._terms = terms
        self._granted = float(terms.lease_duration)
        self._shared = shared
        self._admission = Admission(limits, clock.monotonic, lease_seconds=self._granted)
        self._clock = clock
        self._report = report
        self._new_lease_id = lease_id
        self._listed: dict[PoolKey, Pool] = {}
        self._dirty: dict[PoolKey, Departure | None] = {}

    def find(self, withdrawal: Withdrawal) -> list[Share]:
        """The live shares that a withdrawal names; none when there is no such share."""
        pool = self.pools.get(withdrawal.key)
        if pool is None:
            return []
        if withdrawal.all_shares:
            return list(pool.shares.values())
        if withdrawal.lease_ids:
            current = map(self.by_lease.get, withdrawal.lease_ids)
            return [share for share in current if share and share.key == withdrawal.key]
        identity = identity_of(withdrawal.relay_id, withdrawal.relays, withdrawal.caller)
        share = pool.shares.get(identity)
        return [share] if share else []

    def overdue(self, horizon: float, enough: int) -> int:
        """How many pools were last renewed before `horizon`, counted up to `enough`."""
        overdue = 0
        for pool in self.pools.values():
            if overdue == enough or pool.last_renewal >= horizon:
                break
            overdue += 1
        return overdue

    def changes(self) -> list[Change[PoolKey, Pool]]:
        """What changed since the last call, each pool at most once."""
        dirty, self._dirty = self._dirty, {}
        wall = self._clock.wall()
        changes = (self._change(key, departure, wall) for key, departure in dirty.items())
        return [change for change in changes if change is not None]

    def _change(
        self, key: PoolKey, departure: Departure | None, wall: float
    ) -> Change[PoolKey, Pool] | None:
        pool, before = self.pools.get(key), self._listed.get(key)
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

    def begin(self, heartbeat: Heartbeat, now: float, *, phase: int) -> Share:
        """A new share, or a new incarnation of the caller's share.

        `phase` is the first deaf phase that may extend a new share. Raises
        TooManyShares and LimitReached, and has then changed nothing.
        """
        registration = heartbeat.registration
        pool = self.pools.get(registration.key)
        identity = identity_of(heartbeat.relay_id, registration.relays, heartbeat.caller)
        share = pool.shares.get(identity) if pool else None
        if share is None:
            if pool is not None and len(pool.shares) >= MAX_SHARES:
                raise TooManyShares(MAX_SHARES, retry_after=self._granted)
            share = self._first(heartbeat, identity, now, phase)
        else:
            older = share.lease_id
            self.rename(share, self._new_lease_id())
            if self._shared:
                share.replaced = (*share.replaced, older)[-MAX_REPLACED:]
            self.set_content(share, heartbeat, now, same_caller=False)
        share.sequence = 0
        share.granted = self._granted
        return share

    def _first(self, heartbeat: Heartbeat, identity: Identity, now: float, phase: int) -> Share:
        registration = heartbeat.registration
        key, relays = registration.key, registration.relays or (f"ip:{heartbeat.caller}",)
        pool = self.pools.get(key)
        self._admission.admit(
            heartbeat.account or heartbeat.caller,
            pools=len(self.pools),
            shares=len(self.by_lease),
            new_pool=pool is None,
        )
        share = Share(key, identity, registration.content, relays, phase=phase)
        who = _who(heartbeat)
        what = {"pool": str(key), "relay": relay_name(identity)}
        before = None
        if pool is None:
            new = new_fields((share.content, share.relays))
            self._report(Event.POOL_REGISTERED, **what, **who, **new)
        else:
            before = listed(pool)
            self._report(Event.SHARE_BEGAN, **what, **who, shares=len(pool.shares) + 1)
        share.lease_id = self._new_lease_id()
        share.deadline = now + self._granted
        number = pool.highest + 1 if pool else 1
        self.add(share, number=number, registered_time=self._clock.wall(), now=now)
        self.counters.registrations += 1
        if before is not None:
            self._tell_change(share, before, _who(heartbeat))
        return share

    def add(self, share: Share, *, number: int, registered_time: float, now: float) -> None:
        """Adds a share with an id and a deadline; `registered_time` is its pool's, when new."""
        pool = self.pools.get(share.key)
        if pool is None:
            pool = self.pools[share.key] = PoolShares(share.key, registered_time=registered_time)
        pool.shares[share.identity] = share
        pool.adopt(share, share.content, number, now)
        pool.changed_at = now
        self.by_lease[share.lease_id] = share
        self.wheel.add(share)
        self.ended.began(share)
        self._changed(pool)

    def rename(self, share: Share, lease_id: str) -> None:
        """A new incarnation: the id until now is unknown from now on."""
        del self.by_lease[share.lease_id]
        share.lease_id = lease_id
        self.by_lease[lease_id] = share

    def adopt(
        self,
        share: Share,
        content: Content,
        relays: tuple[str, ...],
        number: int,
        *,
        caller: str,
    ) -> None:
        """Takes what another instance wrote of a share; `caller` is how the log names that one."""
        pool = self.pools[share.key]
        same = (content, relays, number) == (share.content, share.relays, share.number)
        if not same:
            before = listed(pool)
            share.relays = relays
            pool.adopt(share, content, number, self._clock.monotonic())
            self._changed(pool)
            self._tell_change(share, before, {"caller": caller})

    def set_content(
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
        pool = self.pools[share.key]
        before = listed(pool)
        share.leave(now)
        share.relays = relays
        if not same_content:
            pool.set_content(share, content, now)
        self._changed(pool)
        self._tell_change(share, before, _who(heartbeat))
        return True

    def renew(self, share: Share, now: float) -> bool:
        """A renewal was heard now; whether the lease is from now on of another length.

        Every answer to a renewal tells the lease of this instance.
        """
        regranted = share.granted != self._granted
        share.granted = self._granted
        deadline = now + self._granted
        if deadline < share.deadline:  # the wheel sees by itself only what moves later
            self.wheel.discard(share)
            share.deadline = deadline
            self.wheel.add(share)
        share.deadline = deadline
        self._renewed(share, now)
        self.counters.renewals += 1
        return regranted

    def renewed_elsewhere(self, share: Share, now: float, deadline: float) -> None:
        """A renewal was seen now."""
        share.deadline = max(share.deadline, deadline)
        self._renewed(share, now)

    def _renewed(self, share: Share, now: float) -> None:
        share.renewed_before = share.renewed_at
        share.counted_from = share.renewed_at = now
        share.extensions = 0
        share.confirmed = True
        self.seen(share, now)

    def seen(self, share: Share, now: float) -> None:
        """Its pool is not overdue now."""
        pool = self.pools[share.key]
        pool.last_renewal = now
        self.pools.move_to_end(share.key)
        if pool.disagreeing and pool.disagreement_to_tell():
            self._report(Event.RELAYS_DISAGREE, pool=str(pool.key), relays=len(pool.shares))

    def stored(self, share: Share) -> StoredShare:
        """A live share as a store keeps it."""
        return StoredShare(
            key=share.key,
            identity=share.identity,
            lease_id=share.lease_id,
            granted=share.granted,
            number=share.number,
            content=share.content,
            relays=share.relays,
            registered_time=self.pools[share.key].registered_time,
            sequence=share.sequence,
        )

    def end(
        self,
        share: Share,
        departure: Departure,
        *,
        withdrawn_by: str | None = None,
        identity: str = "",
        quiet: bool = False,
    ) -> bool:
        """Ends a share; whether its pool leaves with it. Without a caller its lease ended.

        `identity` is what was proven of the caller. `quiet` when many end, and somebody
        else tells it.
        """
        at = share.deadline if withdrawn_by is None else self._clock.monotonic()
        named = f"{identity} at {withdrawn_by}" if identity else withdrawn_by
        self.ended.put(share, departure, at, named)
        del self.by_lease[share.lease_id]
        self.wheel.discard(share)
        pool = self.pools[share.key]
        before = listed(pool) if len(pool.shares) > 1 and not quiet else None
        del pool.shares[share.identity]
        if pool.shares:
            self._changed(pool)
            if before is not None:
                self._tell_end(share, len(pool.shares), withdrawn_by, identity)
                who = {} if withdrawn_by is None else {"caller": withdrawn_by, "identity": identity}
                self._tell_change(share, before, who)
            return False
        del self.pools[share.key]
        self._dirty.pop(share.key, None)
        self._dirty[share.key] = departure
        self.wake()
        return True

    def _tell_end(self, share: Share, left: int, withdrawn_by: str | None, identity: str) -> None:
        """That a share ended whose pool stays."""
        who = {"pool": str(share.key), "relay": relay_name(share.identity), "shares": left}
        if withdrawn_by is None:
            self._report(Event.SHARE_LAPSED, **who)
        else:
            self._report(Event.SHARE_WITHDRAWN, **who, caller=withdrawn_by, identity=identity)

    def _tell_change(self, share: Share, before: Listed, who: Mapping[str, str]) -> None:
        """What is listed of its pool, if that is another than it was."""
        fields = changed_fields(before, listed(self.pools[share.key]))
        if fields:
            relay = relay_name(share.identity)
            self._report(Event.POOL_CHANGED, pool=str(share.key), relay=relay, **who, **fields)

    def _changed(self, pool: PoolShares) -> None:
        pool.compare()
        self._dirty[pool.key] = None
        self.wake()


def _who(heartbeat: Heartbeat) -> dict[str, str]:
    return {"caller": heartbeat.caller, "identity": heartbeat.identity}
