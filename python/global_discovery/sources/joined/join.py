"""The pools on which both sides agree: registered inside a lease, and shown Ready by slices.

A source made of two. The slices give a pool's relays and frontends, the
registration gives everything else. Whatever both sides have when it is drained
becomes one change a key, and none when what is listed of it stays the same.

How a pool leaves: as its registration left (`removed` or `unlisted`), or as
`removed` when the slices no longer show a relay of it. That is positive
knowledge also of a pool that is not listed just then: a router may carry it
since its lease ended unheard, so it is told all the same.

While the Kubernetes side is out of sync it says nothing new, so its last state
stands, and registrations come and go against it. Not here: when a side is in
sync, which each says of itself.

`tick` must be called about ten times a second. It looks at what is due only.
"""

from collections.abc import Callable, KeysView
from dataclasses import replace
from typing import NamedTuple

from global_discovery.domain.change import Change, Departure
from global_discovery.domain.clock import Clock
from global_discovery.domain.completeness import Mark, Reason, join
from global_discovery.domain.events import Report, ignore
from global_discovery.domain.pool import Pool, PoolKey
from global_discovery.slices.imported import ImportedPool
from global_discovery.sources.joined.damping import Damping, lost
from global_discovery.sources.joined.one_sided import OneSided, Side
from global_discovery.sources.joined.without_frontends import WithoutFrontends
from global_discovery.sources.source import Source, Update

HOLDS_A_DRAIN = 2_500


class JoinState(NamedTuple):
    """What the join knows of one key."""

    shown: bool
    """Whether the slices count as showing a Ready relay."""
    held: bool
    """Whether it keeps addresses that the slices no longer show."""
    told: Side | None
    """The only side that lists it, once people were told."""


class JoinedPools:
    """A source of pools made of the registrations and the imported pools."""

    def __init__(  # noqa: PLR0913 - what it is made of, by keyword
        self,
        registrations: Source[PoolKey, Pool],
        imported: Source[PoolKey, ImportedPool],
        *,
        clock: Clock,
        lease_duration: float,
        frontend_suffix: str,
        frontend_port_name: str,
        report: Report = ignore,
    ) -> None:
        """Drains both sources, alone. The suffix and port name are for what people are told."""
        self._registrations = registrations
        self._imported = imported
        self._clock = clock
        self.one_sided = OneSided(
            lease_duration=lease_duration, now=clock.monotonic(), report=report
        )
        self.without_frontends = WithoutFrontends(
            frontend_suffix=frontend_suffix, frontend_port_name=frontend_port_name, report=report
        )
        self._damping = Damping()
        self._registered: dict[PoolKey, Pool] = {}
        self._slices: dict[PoolKey, ImportedPool] = {}
        """What the slices show, held or not."""
        self._listed: dict[PoolKey, Pool] = {}
        self._wake: Callable[[], None] = lambda: None

    @property
    def held(self) -> int:
        """How many pools keep addresses that their slices no longer show."""
        return len(self._damping)

    def tick(self) -> None:
        """Ends holds that are due, and tells people what it is time to tell."""
        now = self._clock.monotonic()
        if self._damping.due(now):
            self._wake()
        self.one_sided.tick(now)
        self.without_frontends.tick(self._slices.get)

    # -- for people ----------------------------------------------------------

    def imported_keys(self) -> KeysView[PoolKey]:
        """The pools that have a slice."""
        return self._slices.keys()

    def explain(self, key: PoolKey) -> JoinState:
        """As of the last `drain`."""
        shown = self._shown(key)
        return JoinState(
            shown is not None and bool(shown.relays),
            self._damping.kept(key) is not None,
            self.one_sided.told.get(key),
        )

    # -- the source ----------------------------------------------------------

    def on_change(self, wake: Callable[[], None]) -> None:
        """See Source."""
        self._wake = wake
        self._registrations.on_change(wake)
        self._imported.on_change(wake)

    def drain(self) -> Update[PoolKey, Pool]:
        """See Source."""
        now = self._clock.monotonic()
        registered, imported = self._registrations.drain(), self._imported.drain()
        mark = join((registered.mark, imported.mark))
        synced = registered.synced and imported.synced
        self.one_sided.follow(mark, synced=synced, now=now)
        touched: dict[PoolKey, Departure | None] = {}
        entered: set[PoolKey] = set()
        for key in self._damping.take_due(now, HOLDS_A_DRAIN):
            touched[key] = _departure_by_slices(self._slices.get(key))
        for registration in registered.changes:
            if self._take_registration(registration):
                entered.add(registration.key)
            _note(touched, registration.key, registration.departure)
        for shown in imported.changes:
            _note(touched, shown.key, self._take_slices(shown, now))
        wall = self._clock.wall()
        changes = []
        for key, departure in touched.items():
            change = self._settle(key, departure, wall, entered=key in entered)
            if change is not None:
                changes.append(change)
        return Update(changes, self._marked(mark), synced=synced)

    def _marked(self, mark: Mark) -> Mark:
        return replace(mark, reasons=mark.reasons | {Reason.DAMPED}) if self.held else mark

    # -- the two sides -------------------------------------------------------

    def _take_registration(self, change: Change[PoolKey, Pool]) -> bool:
        """What the registrations say; whether the pool entered them, perhaps having left before.

        A lapse or withdrawal ends a hold, also one that was overtaken by a new
        registration. The slices' loss is then no reason of its own: it was in
        doubt.
        """
        before = self._registered.pop(change.key, None)
        if change.value is not None:
            self._registered[change.key] = change.value
            if before is not None and before.registered_time == change.value.registered_time:
                return False
        self._damping.release(change.key)
        return change.value is not None

    def _take_slices(self, change: Change[PoolKey, ImportedPool], now: float) -> Departure | None:
        """What the slices show; how the pool leaves by that, if it does."""
        key, after = change.key, change.value
        shown = self._shown(key)
        if after is None:
            self._slices.pop(key, None)
        else:
            self._slices[key] = after
        if shown is None or not lost(shown, after):
            self._damping.release(key)
            return None
        if self._damping.kept(key) is not None:
            return None
        agreed = key in self._listed and key in self._registered
        if agreed and self._damping.lose(shown, now):
            return None
        return _departure_by_slices(after)

    def _shown(self, key: PoolKey) -> ImportedPool | None:
        """What counts as shown by the slices now."""
        return self._damping.kept(key) or self._slices.get(key)

    # -- what is listed ------------------------------------------------------

    def _settle(
        self, key: PoolKey, departure: Departure | None, wall: float, *, entered: bool
    ) -> Change[PoolKey, Pool] | None:
        """Lists, changes or drops one key by what both sides say now."""
        registered, shown = self._registered.get(key), self._shown(key)
        if shown is not None and not shown.relays:
            shown = None
        self.one_sided.put(key, _only_side(registered, shown))
        if registered is None or shown is None:
            self.without_frontends.put(key, missing=False)
            before = self._listed.pop(key, None)
            if before is None and departure is not Departure.REMOVED:
                return None
            return Change(key, None, departure or Departure.REMOVED)
        self.without_frontends.put(key, missing=not shown.frontends)
        before = self._listed.get(key)
        content = replace(registered.content, frontends=shown.frontends)
        since = wall
        if before is not None and not entered:
            if (before.content, before.relays) == (content, shown.relays):
                return None
            since = before.registered_time
        pool = self._listed[key] = Pool(key, content, shown.relays, since, wall)
        return Change(key, pool)


def _note(
    touched: dict[PoolKey, Departure | None], key: PoolKey, departure: Departure | None
) -> None:
    """Positive knowledge of one side stands, whatever the other says."""
    if touched.get(key) is not Departure.REMOVED:
        touched[key] = departure or touched.get(key)


def _departure_by_slices(after: ImportedPool | None) -> Departure | None:
    return None if after is not None and after.relays else Departure.REMOVED


def _only_side(registered: Pool | None, shown: ImportedPool | None) -> Side | None:
    if (registered is None) == (shown is None):
        return None
    return Side.REGISTRATION if shown is None else Side.SLICES
