"""Any watchers, with any filters, over anything that can happen to registrations.

The real registrations, view, fan-out and encoder run on a clock and a loop that
are moved by hand. What the clients read are the bytes that a server would send.
Beside them stand three plain references: what the source said, position by
position; an ideal client for each stream, which reads every position alone; and
the relays themselves, which know what is alive.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from global_discovery.domain.change import Departure
from global_discovery.domain.errors import InvalidInput, LeaseWithdrawn, SlowWatcher
from global_discovery.domain.lease import LeaseTerms
from global_discovery.domain.pool import Pool, PoolKey
from global_discovery.serving import wire
from global_discovery.sources.registered.registrations import Registrations
from global_discovery.sources.source import Update
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.view import position as positions
from global_discovery.view.fanout import TICK_SECONDS, FanOut
from global_discovery.view.filters import PoolFilter
from global_discovery.view.view import HistoryLimits, View
from support.clock import FakeClock
from support.fold import FoldingClient, Key, key_of
from support.hand_loop import HandLoop
from support.pools import a_heartbeat
from support.watching import HandStream, by_key, listed

TERMS = LeaseTerms()
BOUND = 1.0
BEAT = float(TERMS.heartbeat_interval)
LEASE = float(TERMS.lease_duration)
WRITE_SECONDS = 30.0

KEYS = [
    PoolKey(cluster, namespace, f"pool-{number}")
    for cluster in ("c1", "c2")
    for namespace in ("ns1", "ns2")
    for number in range(4)
]
MODELS = ("a", "b")
REGIONS = ("r1", "r2")
FILTERS = [
    PoolFilter(),
    PoolFilter(models=frozenset({"a"})),
    PoolFilter(models=frozenset({"b"}), regions=frozenset({"r1"})),
    PoolFilter(cluster_ids=frozenset({"c2"}), models=frozenset({"a"})),
    PoolFilter(namespaces=frozenset({"ns1"}), regions=frozenset({"r1", "r2"})),
]


FEW = [KEYS[0], KEYS[8]]
ACTIONS = st.tuples(
    st.sampled_from(["put", "put", "put", "withdraw", "withdraw", "unseen", "lapse", "settle"]),
    st.sampled_from(FEW),
    st.sampled_from(MODELS),
)


@dataclass
class Relay:
    """One relay of one pool, and what it knows of itself."""

    key: PoolKey
    name: str
    model: str
    region: str
    since: float
    """Boot time of its registration."""
    beat_at: float
    """Boot time of its last call."""
    lease_id: str = ""
    beating: bool = True


@dataclass
class Truth:
    """The source, and what it said, position by position."""

    inner: Registrations
    pools: dict[PoolKey, Pool] = field(default_factory=dict)
    lists: dict[int, tuple[Any, dict[PoolKey, Pool]]] = field(default_factory=dict)
    said: dict[int, list[Any]] = field(default_factory=dict)
    """The changes that each refresh brought, under the position after it."""
    _last: list[Any] = field(default_factory=list)

    def on_change(self, wake: Any) -> None:
        self.inner.on_change(wake)

    def drain(self) -> Update[PoolKey, Pool]:
        update = self.inner.drain()
        self._last = list(update.changes)
        for change in update.changes:
            if change.value is None:
                self.pools.pop(change.key, None)
            else:
                self.pools[change.key] = change.value
        return update

    def note(self, view: View[Pool]) -> None:
        if view.sequence not in self.lists:
            self.lists[view.sequence] = (view.mark, dict(self.pools))
            self.said[view.sequence] = self._last
        else:
            assert self.lists[view.sequence] == (view.mark, self.pools), "changed in place"


class Client:
    """A router: a folding client, its stream, and the ideal client beside it."""

    def __init__(self, wanted: PoolFilter) -> None:
        self.wanted = wanted
        self.folding = FoldingClient()
        self.stream: HandStream | None = None
        self.checked = 0
        self.base = 0
        """The position since which every departure was told."""
        self.told = -1
        """The sequence of the last closing message on this stream."""
        self.resumed = False
        self.had: set[Key] = set()
        """What it offered when it was last looked at."""
        self.ideal_carried: set[Key] = set()
        self.ideal_at = -1

    def matches(self, pool: Pool) -> bool:
        """Written apart from PoolFilter.matches."""
        wanted, content = self.wanted, pool.content
        pairs = (
            (wanted.models, content.model),
            (wanted.regions, content.location.region),
            (wanted.cluster_ids, pool.key.cluster_id),
            (wanted.namespaces, pool.key.namespace),
        )
        return all(not values or value in values for values, value in pairs)


class ViewMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(wire, "_PART_ROOM", 300)
        self.clock = FakeClock()
        self.loop = HandLoop(self.clock)
        self.relays: dict[tuple[PoolKey, str], Relay] = {}
        self.clients: list[Client] = []
        self.stalls_without_beat = 0
        self.history = 6
        self.start_instance()

    def teardown(self) -> None:
        for client in self.clients:
            if client.stream is not None:
                client.stream.cut()
        assert len(self.fanout) == 0
        assert not self.fanout._feeds
        self.patch.undo()

    def start_instance(self) -> None:
        self.registrations = Registrations(terms=TERMS, clock=self.clock)
        self.truth = Truth(self.registrations)
        self.view: View[Pool] = View(self.truth, limits=HistoryLimits(2 * self.history))
        original = self.view.refresh

        def refresh() -> bool:
            moved = original()
            self.truth.note(self.view)
            return moved

        self.view.refresh = refresh  # type: ignore[method-assign]
        self.fanout: FanOut[Pool] = FanOut(
            self.view,
            wire.POOLS,
            write_seconds=WRITE_SECONDS,
            stream_age=(60.0, 120.0),
            loop=self.loop,  # type: ignore[arg-type]  # as much of one as it uses
        )
        self.registrations.ready()

    @initialize(settled=st.booleans(), filled=st.booleans(), history=st.sampled_from([6, 500]))
    def begin(self, *, settled: bool, filled: bool, history: int) -> None:
        self.history = history
        self.start_instance()
        if filled:
            self.register_all("a", "r1")
        if settled:
            self.time_passes(31.0)

    # -- what happens --------------------------------------------------------

    def call(self, relay: Relay) -> None:
        heartbeat = a_heartbeat(
            relay.key,
            model=relay.model,
            region=relay.region,
            relay_id=relay.name,
            lease_id=relay.lease_id,
        )
        share, _ = self.registrations.register(heartbeat)
        relay.lease_id = share.lease_id
        relay.beat_at = self.clock.boottime()
        self.stalls_without_beat = 0

    @rule(
        key=st.sampled_from(KEYS),
        name=st.sampled_from(["x", "x", "x", "y"]),
        model=st.sampled_from(MODELS),
        region=st.sampled_from(REGIONS),
    )
    def register(self, key: PoolKey, name: str, model: str, region: str) -> None:
        self.clock.advance(0.001)  # so that the times of two changes differ
        now = self.clock.boottime()
        relay = self.relays.setdefault((key, name), Relay(key, name, model, region, now, now))
        relay.model, relay.region, relay.beating = model, region, True
        self.call(relay)

    @rule(model=st.sampled_from(MODELS), region=st.sampled_from(REGIONS))
    def register_all(self, model: str, region: str) -> None:
        for key in KEYS:
            self.register(key, "x", model, region)

    @precondition(lambda self: self.relays)
    @rule(data=st.data(), everything=st.booleans())
    def withdraw(self, *, data: st.DataObject, everything: bool) -> None:
        relay = self.relays.pop(data.draw(st.sampled_from(sorted(self.relays))))
        gone = [relay]
        if everything:
            others = [name for name in self.relays if name[0] == relay.key]
            gone += [self.relays.pop(name) for name in others]
        self.registrations.withdraw([one.lease_id for one in gone], caller="")
        with pytest.raises(LeaseWithdrawn):
            self.call(relay)

    @precondition(lambda self: self.relays)
    @rule(data=st.data())
    def register_and_withdraw_unseen(self, data: st.DataObject) -> None:
        """A pool that lapsed unheard comes back and goes between two looks."""
        relay = self.relays[data.draw(st.sampled_from(sorted(self.relays)))]
        self.call(relay)
        self.registrations.withdraw([relay.lease_id], caller="")
        del self.relays[relay.key, relay.name]

    @precondition(lambda self: self.relays)
    @rule(data=st.data(), beating=st.booleans())
    def fall_silent_or_return(self, *, data: st.DataObject, beating: bool) -> None:
        relay = self.relays[data.draw(st.sampled_from(sorted(self.relays)))]
        if beating and not relay.beating:
            relay.since = self.clock.boottime()
        relay.beating = beating

    @rule(most=st.booleans(), seconds=st.sampled_from([0.0, 12.0, 16.0, 50.0]))
    def fall_silent_together(self, *, most: bool, seconds: float) -> None:
        relays = sorted(self.relays.values(), key=lambda relay: (relay.key, relay.name))
        for relay in relays[3 if most else 0 :]:
            relay.beating = False
        self.time_passes(seconds)

    @rule(seconds=st.sampled_from([0.02, 0.06, 1.0, 4.0, 8.0, 16.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        while seconds > 0:
            step = min(seconds, 0.9)
            seconds -= step
            self.loop.advance(step)
            now = self.clock.boottime()
            for relay in list(self.relays.values()):
                if relay.beating and now - relay.beat_at >= BEAT - 1:
                    self.call(relay)
            self.run()

    @precondition(lambda self: self.stalls_without_beat < 2)
    @rule(seconds=st.sampled_from([6.0, 20.0, 100.0]), suspended=st.booleans())
    def stall(self, *, seconds: float, suspended: bool) -> None:
        self.stalls_without_beat += 1
        if suspended:
            self.clock.suspend(seconds)
        else:
            self.clock.stop(seconds)
        self.run()

    @rule()
    def restart(self) -> None:
        for client in self.clients:
            if client.stream is not None:
                self.cut(client)
        self.start_instance()

    def run(self) -> None:
        """What a second of the loop does, without letting time pass."""
        while self.registrations.tick():
            pass
        for _ in range(3):
            self.loop.run_due()
            for client in self.clients:
                if client.stream is not None:
                    client.stream.step()
                    self.check_messages(client)
                    if client.stream.ended():
                        assert client.stream.error is None or isinstance(
                            client.stream.error, SlowWatcher
                        )
                        client.stream = None

    @rule()
    def list_now(self) -> None:
        """Somebody else brings the view forward."""
        listed(self.view, self.clock)

    # -- the clients ---------------------------------------------------------

    @precondition(lambda self: len(self.clients) < 5)
    @rule(wanted=st.sampled_from(FILTERS), idle=st.sampled_from([1.0, 5.0, 25.0]))
    def open(self, wanted: PoolFilter, idle: float) -> None:
        client = Client(wanted)
        self.clients.append(client)
        self.connect(client, "", idle)

    def connect(self, client: Client, position: str, idle: float = 5.0) -> None:
        client.resumed, client.told, client.checked = False, -1, 0
        client.stream = HandStream(
            self.fanout,
            self.loop,
            wanted=client.wanted,
            position=position,
            idle_seconds=idle,
            client=client.folding,
        )
        sequence = self.view.resume(position, client.wanted) if position else None
        if sequence is not None and self.view.since(sequence, client.wanted) is not None:
            client.resumed = True
        client.stream.step()
        self.check_messages(client)

    def connected(self) -> list[Client]:
        return [client for client in self.clients if client.stream is not None]

    def away(self) -> list[Client]:
        return [client for client in self.clients if client.stream is None]

    @precondition(lambda self: self.connected())
    @rule(data=st.data(), messages=st.sampled_from([0, 0, 1, 2, float("inf")]))
    def read_slowly(self, data: st.DataObject, messages: float) -> None:
        client = data.draw(st.sampled_from(self.connected()))
        assert client.stream is not None
        client.stream.read(messages)
        self.check_messages(client)

    @precondition(lambda self: self.connected())
    @rule(data=st.data())
    def break_connection(self, data: st.DataObject) -> None:
        self.cut(data.draw(st.sampled_from(self.connected())))

    def cut(self, client: Client) -> None:
        assert client.stream is not None
        client.stream.cut()
        client.stream = None

    @precondition(lambda self: self.away())
    @rule(
        data=st.data(),
        how=st.sampled_from(["own", "own", "own", "none", "future", "damaged", "foreign"]),
    )
    def come_back(self, data: st.DataObject, how: str) -> None:
        client = data.draw(st.sampled_from(self.away()))
        position = client.folding.position if how == "own" else ""
        if how == "future":
            position = self.view.position(self.view.sequence + 1000, client.wanted)
        if how == "foreign":
            position = positions.Position(b"elsewher", client.wanted.fingerprint, 3).encode()
        if how == "damaged":
            broken = self.view.position(self.view.sequence, client.wanted)
            with pytest.raises(InvalidInput):
                self.connect(client, broken[:8] + ("A" if broken[8] != "A" else "B") + broken[9:])
            return
        self.connect(client, position)

    @precondition(lambda self: self.connected())
    @rule(data=st.data(), actions=st.lists(ACTIONS, min_size=2, max_size=6), cut=st.booleans())
    def miss_something(self, *, data: st.DataObject, actions: list[Any], cut: bool) -> None:
        """Things happen to few pools while one client does not look."""
        client = data.draw(st.sampled_from(self.connected()))
        stream = client.stream
        assert stream is not None
        if cut:
            self.cut(client)
        else:
            stream.read(0)
        for what, key, model in actions:
            self.act(what, key, model)
            self.view.refresh()
        if cut:
            self.connect(client, client.folding.position)
        elif client.stream is stream:
            stream.read()
            self.check_messages(client)

    def act(self, what: str, key: PoolKey, model: str) -> None:
        if what == "put":
            self.register(key, "x", model, "r1")
        elif what == "lapse":
            for missing in KEYS:
                if (missing, "x") not in self.relays:
                    self.register(missing, "x", model, "r1")
            self.fall_silent_together(most=False, seconds=16.0)
        elif what == "settle":
            self.time_passes(31.0)
        elif (key, "x") in self.relays:
            relay = self.relays.pop((key, "x"))
            if what == "unseen":
                self.call(relay)
            self.registrations.withdraw([relay.lease_id], caller="")

    # -- what must be true ---------------------------------------------------

    def check_messages(self, client: Client) -> None:
        """Each thing that the client applied since the last time."""
        assert client.stream is not None
        closed = client.stream.closed
        alone = len(closed) - client.checked == 1
        while client.checked < len(closed):
            parts = closed[client.checked]
            client.checked += 1
            last = client.checked == len(closed)
            self.check_closing(client, parts, newest=last)
        if alone:
            kept = client.ideal_carried & client.had
            assert kept <= set(client.folding.carried), "a pool that may live was dropped"
        client.had = set(client.folding.fold) | set(client.folding.carried)

    def check_closing(
        self, client: Client, parts: list[pb.WatchPoolsResponse], *, newest: bool
    ) -> None:
        closing = parts[-1]
        point = positions.decode(closing.position)
        assert point is not None
        assert (point.process, point.filter) == (self.view.process, client.wanted.fingerprint)
        mark, pools = self.truth.lists[point.sequence]
        assert closing.mark == wire.mark_message(mark), "a mark of another position"
        kind = closing.WhichOneof("event")
        wanted = {key: pool for key, pool in pools.items() if client.matches(pool)}
        self.follow_ideal(client, kind, point.sequence)
        if kind == "idle":
            assert point.sequence >= client.told
        elif kind == "changes":
            assert point.sequence > client.told or client.told == -1
            self.check_changes(client, parts, mark, first=client.told == -1)
        else:
            assert not (client.resumed and client.told == -1), "a snapshot instead of the rest"
            sent = [key_of(pool.key) for part in parts for pool in part.snapshot.pools]
            assert sent == sorted(wanted), "not sorted, or doubled"
        client.told = point.sequence
        if newest:
            expected = {tuple(key): wire.pool_message(pool) for key, pool in wanted.items()}
            assert client.folding.fold == expected
            self.check_carried(client, point.sequence)

    def check_changes(
        self, client: Client, parts: list[pb.WatchPoolsResponse], mark: Any, *, first: bool
    ) -> None:
        told = [key_of(pool.key) for part in parts for pool in part.changes.pools]
        removed = [key_of(key) for part in parts for key in part.changes.removed]
        unlisted = [key_of(key) for part in parts for key in part.changes.unlisted]
        keys = told + removed + unlisted
        assert len(set(keys)) == len(keys), "a key twice in one batch"
        before = self.list_at_told(client)
        if before is None:
            return
        old_mark, old = before
        assert keys or first or old_mark != mark, "a message that says nothing"
        for part in parts:
            for pool in part.changes.pools:
                was = old.get(PoolKey(*key_of(pool.key)))
                assert was is None or wire.pool_message(was) != pool, "told again"
        known = {tuple(key) for key, pool in old.items() if client.matches(pool)}
        assert set(unlisted) <= known
        if old_mark.exact and mark.exact and not self.doubt_between(client):
            assert set(removed) <= known, "a key outside the filter"

    def list_at_told(self, client: Client) -> tuple[Any, dict[PoolKey, Pool]] | None:
        """What the client had before the message that is being checked, if it is known."""
        return self.truth.lists.get(client.told)

    def doubt_between(self, client: Client) -> bool:
        return any(
            not mark.exact
            for sequence, (mark, _) in self.truth.lists.items()
            if sequence >= client.told
        )

    def follow_ideal(self, client: Client, kind: str | None, sequence: int) -> None:
        """Moves the client that reads every position alone."""
        if kind == "snapshot":
            client.base = sequence
            client.ideal_carried = set(client.folding.carried)
        elif client.ideal_at >= 0:
            self.ideal_reads(client, client.ideal_at, sequence)
        client.ideal_at = sequence

    def ideal_reads(self, client: Client, after: int, until: int) -> None:
        before = self.truth.lists[after][1]
        for sequence in sorted(self.truth.said):
            if not after < sequence <= until:
                continue
            mark, pools = self.truth.lists[sequence]
            for change in self.truth.said[sequence]:
                key = change.key
                pool = before.get(key)
                if change.departure is not Departure.UNLISTED:
                    client.ideal_carried.discard(key)
                elif pool is not None and client.matches(pool):
                    client.ideal_carried.add(key)
                elif pool is not None:
                    client.ideal_carried.discard(key)  # it had begun not to match
            before = pools
            if mark.exact:
                client.ideal_carried.clear()

    def check_carried(self, client: Client, sequence: int) -> None:
        carried = set(client.folding.carried)
        newest: dict[Key, Any] = {}
        was: dict[Key, Pool] = {}
        for point in sorted(self.truth.said):
            if point > sequence:
                break
            for change in self.truth.said[point]:
                if point > client.base:
                    newest[change.key] = (change, was.get(change.key))
                if change.value is not None:
                    was[change.key] = change.value
                else:
                    was.pop(change.key, None)
        for key in carried & set(newest):
            change, before = newest[key]
            assert change.value is None, "carries what is listed, or what no longer matches"
            assert change.departure is Departure.UNLISTED, "carries what was withdrawn"
            assert before is None or client.matches(before), "carries what no longer matched"

    @invariant()
    def nothing_alive_is_missing_from_an_exact_view(self) -> None:
        self.view.refresh()
        if not self.view.mark.exact:
            return
        now = self.clock.boottime()
        for relay in self.relays.values():
            if relay.beating and now - relay.since > BOUND and now - relay.beat_at < LEASE:
                assert relay.key in self.truth.pools

    @invariant()
    def whoever_reads_has_everything(self) -> None:
        for client in self.clients:
            stream = client.stream
            if stream is None or not stream.reading:
                continue
            self.loop.advance(TICK_SECONDS + 0.001)
            stream.step()
            self.check_messages(client)
            if stream.ended() or not stream.reading:
                continue
            mark, pools = self.truth.lists[self.view.sequence]
            wanted = {tuple(key) for key, pool in pools.items() if client.matches(pool)}
            assert set(client.folding.fold) == wanted, "a change was lost"
            assert client.folding.mark == wire.mark_message(mark)
            sequence = self.view.sequence
            shown = listed(self.view, self.clock, client.wanted)
            if self.view.sequence == sequence:
                assert client.folding.fold == by_key(shown)
                assert client.folding.mark == shown.mark


ViewMachine.TestCase.settings = settings(
    max_examples=400,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestViewModel = ViewMachine.TestCase
