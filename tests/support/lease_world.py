"""Registrations under a clock that tests move, and what somebody who drains them knows."""

import itertools

from global_discovery.domain.change import Departure
from global_discovery.domain.events import Event
from global_discovery.domain.lease import Heartbeat, LeaseTerms, Withdrawal
from global_discovery.domain.pool import Content, Location, Pool, PoolKey, Registration
from global_discovery.sources.registrations import Registrations
from support.clock import FakeClock

KEY = PoolKey("c1", "ns", "pool")
TICK = 0.125
"""A little longer than a slot of the wheel, and exact in binary."""


def keys(count: int) -> list[PoolKey]:
    return [PoolKey("c1", "ns", f"pool-{number:06}") for number in range(count)]


class LeaseWorld:
    """One instance: leases of 15 s, heartbeats of 5 s, ready unless told otherwise."""

    def __init__(self, *, ready: bool = True, mass_lapse_protection: bool = True) -> None:
        self.clock = FakeClock()
        self.events: list[tuple[Event, dict[str, object]]] = []
        self.wakes = 0
        ids = itertools.count(1)
        self.registrations = Registrations(
            terms=LeaseTerms(heartbeat_interval=5, lease_duration=15),
            clock=self.clock,
            report=lambda event, **fields: self.events.append((event, fields)),
            mass_lapse_protection=mass_lapse_protection,
            lease_id=lambda: f"id-{next(ids)}",
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
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            self.clock.advance(min(TICK, end - self.clock.monotonic()))
            self.tick()

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
