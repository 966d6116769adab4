"""Any interleaving of calls, time, stalls and suspensions, beside a plain reference."""

import itertools
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from global_discovery.domain.errors import LeaseWithdrawn, TooManyShares
from global_discovery.domain.events import Event
from global_discovery.domain.lease import Heartbeat, LeaseTerms, Withdrawal
from global_discovery.domain.pool import Content, Location, Pool, PoolKey, Registration
from global_discovery.sources.registered.registrations import Registrations
from support.clock import FakeClock
from support.lease_reference import LeaseReference

TERMS = [LeaseTerms(5, 15), LeaseTerms(1, 3), LeaseTerms(2, 20)]
KEYS = [PoolKey("c", "n", f"pool-{number:02}") for number in range(12)]
CONTENTS = [Content(f"m{number}", Location("r")) for number in range(3)]
ADDRESSES = ["10.0.0.1", "10.0.0.2"]
RELAYS: list[tuple[str, ...]] = [(), (), ("ip:10.9.0.1",), ("ip:10.9.0.1", "ip:10.9.0.2")]

few_keys = st.sampled_from(KEYS[:3])
contents = st.sampled_from(CONTENTS)
relay_ids = st.sampled_from(["", "", "r1", "r2", "r3"])
relays = st.sampled_from(RELAYS)
addresses = st.sampled_from(ADDRESSES)
quarters = st.integers(1, 4 * 20).map(lambda quarter: quarter / 4)


class Leases(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.events: Counter[Event] = Counter()
        self.told: dict[PoolKey, Pool] = {}
        self.woken = False

    def wake(self) -> None:
        self.woken = True

    @initialize(terms=st.sampled_from(TERMS), starting=quarters)
    def start(self, terms: LeaseTerms, starting: float) -> None:
        ids = itertools.count(1)
        self.real = Registrations(
            terms=terms,
            clock=self.clock,
            report=lambda event, **_: self.events.update([event]),
            lease_id=lambda: f"id-{next(ids)}",
        )
        self.reference = LeaseReference(self.clock, terms)
        self.real.on_change(self.wake)
        self.clock.advance(starting)
        self.real.ready()
        self.reference.ready()

    # -- calls ---------------------------------------------------------------

    def call(self, heartbeat: Heartbeat) -> None:
        try:
            answer = self.real.register(heartbeat)[0].lease_id
        except LeaseWithdrawn:
            answer = "withdrawn"
        except TooManyShares:
            answer = "too many"
        assert answer == self.reference.register(heartbeat)

    def some_lease_id(self, data: st.DataObject) -> str:
        """Mostly a newer one; current, replaced, lapsed, withdrawn or never given."""
        newest = self.reference.ids
        return f"id-{data.draw(st.integers(max(0, newest - 12), newest), label='lease')}"

    @rule(key=few_keys, content=contents, relay_id=relay_ids, given=relays, caller=addresses)
    def register(
        self, key: PoolKey, content: Content, relay_id: str, given: tuple[str, ...], caller: str
    ) -> None:
        self.call(Heartbeat(Registration(key, content, given), caller, relay_id))

    @rule(data=st.data(), key=few_keys, content=contents, given=relays, sequence=st.integers(0, 3))
    def heartbeat(
        self,
        data: st.DataObject,
        key: PoolKey,
        content: Content,
        given: tuple[str, ...],
        sequence: int,
    ) -> None:
        lease_id = self.some_lease_id(data)
        share = self.reference.by_lease(lease_id)
        if share is not None and data.draw(st.booleans(), label="its own key"):
            key = share.key
        registration = Registration(key, content, given)
        self.call(Heartbeat(registration, "10.0.0.3", "", lease_id, sequence))

    @rule(content=contents)
    def register_many(self, content: Content) -> None:
        for key in KEYS:
            self.call(Heartbeat(Registration(key, content), "10.0.0.1", "r1"))

    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        lease_ids = [self.some_lease_id(data) for _ in range(data.draw(st.integers(0, 3)))]
        unknown = self.real.renew(lease_ids).unknown
        assert unknown == self.reference.renew(lease_ids)

    @rule()
    def renew_all(self) -> None:
        lease_ids = [share.lease_id for key in KEYS for share in self.reference.shares(key)]
        unknown = self.real.renew(lease_ids).unknown
        assert unknown == self.reference.renew(lease_ids) == []

    def withdraw(self, withdrawal: Withdrawal) -> None:
        found = [share.lease_id for share in self.real.find(withdrawal)]
        ended = self.real.withdraw(found, caller=withdrawal.caller)
        assert ended == self.reference.withdraw(withdrawal)

    @rule(data=st.data(), key=few_keys)
    def withdraw_by_lease_id(self, data: st.DataObject, key: PoolKey) -> None:
        lease_id = self.some_lease_id(data)
        share = self.reference.by_lease(lease_id)
        if share is not None and data.draw(st.booleans(), label="its own key"):
            key = share.key
        self.withdraw(Withdrawal(key, "10.0.0.1", (lease_id,), relay_id="r1"))

    @rule(key=few_keys, relay_id=relay_ids, given=relays, caller=addresses)
    def withdraw_by_name(
        self, key: PoolKey, relay_id: str, given: tuple[str, ...], caller: str
    ) -> None:
        self.withdraw(Withdrawal(key, caller, relay_id=relay_id, relays=given))

    @rule(key=few_keys)
    def withdraw_all(self, key: PoolKey) -> None:
        self.withdraw(Withdrawal(key, "10.0.0.1", relay_id="r1", all_shares=True))

    # -- time ----------------------------------------------------------------

    @rule()
    def tick(self) -> None:
        while self.real.tick():
            pass
        self.reference.tick(lambda lease_id: lease_id in self.real._table.by_lease)

    @rule(seconds=quarters)
    def run(self, seconds: float) -> None:
        for _ in range(int(seconds * 4)):
            self.clock.advance(0.25)
            self.tick()

    @rule(seconds=st.sampled_from([9.75, 14.75, 15.25, 30.25]))
    def run_to_an_edge(self, seconds: float) -> None:
        self.run(seconds)

    @rule(seconds=quarters)
    def stop(self, seconds: float) -> None:
        self.clock.stop(seconds)

    @rule(seconds=st.sampled_from([1.0, 5.0, 5.25, 3600.0]))
    def suspend(self, seconds: float) -> None:
        self.clock.suspend(seconds)

    @rule(pauses=st.lists(st.sampled_from([0.25, 5.25, 9.0, 20.0, 900.0]), min_size=2, max_size=6))
    def stall_again_and_again(self, pauses: list[float]) -> None:
        for seconds in pauses:
            self.clock.stop(seconds)
            self.tick()

    @rule(seconds=st.sampled_from([-1000.0, 0.5, 1000.0]))
    def step_the_wall_clock(self, seconds: float) -> None:
        self.clock.step_wall(seconds)

    # -- what comes of it ----------------------------------------------------

    @rule()
    def drain(self) -> None:
        update = self.real.drain()
        self.reference.notice()
        listed = self.reference.listed()
        assert len({change.key for change in update.changes}) == len(update.changes)
        values = {change.key: change.value for change in update.changes if change.value}
        told = {
            key: (pool.content, pool.relays, pool.registered_time)
            for key, pool in self.told.items()
        }
        assert set(values) == {key for key in listed if listed[key] != told.get(key)}
        departures = {c.key: c.departure.value for c in update.changes if c.departure}
        assert departures == {
            key: kind for key, kind in self.reference.departed.items() if key not in listed
        }
        self.reference.departed.clear()
        for key in departures:
            self.told.pop(key, None)
        self.told.update(values)
        assert listed == {
            key: (pool.content, pool.relays, pool.registered_time)
            for key, pool in self.told.items()
        }
        assert {reason.value for reason in update.mark.reasons} == self.reference.reasons()
        self.woken = False

    @precondition(lambda self: not self.woken)
    @rule()
    def nothing_woke_so_nothing_is_there(self) -> None:
        assert not self.real.drain().changes
        self.reference.notice()
        assert not self.reference.departed
        self.woken = False

    @invariant()
    def the_numbers_agree(self) -> None:
        shares = sum(len(pool.shares) for pool in self.reference.pools.values())
        assert self.real.shares == shares
        assert len(self.real) == len(self.reference.pools)

    @invariant()
    def the_pools_stand_in_the_order_of_their_last_renewal(self) -> None:
        renewals = [pool.last_renewal for pool in self.real._table.pools.values()]
        assert renewals == sorted(renewals)

    @invariant()
    def the_warnings_agree(self) -> None:
        warnings = self.reference.warnings
        assert self.events[Event.RELAYS_DISAGREE] == warnings["disagree"]
        assert self.events[Event.RELAY_ID_NEEDED] == warnings["relay_id"]
        assert self.events[Event.MASS_LAPSE_BEGAN] == warnings["mass_lapse"]

    def teardown(self) -> None:
        self.drain()


TestLeases = pytest.mark.timeout(600)(Leases.TestCase)  # shrinking a failure takes its time
TestLeases.settings = settings(max_examples=150, stateful_step_count=60)
