"""The join of two sides that a test moves by hand, on a clock, and what a reader of it knows."""

from global_discovery.domain.change import Departure
from global_discovery.domain.completeness import Mark, Reason
from global_discovery.domain.events import Event
from global_discovery.domain.pool import Content, Location, Pool, PoolKey
from global_discovery.slices.imported import ImportedPool
from global_discovery.sources.joined.join import JoinedPools
from global_discovery.view.filters import PoolFilter
from global_discovery.view.view import View
from support.clock import FakeClock
from support.hand_source import EXACT, HandSource

KEY = PoolKey("c1", "ns", "pool")
TICK = 0.125
IN_SYNC = Mark(frozenset(), bound=0.0, slices_bound=90.0)
OUT_OF_SYNC = Mark(frozenset({Reason.SOURCE_UNSYNCED}), bound=0.0, slices_bound=90.0)
STARTING = Mark(frozenset({Reason.STARTING}), bound=1.0)
RELAYS = ("ip:10.1.0.1",)
FRONTENDS = ("http://10.1.0.2:8000",)


def keys(count: int, cluster: str = "c1") -> list[PoolKey]:
    return [PoolKey(cluster, "ns", f"pool-{number:03}") for number in range(count)]


class JoinWorld:
    """Both sides in sync and exact, leases of 15 s, and a view of the join."""

    def __init__(self, *, lease_duration: float = 15.0) -> None:
        self.clock = FakeClock()
        self.registrations = HandSource(mark=EXACT)
        self.slices = HandSource(mark=IN_SYNC)
        self.events: list[tuple[Event, dict[str, object]]] = []
        self.join = JoinedPools(
            self.registrations,
            self.slices,
            clock=self.clock,
            lease_duration=lease_duration,
            frontend_suffix="-frontend",
            frontend_port_name="http",
            report=lambda event, **fields: self.events.append((event, fields)),
        )
        self.view: View[Pool] = View(self.join)
        self.woken = 0
        self.view.on_move(self._wake)

    def _wake(self) -> None:
        self.woken += 1

    # -- the registration side

    def register(self, *registered: PoolKey, model: str = "m", region: str = "r1") -> None:
        """Begins or changes registrations; `registered_time` is that of the first call."""
        for key in registered:
            content = Content(model, Location(region), frontends=("http://unused:1",))
            self.registrations.put(Pool(key, content, ("ip:192.0.2.1",), self.since(key), 1.5e9))

    def since(self, key: PoolKey) -> float:
        known = self.join._registered.get(key)
        return self.clock.wall() if known is None else known.registered_time

    def re_register(self, key: PoolKey) -> None:
        """It left and entered the registrations since somebody looked."""
        content = Content("m", Location("r1"))
        self.registrations.put(Pool(key, content, (), self.clock.wall() + 0.5, 1.5e9))

    def withdraw(self, *withdrawn: PoolKey) -> None:
        self.registrations.remove(*withdrawn)

    def unlist(self, *lapsed: PoolKey) -> None:
        """They lapse while renewals may have been missed."""
        self.registrations.unlist(*lapsed)

    # -- the Kubernetes side

    def show(
        self,
        *shown: PoolKey,
        relays: tuple[str, ...] = RELAYS,
        frontends: tuple[str, ...] = FRONTENDS,
        frontend_slices: int = 1,
        frontend_port_seen: bool = True,
    ) -> None:
        for key in shown:
            self.slices.put(
                ImportedPool(key, relays, frontends, frontend_slices, frontend_port_seen)
            )

    def hide(self, *gone: PoolKey) -> None:
        self.slices.remove(*gone)

    # -- both

    def agree(self, *both: PoolKey) -> None:
        self.register(*both)
        self.show(*both)
        self.view.refresh()

    def run(self, seconds: float) -> None:
        """The loop runs: time passes, every tick comes, whoever is woken looks."""
        self.clock.run(seconds, self._turn, every=TICK)

    def _turn(self) -> None:
        woken = self.woken
        self.join.tick()
        if self.woken != woken:
            self.view.refresh()

    # -- what is known of it

    def listed(self) -> dict[PoolKey, Pool]:
        self.view.refresh()
        return {entry.value.key: entry.value for entry in self.view.snapshot(PoolFilter()).entries}

    def reasons(self) -> set[str]:
        self.view.refresh()
        return {reason.value for reason in self.view.mark.reasons}

    def changes(self) -> dict[PoolKey, Pool | Departure]:
        """What the next drain brings; the view then knows it too."""
        before = self.view.sequence
        self.view.refresh()
        records = self.view._history[before - self.view._forgotten :]
        return {
            record.key: record.departure if record.after is None else record.after.value
            for record in records
            if record.key is not None
        }

    def told(self, event: Event) -> list[dict[str, object]]:
        return [fields for happened, fields in self.events if happened is event]
