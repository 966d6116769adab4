"""The promises about leases, written as plainly as possible, to compare with.

Nothing here is fast, lazy or remembered in a clever way: every deadline is
worked out from the renewal and all stalls since, whenever somebody asks. It
shares only the clock and the values of the domain with what it is compared to.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from global_discovery.domain.clock import Clock
from global_discovery.domain.lease import Heartbeat, LeaseTerms, Withdrawal
from global_discovery.domain.pool import Content, PoolKey

SLOT = 0.1
"""Leases are looked at once a slot: one that ended less than that ago may still be there."""
MOST_SHARES = 64
MOST_RELAYS = 256
MOST_EXTENSIONS = 3


@dataclass
class Deafness:
    """A time in which nothing could be heard, and the first call taken after it."""

    began: float
    over: float
    first_call: float | None = None

    def listens(self, now: float, lease: float) -> float | None:
        latest = self.over + lease
        if self.first_call is not None:
            return min(self.first_call, latest)
        return latest if latest <= now else None


@dataclass
class RefShare:
    key: PoolKey
    identity: tuple[str, str]
    content: Content
    relays: tuple[str, ...]
    began: int
    number: int
    lease_id: str = ""
    sequence: int = 0
    renewed: float = 0.0
    stalls_before: int = 0
    """How many stalls were known when it was renewed: they do not concern it."""
    left: list[tuple[tuple[Content, tuple[str, ...]], float]] = field(default_factory=list)
    relay_id_needed: bool = False


@dataclass
class RefPool:
    registered_time: float
    last_renewal: float = 0.0
    shares: list[RefShare] = field(default_factory=list)
    changed: float = 0.0
    """When a share last said something new."""
    disagreement_told: bool = False


class LeaseReference:
    def __init__(self, clock: Clock, terms: LeaseTerms) -> None:
        self.clock = clock
        self.lease = float(terms.lease_duration)
        self.heartbeat = float(terms.heartbeat_interval)
        self.start: Deafness | None = None
        self.stalls: list[Deafness] = []
        self.seen_alive = (clock.monotonic(), clock.boottime())
        self.pools: dict[PoolKey, RefPool] = {}
        self.withdrawn: dict[str, float] = {}
        self.mass_lapse_until: float | None = None
        self.departed: dict[PoolKey, str] = {}
        """How each key left the last time since somebody emptied this."""
        self.warnings: dict[str, int] = {"disagree": 0, "relay_id": 0, "mass_lapse": 0}
        self.ids = 0
        self.shares_begun = 0

    # -- calls ---------------------------------------------------------------

    def ready(self) -> None:
        self.notice()
        self.start = Deafness(float("-inf"), self.clock.monotonic())

    def register(self, call: Heartbeat) -> str:
        """The lease id, or "withdrawn" or "too many"."""
        self.notice()
        now, key = self.clock.monotonic(), call.registration.key
        if call.lease_id in self.withdrawn:
            return "withdrawn"
        share = self.by_lease(call.lease_id)
        if share is not None and share.key == key:
            if 0 < call.sequence < share.sequence:
                return share.lease_id
            self.take_content(share, call, now, named=True)
        else:
            share = self.share_of(key, self.identity(call))
            if share is not None:
                self.take_content(share, call, now, named=False)
            elif len(self.shares(key)) == MOST_SHARES:
                return "too many"
            else:
                share = self.begin(call)
            self.ids += 1
            share.lease_id, share.sequence = f"id-{self.ids}", 0
        share.sequence = call.sequence or share.sequence
        self.renewed(share, now)
        return share.lease_id

    def renew(self, lease_ids: list[str]) -> list[str]:
        """The unknown ones."""
        self.notice()
        unknown = []
        for lease_id in lease_ids:
            share = self.by_lease(lease_id)
            if share is None:
                unknown.append(lease_id)
            else:
                self.renewed(share, self.clock.monotonic())
        return unknown

    def withdraw(self, call: Withdrawal) -> int:
        """How many shares ended."""
        self.notice()
        shares = self.shares(call.key)
        if call.all_shares:
            pass
        elif call.lease_ids:
            shares = [share for share in shares if share.lease_id in call.lease_ids]
        elif call.relay_id:
            shares = [share for share in shares if share.identity == ("relay_id", call.relay_id)]
        elif call.relays:
            named = ("relays", ",".join(call.relays))
            shares = [share for share in shares if share.identity == named]
        else:
            shares = [share for share in shares if share.identity == ("address", call.caller)]
        for share in shares:
            self.withdrawn[share.lease_id] = self.clock.monotonic() + 10 * self.lease
            self.end(share, "removed")
        return len(shares)

    # -- time ----------------------------------------------------------------

    def tick(self, still_there: Callable[[str], bool]) -> None:
        """`still_there` is asked about leases that ended within the last slot: both is right."""
        self.notice()
        now = self.clock.monotonic()
        self.withdrawn = {name: until for name, until in self.withdrawn.items() if until > now}
        for share in [share for key in list(self.pools) for share in self.shares(key)]:
            ends = self.ends(share, now)
            if ends is None or ends > now:
                continue
            if ends > now - SLOT and still_there(share.lease_id):
                continue
            self.begin_mass_lapse_if_due(now)
            doubtful = self.mass_lapse_until is not None and ends < self.mass_lapse_until
            self.end(share, "unlisted" if doubtful else "removed")
        if self.mass_lapse_until is not None and now >= self.mass_lapse_until:
            self.mass_lapse_until = None

    def ends(self, share: RefShare, now: float) -> float | None:
        """When its lease ends, as far as is known now; None while nobody can tell."""
        counted_from, extensions = share.renewed, 0
        for stall in self.stalls[share.stalls_before :]:
            ran = stall.began < counted_from + self.lease
            if not ran or extensions == MOST_EXTENSIONS:
                break
            listens = stall.listens(now, self.lease)
            if listens is None:
                return None
            if listens > counted_from:
                counted_from = listens
                extensions += 1
        return counted_from + self.lease

    def begin_mass_lapse_if_due(self, now: float) -> None:
        middle = (self.heartbeat + self.lease) / 2
        overdue = [pool for pool in self.pools.values() if now - pool.last_renewal > middle]
        if self.mass_lapse_until is not None and now < self.mass_lapse_until:
            return
        if len(overdue) >= 10 and 2 * len(overdue) > len(self.pools):
            self.mass_lapse_until = now + 2 * self.lease
            self.warnings["mass_lapse"] += 1

    def notice(self) -> None:
        then, boottime_then = self.seen_alive
        now, boottime = self.clock.monotonic(), self.clock.boottime()
        self.seen_alive = (now, boottime)
        if boottime - boottime_then > self.heartbeat and self.start is not None:
            self.stalls.append(Deafness(then, now))

    def reasons(self) -> set[str]:
        now = self.clock.monotonic()
        reasons = set()
        if self.start is None or self.in_doubt(self.start, now):
            reasons.add("STARTING")
        if any(self.in_doubt(stall, now) for stall in self.stalls):
            reasons.add("STALLED")
        if self.mass_lapse_until is not None and now < self.mass_lapse_until:
            reasons.add("MASS_LAPSE")
        return reasons

    def in_doubt(self, deafness: Deafness, now: float) -> bool:
        listens = deafness.listens(now, self.lease)
        return listens is None or now < listens + self.lease

    # -- the list ------------------------------------------------------------

    def listed(self) -> dict[PoolKey, tuple[Content, tuple[str, ...], float]]:
        """Content, relays and the time of entry, by key."""
        return {
            key: (self.content(key), self.relays(key), pool.registered_time)
            for key, pool in self.pools.items()
        }

    def content(self, key: PoolKey) -> Content:
        return max(self.shares(key), key=lambda share: (share.number, share.identity)).content

    def relays(self, key: PoolKey) -> tuple[str, ...]:
        chosen: list[str] = []
        for share in sorted(self.shares(key), key=lambda share: -share.began):
            chosen += [relay for relay in share.relays if relay not in chosen]
        return tuple(sorted(chosen[:MOST_RELAYS]))

    # -- shares --------------------------------------------------------------

    @staticmethod
    def identity(call: Heartbeat) -> tuple[str, str]:
        if call.relay_id:
            return ("relay_id", call.relay_id)
        if call.registration.relays:
            return ("relays", ",".join(call.registration.relays))
        return ("address", call.caller)

    def shares(self, key: PoolKey) -> list[RefShare]:
        return list(self.pools[key].shares) if key in self.pools else []

    def share_of(self, key: PoolKey, identity: tuple[str, str]) -> RefShare | None:
        found = [share for share in self.shares(key) if share.identity == identity]
        return found[0] if found else None

    def by_lease(self, lease_id: str) -> RefShare | None:
        everything = [share for pool in self.pools.values() for share in pool.shares]
        found = [share for share in everything if share.lease_id == lease_id]
        return found[0] if found else None

    def begin(self, call: Heartbeat) -> RefShare:
        key = call.registration.key
        self.shares_begun += 1
        share = RefShare(
            key=key,
            identity=self.identity(call),
            content=call.registration.content,
            relays=call.registration.relays or (f"ip:{call.caller}",),
            began=self.shares_begun,
            number=self.next_number(key),
        )
        self.pools.setdefault(key, RefPool(self.clock.wall())).shares.append(share)
        self.pools[key].changed = self.clock.monotonic()
        return share

    def next_number(self, key: PoolKey) -> int:
        return 1 + max((share.number for share in self.shares(key)), default=0)

    def take_content(self, share: RefShare, call: Heartbeat, now: float, *, named: bool) -> None:
        content = call.registration.content
        relays = call.registration.relays or share.relays
        if (content, relays) == (share.content, share.relays):
            return
        within_a_lease = [said for said, at in share.left if now - at <= self.lease]
        if (content, relays) in within_a_lease and not named and not share.relay_id_needed:
            share.relay_id_needed = True
            self.warnings["relay_id"] += 1
        share.left.append(((share.content, share.relays), now))
        share.relays = relays
        if content != share.content:
            share.number = self.next_number(share.key)
            share.content = content
            self.pools[share.key].changed = now

    def renewed(self, share: RefShare, now: float) -> None:
        share.renewed = self.pools[share.key].last_renewal = now
        share.stalls_before = len(self.stalls)
        for deafness in [*self.stalls, *([self.start] if self.start else [])]:
            if deafness.first_call is None:
                deafness.first_call = now
        self.warn_if_disagreeing(share.key)

    def warn_if_disagreeing(self, key: PoolKey) -> None:
        pool = self.pools[key]
        if len({share.content for share in pool.shares}) == 1:
            pool.disagreement_told = False
        elif not pool.disagreement_told:
            repeated = [share.renewed > pool.changed for share in pool.shares]
            if all(repeated):
                pool.disagreement_told = True
                self.warnings["disagree"] += 1

    def end(self, share: RefShare, departure: str) -> None:
        pool = self.pools[share.key]
        pool.shares.remove(share)
        if pool.shares:
            self.warn_if_disagreeing(share.key)
        else:
            del self.pools[share.key]
            self.departed[share.key] = departure
