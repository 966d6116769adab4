"""Anything that can happen to both sides, beside a plain reference that looks at everything.

The reference keeps no index: at each look it goes through all pools and all
losses of the past. Beside it stand a client that folds what it is told, and
routers that carry pools as the protocol asks of them.
"""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from global_discovery.domain.change import Departure
from global_discovery.domain.completeness import Mark, Reason
from global_discovery.domain.pool import Pool, PoolKey
from global_discovery.slices.imported import ImportedPool
from global_discovery.view.filters import PoolFilter
from support.hand_source import EXACT
from support.join_world import IN_SYNC, OUT_OF_SYNC, JoinWorld, keys

KEYS = [*keys(7, "c1"), *keys(2, "c2")]
SOME = st.lists(st.sampled_from(KEYS), min_size=1, max_size=7, unique=True)
RELAYS = st.sampled_from([(), ("ip:10.0.0.1",), ("ip:10.0.0.1",), ("ip:10.0.0.2",)])
FRONTENDS = st.sampled_from([(), ("http://f:1",), ("http://f:1",), ("http://f:2",)])
IN_DOUBT = Mark(frozenset({Reason.MASS_LAPSE}), bound=1.0)


@dataclass
class Reference:
    """What is listed, by looking at everything."""

    registered: dict[PoolKey, Pool] = field(default_factory=dict)
    slices: dict[PoolKey, ImportedPool] = field(default_factory=dict)
    listed: dict[PoolKey, tuple[Any, ...]] = field(default_factory=dict)
    holds: dict[PoolKey, tuple[float, ImportedPool]] = field(default_factory=dict)
    losses: list[tuple[PoolKey, float]] = field(default_factory=list)

    def shown(self, key: PoolKey) -> ImportedPool | None:
        return self.holds[key][1] if key in self.holds else self.slices.get(key)

    def look(
        self, now: float, registrations: list[Any], slices: list[Any]
    ) -> dict[PoolKey, Departure | tuple[Any, ...]]:
        """What is new."""
        known_gone: set[PoolKey] = set()
        in_doubt: set[PoolKey] = set()
        entered: set[PoolKey] = set()
        for key in [key for key, (until, _) in self.holds.items() if until <= now]:
            del self.holds[key]
            if key not in self.slices or not self.slices[key].relays:
                known_gone.add(key)
        for change in registrations:
            before = self.registered.pop(change.key, None)
            if change.value is not None:
                self.registered[change.key] = change.value
            again = before is not None and change.value is not None
            if again and before.registered_time == change.value.registered_time:
                continue
            self.holds.pop(change.key, None)
            entered.add(change.key)
            if change.departure is Departure.REMOVED:
                known_gone.add(change.key)
            if change.departure is Departure.UNLISTED:
                in_doubt.add(change.key)
        for change in slices:
            self.slice_changed(change.key, change.value, now, known_gone)
        return self.settle(known_gone, in_doubt, entered)

    def slice_changed(
        self, key: PoolKey, after: ImportedPool | None, now: float, known_gone: set[PoolKey]
    ) -> None:
        shown = self.shown(key)
        self.slices.pop(key, None)
        if after is not None:
            self.slices[key] = after
        had = (bool(shown and shown.relays), bool(shown and shown.relays and shown.frontends))
        has = (bool(after and after.relays), bool(after and after.relays and after.frontends))
        lost = any(h and not n for h, n in zip(had, has, strict=True))
        if not lost:
            self.holds.pop(key, None)
            return
        if key in self.holds:
            return
        if key in self.listed and key in self.registered:
            others = {
                other
                for other, at in self.losses
                if other != key and other.cluster_id == key.cluster_id and now - at < 10
            }
            self.losses.append((key, now))
            if len(others) >= 4:
                self.holds[key] = (now + 10, shown)
                return
        if not has[0]:
            known_gone.add(key)

    def settle(
        self, known_gone: set[PoolKey], in_doubt: set[PoolKey], entered: set[PoolKey]
    ) -> dict[PoolKey, Departure | tuple[Any, ...]]:
        news: dict[PoolKey, Departure | tuple[Any, ...]] = {}
        for key in KEYS:
            shown, registered = self.shown(key), self.registered.get(key)
            before = self.listed.pop(key, None)
            if shown is not None and shown.relays and registered is not None:
                now = (registered.content.model, shown.relays, shown.frontends)
                self.listed[key] = now
                if now != before or key in entered:
                    news[key] = now
            elif key in known_gone:
                news[key] = Departure.REMOVED
            elif before is not None:
                news[key] = Departure.UNLISTED if key in in_doubt else Departure.REMOVED
        return news


class JoinMachine(RuleBasedStateMachine):
    """The join and its view, the reference, and one reader who comes by now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.world = JoinWorld()
        self.reference = Reference()
        self.place = 0
        self.fold: dict[PoolKey, Any] = {}
        self.carried: set[PoolKey] = set()

    @initialize(synced=st.booleans())
    def begin(self, *, synced: bool) -> None:
        if not synced:
            self.world.slices.say(OUT_OF_SYNC, synced=False)
        self.world.register(*KEYS)
        self.world.show(*KEYS)
        self.read()

    # -- the registrations

    @rule(some=SOME, model=st.sampled_from(["a", "b"]))
    def register(self, some: list[PoolKey], model: str) -> None:
        for key in some:
            pending = self.world.registrations._pending.get(key)
            gone = pending is not None and pending.value is None
            if gone and key in self.world.join._registered:
                self.world.re_register(key)  # as the registrations tell it: with a new time
            elif pending is None:
                self.world.register(key, model=model)

    @rule(some=SOME)
    def withdraw(self, some: list[PoolKey]) -> None:
        self.world.withdraw(*some)

    @rule(some=SOME)
    def lapse_in_doubt(self, some: list[PoolKey]) -> None:
        self.world.registrations.say(IN_DOUBT)
        self.world.unlist(*some)

    @rule()
    def doubt_ends(self) -> None:
        self.world.registrations.say(EXACT)

    # -- the slices

    @rule(some=SOME, relays=RELAYS, frontends=FRONTENDS)
    def show(self, some: list[PoolKey], relays: Any, frontends: Any) -> None:
        self.world.show(*some, relays=relays, frontends=frontends)

    @rule(some=SOME)
    def hide(self, some: list[PoolKey]) -> None:
        self.world.hide(*some)

    @rule()
    def all_slices_go(self) -> None:
        self.world.hide(*KEYS)

    @rule(synced=st.booleans())
    def sync_is_lost_or_found(self, *, synced: bool) -> None:
        known = self.world.slices.synced or synced
        self.world.slices.say(IN_SYNC if synced else OUT_OF_SYNC, synced=known)

    # -- time and readers

    @rule(seconds=st.sampled_from([0.5, 2.0, 5.0, 9.5, 10.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.look()
        self.world.clock.advance(seconds)
        self.world.join.tick()

    @rule()
    def look(self) -> None:
        """Brings the view forward: exactly what the reference finds is new, and nothing else."""
        registrations = [*self.world.registrations._pending.values()]
        slices = [*self.world.slices._pending.values()]
        news = self.reference.look(self.world.clock.monotonic(), registrations, slices)
        found = {
            key: change
            if isinstance(change, Departure)
            else (change.content.model, change.relays, change.content.frontends)
            for key, change in self.world.changes().items()
        }
        assert found == news

    @rule()
    def read(self) -> None:
        """A router continues where it was, and carries as the protocol asks."""
        self.look()
        view = self.world.view
        delta = view.since(self.place, PoolFilter())
        self.place = delta.sequence
        for key in delta.removed:
            self.fold.pop(key, None)
            self.carried.discard(key)
        for key in delta.unlisted:
            if self.fold.pop(key, None) is not None:
                self.carried.add(key)
        for entry in delta.entries:
            self.fold[entry.value.key] = entry.value
        self.carried -= set(self.fold)
        if delta.mark.exact:
            self.carried.clear()
        assert self.fold == self.world.listed()

    @invariant()
    def an_exact_view_has_every_pool_on_which_both_sides_agree(self) -> None:
        world = self.world
        if not world.view.mark.exact:
            return
        # As of the last look: what came since is not a second old.
        join = world.join
        assert not join.held
        agreed = {
            key for key, shown in join._slices.items() if shown.relays and key in join._registered
        }
        listed = {
            entry.value.key: entry.value for entry in world.view.snapshot(PoolFilter()).entries
        }
        assert set(listed) == agreed
        assert all(listed[key].relays == join._slices[key].relays for key in agreed)


TestJoin = JoinMachine.TestCase
TestJoin.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
