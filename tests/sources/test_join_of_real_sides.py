"""The join of real registrations with their leases and of real slices, on a clock."""

from hypothesis import given, settings
from hypothesis import strategies as st

from global_discovery.domain.change import Departure
from global_discovery.domain.events import Event
from global_discovery.domain.pool import Pool, PoolKey
from global_discovery.slices.model import EndpointSlice
from global_discovery.sources.joined.join import JoinedPools
from global_discovery.view.filters import PoolFilter
from global_discovery.view.view import View
from support.imported import SlicesWorld, a_slice, endpoint
from support.lease_world import TICK, LeaseWorld

LEASE, BEAT = 15.0, 5.0


def names(count: int) -> list[str]:
    return [f"pool-{number:02}" for number in range(count)]


def key_of(name: str, cluster: str = "rome") -> PoolKey:
    return PoolKey(cluster, "models", name)


def relay_slice(name: str, cluster: str = "rome", *, ready: bool = True) -> EndpointSlice:
    place = f"{name}-{cluster}-relay"
    ends = endpoint("10.0.0.1", ready=ready)
    return a_slice(f"{name}-pool-relay", ends, name=place, cluster=cluster)


def frontend_slice(name: str, cluster: str = "rome") -> EndpointSlice:
    place = f"{name}-{cluster}-frontend"
    return a_slice(f"{name}-frontend", endpoint("10.0.0.2"), name=place, cluster=cluster)


class World:
    """Both sides, read once and exact after one lease; relays that beat as long as they live."""

    def __init__(self) -> None:
        self.leases = LeaseWorld()
        self.slices = SlicesWorld()
        self.clock = self.leases.clock
        self.events: list[Event] = []
        self.join = JoinedPools(
            self.leases.registrations,
            self.slices.source,
            clock=self.clock,
            lease_duration=LEASE,
            frontend_suffix="-frontend",
            frontend_port_name="http",
            report=lambda event, **_: self.events.append(event),
        )
        self.view: View[Pool] = View(self.join)
        self.beating: dict[PoolKey, str] = {}
        self._beat_at = self.clock.monotonic() + BEAT
        self.register("witness")  # the instance listens, and nothing more
        self.list()
        self.run(LEASE)
        assert self.view.mark.exact

    # -- the relays

    def register(self, *pools: str) -> None:
        for name in pools:
            key = key_of(name)
            self.beating[key] = self.leases.register(key, relay_id="r", model=f"of-{name}")

    def die(self, *pools: str) -> None:
        for name in pools:
            self.beating.pop(key_of(name), None)

    def withdraw(self, name: str) -> None:
        self.leases.withdraw(key_of(name), lease_id=self.beating.pop(key_of(name)))

    # -- the slices

    def show(self, *pools: str) -> None:
        for name in pools:
            self.slices.slices.put(relay_slice(name))
            self.slices.slices.put(frontend_slice(name))

    def hide(self, *pools: str) -> None:
        for name in pools:
            self.slices.slices.deleted("models", f"{name}-rome-relay")
            self.slices.slices.deleted("models", f"{name}-rome-frontend")

    def list(self, *pools: str) -> None:
        """A whole list, after which the watch is in sync."""
        items = [piece for name in pools for piece in (relay_slice(name), frontend_slice(name))]
        self.slices.slices.replaced(items)
        self.slices.slices.in_sync()

    # -- time and readers

    def run(self, seconds: float) -> None:
        """The loop runs, and living relays renew at their interval."""
        self.clock.run(seconds, self._turn, every=TICK)

    def _turn(self) -> None:
        if self.clock.monotonic() >= self._beat_at:
            self._beat_at += BEAT
            self.leases.renew(*self.beating.values())
        self.join.tick()
        self.leases.tick()
        self.view.refresh()

    def listed(self) -> set[str]:
        self.view.refresh()
        return {entry.value.key.dgd_name for entry in self.view.snapshot(PoolFilter()).entries}

    def clusters(self) -> set[str]:
        self.view.refresh()
        return {entry.value.key.cluster_id for entry in self.view.snapshot(PoolFilter()).entries}

    def departures(self, place: int) -> dict[str, Departure | None]:
        """How keys left since a position."""
        self.view.refresh()
        records = self.view._history[place - self.view._forgotten :]
        return {record.key.dgd_name: record.departure for record in records if record.key}


def test_a_stale_ready_slice_does_not_outlive_the_lease_of_a_dead_relay() -> None:
    world = World()
    world.register("pool")
    world.show("pool")
    assert world.listed() == {"pool"}
    place = world.view.sequence
    world.die("pool")
    world.run(LEASE - 0.25)
    assert world.listed() == {"pool"}
    world.run(1)
    assert world.departures(place) == {"pool": Departure.REMOVED}
    assert world.view.mark.exact


def test_unchanged_renewals_and_relists_move_nothing() -> None:
    world = World()
    world.register(*names(3))
    world.list(*names(3))
    assert world.listed() == set(names(3))
    place = world.view.sequence
    for _ in range(20):
        world.run(BEAT)
        world.slices.slices.out_of_sync()
        world.list(*reversed(names(3)))
    assert [record.key for record in world.view._history[place:] if record.key] == []


def test_a_relist_that_lacks_a_pool_sends_that_difference_and_no_other() -> None:
    world = World()
    world.register(*names(3))
    world.list(*names(3))
    world.view.refresh()
    place = world.view.sequence
    world.slices.slices.out_of_sync()
    world.list(*names(2))
    assert world.departures(place) == {"pool-02": Departure.REMOVED}


def test_a_mass_lapse_unlists_pools_that_slices_still_show_and_renewals_bring_them_back() -> None:
    world = World()
    world.register(*names(20))
    world.show(*names(20))
    assert len(world.listed()) == 20
    place = world.view.sequence
    world.die(*names(20))
    world.run(LEASE + 1)
    assert world.departures(place) == dict.fromkeys(names(20), Departure.UNLISTED)
    assert {reason.value for reason in world.view.mark.reasons} == {"MASS_LAPSE"}
    world.register(*names(5))
    assert world.listed() == set(names(5))


def test_a_controller_that_deletes_and_makes_everything_anew_is_hardly_seen() -> None:
    world = World()
    world.register(*names(12))
    world.list(*names(12))
    world.view.refresh()
    place = world.view.sequence
    world.list()
    assert len(world.listed()) == 8
    assert {reason.value for reason in world.view.mark.reasons} == {"DAMPED"}
    world.run(5)
    world.list(*names(12))
    assert world.listed() == set(names(12))
    assert world.view.mark.exact
    gone = [kind for kind in world.departures(place).values() if kind is not None]
    moved = [record.key for record in world.view._history[place:] if record.key]
    assert len(set(moved)) == 4
    assert not gone  # the newest of each is its return


def test_a_slice_that_moves_to_another_cluster_takes_its_pool_along() -> None:
    world = World()
    world.register("pool")
    world.leases.register(key_of("pool", "paris"), relay_id="r")
    world.show("pool")
    assert world.clusters() == {"rome"}
    ends = endpoint("10.0.0.1")
    moved = a_slice("pool-pool-relay", ends, name="pool-rome-relay", cluster="paris")
    world.slices.slices.put(moved)
    assert world.clusters() == {"paris"}


def test_a_relay_that_is_not_ready_any_more_drops_its_pool_and_its_return_lists_it() -> None:
    world = World()
    world.register("pool")
    world.show("pool")
    world.view.refresh()
    place = world.view.sequence
    world.slices.slices.put(relay_slice("pool", ready=False))
    assert world.departures(place) == {"pool": Departure.REMOVED}
    world.slices.slices.put(relay_slice("pool"))
    assert world.listed() == {"pool"}


FEW = names(6)
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["register", "die", "withdraw", "show", "hide", "list", "cut", "run", "run", "wait"]
        ),
        st.lists(st.sampled_from(FEW), min_size=1, max_size=6, unique=True),
    ),
    max_size=25,
)


def act(world: World, action: str, pools: list[str]) -> None:
    if action == "withdraw":
        for name in pools:
            if key_of(name) in world.beating:
                world.withdraw(name)
    elif action == "cut":
        world.slices.slices.out_of_sync()
    elif action == "run":
        world.run(1 + len(pools))
    elif action == "wait":
        world.run(LEASE)
    else:
        getattr(world, action)(*pools)


@settings(max_examples=60)
@given(ACTIONS)
def test_no_view_is_exact_that_lacks_a_pool_which_lives_and_is_shown(
    actions: list[tuple[str, list[str]]],
) -> None:
    world = World()
    for action, pools in actions:
        act(world, action, pools)
        listed = world.listed()
        shown = {key.dgd_name for key, pool in world.join._slices.items() if pool.relays}
        registered = {key.dgd_name for key in world.leases.registrations._table.pools}
        if world.view.mark.exact:
            assert listed == shown & registered
            assert {key.dgd_name for key in world.beating} & shown <= listed
        else:
            assert listed <= registered
