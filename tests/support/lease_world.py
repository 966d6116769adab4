"""Registrations under a clock that tests move, and what somebody who drains them knows."""

import itertools
from collections.abc import Callable

from global_discovery.domain.change import Departure
from global_discovery.domain.events import Event
from global_discovery.domain.lease import Heartbeat, LeaseTerms, Withdrawal
from global_discovery.domain.pool import Content, Location, Pool, PoolKey, Registration
from global_discovery.sources.registered.admission import RegistrationLimits
from global_discovery.sources.registered.registrations import Registrations
from global_discovery.storage.store import Reading, SeenShare, StoredShare, StoreState
from support.clock import FakeClock

KEY = PoolKey("c1", "ns", "pool")
TICK = 0.125
"""A little longer than a slot of the wheel, and exact in binary."""


def keys(count: int) -> list[PoolKey]:
    return [PoolKey("c1", "ns", f"pool-{number:06}") for number in range(count)]


def a_seen_share(
    lease_id: str = "s1",
    *,
    key: PoolKey = KEY,
    relay_id: str = "r1",
    model: str = "m",
    relays: tuple[str, ...] = ("ip:10.0.0.1",),
    number: int = 1,
    granted: float = 15.0,
    remaining: float | None = None,
    renewed: bool = False,
    extensions: int = 0,
    sequence: int = 0,
) -> SeenShare:
    """A share as a store hands it over; all of its lease is left unless told otherwise."""
    stored = StoredShare(
        key=key,
        identity=("relay_id", relay_id),
        lease_id=lease_id,
        granted=granted,
        number=number,
        content=Content(model, Location("r1")),
        relays=relays,
        registered_time=1.0,
        sequence=sequence,
    )
    left = granted if remaining is None else remaining
    return SeenShare(stored, left, renewed=renewed, extensions=extensions)


class LeaseWorld:
    """One instance: leases of 15 s, heartbeats of 5 s, ready unless told otherwise."""

    def __init__(
        self,
        *,
        ready: bool = True,
        mass_lapse_protection: bool = True,
        shared: bool = False,
        clock: FakeClock | None = None,
        first_id: int = 1,
        state: Callable[[], StoreState] | None = None,
        limits: RegistrationLimits | None = None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.store = StoreState()
        """How the store is, when there is none."""
        self.events: list[tuple[Event, dict[str, object]]] = []
        self.wakes = 0
        ids = itertools.count(first_id)
        self.registrations = Registrations(
            terms=LeaseTerms(heartbeat_interval=5, lease_duration=15),
            clock=self.clock,
            report=lambda event, **fields: self.events.append((event, fields)),
            mass_lapse_protection=mass_lapse_protection,
            lease_id=lambda: f"id-{next(ids)}",
            store=state or (lambda: self.store),
            shared=shared,
            limits=limits,
        )
        self.registrations.on_change(self._wake)
        self.fold: dict[PoolKey, Pool] = {}
        self.departures: dict[PoolKey, list[Departure]] = {}
        self.reasons: set[str] = set()
        if ready:
            self.registrations.ready()

    def _wake(self) -> None:
        self.wakes += 1

    def register(
        self,
        key: PoolKey = KEY,
        *,
        model: str = "m",
        relays: tuple[str, ...] = (),
        relay_id: str = "",
        caller: str = "10.0.0.1",
        lease_id: str = "",
        sequence: int = 0,
    ) -> str:
        """One heartbeat; the lease id it is answered with."""
        registration = Registration(key, Content(model, Location("r1")), relays)
        heartbeat = Heartbeat(registration, caller, relay_id, lease_id, sequence)
        return self.registrations.register(heartbeat)[0].lease_id

    def restore(self, *found: SeenShare, withdrawn: dict[str, float] | None = None) -> None:
        """The first reading of the store."""
        reading = Reading(found, withdrawn or {})
        self.registrations.restore(reading.shares, self.registrations.begin_restoring(reading))

    def take(self, *found: SeenShare, withdrawn: dict[str, float] | None = None) -> None:
        """A later reading of a shared store."""
        self.registrations.take(Reading(found, withdrawn or {}))

    def renew(self, *lease_ids: str) -> list[str]:
        """The unknown ones."""
        return self.registrations.renew(lease_ids)[1]

    def withdraw(
        self,
        key: PoolKey = KEY,
        *,
        lease_id: str = "",
        relay_id: str = "",
        relays: tuple[str, ...] = (),
        caller: str = "10.0.0.1",
        all_shares: bool = False,
    ) -> int:
        """How many shares ended."""
        lease_ids = (lease_id,) if lease_id else ()
        withdrawal = Withdrawal(key, caller, lease_ids, relay_id, relays, all_shares)
        found = [share.lease_id for share in self.registrations.find(withdrawal)]
        return self.registrations.withdraw(found, caller=caller)

    def tick(self) -> None:
        while self.registrations.tick():
            pass

    def run(self, seconds: float) -> None:
        """The loop runs: time passes and every tick comes."""
        self.clock.run(seconds, self.tick, every=TICK)

    def drain(self) -> list[PoolKey]:
        """Takes what changed; its keys."""
        update = self.registrations.drain()
        for change in update.changes:
            if change.value is not None:
                self.fold[change.key] = change.value
            if change.departure is not None:
                self.fold.pop(change.key, None)
                self.departures.setdefault(change.key, []).append(change.departure)
        self.reasons = {reason.value for reason in update.mark.reasons}
        return [change.key for change in update.changes]

    def listed(self, key: PoolKey = KEY) -> Pool | None:
        self.drain()
        return self.fold.get(key)

    def model(self, key: PoolKey = KEY) -> str:
        pool = self.listed(key)
        assert pool is not None
        return pool.content.model

    def relays(self, key: PoolKey = KEY) -> tuple[str, ...]:
        pool = self.listed(key)
        assert pool is not None
        return pool.relays

    def mark(self) -> set[str]:
        self.drain()
        return self.reasons

    def count(self, event: Event) -> int:
        return sum(happened is event for happened, _ in self.events)
