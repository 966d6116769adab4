"""The sink of a list and watch: what counts when, and what is told of slices not read."""

import pytest

from global_discovery.domain.completeness import Mark, Reason
from global_discovery.domain.events import Event
from global_discovery.domain.pool import PoolKey
from global_discovery.slices.recognise import Refusal, Service
from global_discovery.sources.imported.slices import REFUSALS_TOLD_ONE_BY_ONE
from support.imported import KARMADA, SlicesWorld, a_slice, endpoint, sample

KEY = PoolKey("rome", "models", "qwen")
OTHER = PoolKey("rome", "models", "llama")
UNSYNCED = Mark(frozenset({Reason.SOURCE_UNSYNCED}), bound=0.0, slices_bound=90.0)
SYNCED = Mark(frozenset(), bound=0.0, slices_bound=90.0)
RELAYS = a_slice("qwen-pool-relay", endpoint("10.0.0.1", pod="relay"))
FRONTENDS = a_slice("qwen-frontend", endpoint("10.0.0.2", pod="frontend"))
OTHERS = a_slice("llama-pool-relay", endpoint("10.0.0.3", pod="other"))


@pytest.fixture
def world() -> SlicesWorld:
    return SlicesWorld()


@pytest.fixture
def turns() -> SlicesWorld:
    """A world whose turns are taken by hand."""
    return SlicesWorld(by_hand=True)


def test_before_the_first_list_nothing_is_known(world: SlicesWorld) -> None:
    for source in (world.source, world.router_source):
        update = source.drain()
        assert update.changes == []
        assert update.mark == UNSYNCED
        assert not update.synced


def test_a_complete_list_is_known_once_the_watch_follows_it(world: SlicesWorld) -> None:
    world.slices.replaced([RELAYS])
    assert world.pools[KEY].relays == ("ip:10.0.0.1",)
    assert (world.mark, world.synced) == (UNSYNCED, False)
    world.slices.in_sync()
    assert (world.mark, world.synced) == (SYNCED, True)


def test_an_empty_list_is_a_complete_one(world: SlicesWorld) -> None:
    world.slices.replaced([])
    world.slices.in_sync()
    assert world.pools == {}
    assert (world.mark, world.synced) == (SYNCED, True)


def test_what_is_written_one_after_the_other_is_shown_together() -> None:
    world = SlicesWorld(gathers=True)
    world.slices.replaced([OTHERS])
    world.slices.in_sync()
    assert set(world.pools) == {OTHER}
    world.slices.put(RELAYS)
    world.slices.deleted(*OTHERS.key)
    assert set(world.pools) == {OTHER}
    world.slices.put(FRONTENDS)
    assert len(world.turns) == 1
    world.turn()
    assert world.changes() == 2
    assert set(world.pools) == {KEY}
    assert world.pools[KEY].frontends == ("http://10.0.0.2:8000",)
    assert not world.turns


@pytest.fixture
def small_turns() -> SlicesWorld:
    """A synced world of one slice, whose turns are taken by hand and look at one more each."""
    world = SlicesWorld(by_hand=True, endpoints_a_turn=2)
    world.slices.replaced([OTHERS])
    world.slices.in_sync()
    world.run_turns()
    return world


def test_what_never_stops_arriving_is_shown_all_the_same(small_turns: SlicesWorld) -> None:
    small_turns.slices.put(RELAYS)
    for number in range(40):
        for name in ("a", "b", "c"):
            small_turns.slices.put(a_slice(f"{name}-pool-relay", endpoint(f"10.1.0.{number + 1}")))
        small_turns.turn()
        if KEY in small_turns.pools:
            return
    raise AssertionError("not shown after forty turns")


def test_a_series_of_turns_is_no_list_that_came_after_it_began(small_turns: SlicesWorld) -> None:
    small_turns.slices.put(RELAYS)
    small_turns.slices.put(FRONTENDS)
    small_turns.turn()
    small_turns.slices.out_of_sync()
    small_turns.slices.replaced([OTHERS])
    small_turns.slices.in_sync()
    marks = []
    while small_turns.turns:
        small_turns.turn()
        marks.append((small_turns.mark == SYNCED, set(small_turns.pools)))
    assert marks[-1] == (True, {OTHER})
    assert not any(exact for exact, pools in marks if pools != {OTHER})


def test_clusters_that_become_known_within_a_series_bring_nothing_old_back() -> None:
    world = SlicesWorld(KARMADA, by_hand=True, endpoints_a_turn=2)
    old = sample("karmada/hub-v4")
    world.slices.replaced([old])
    world.slices.in_sync()
    world.run_turns()
    assert world.pools
    world.slices.put(a_slice("x-pool-relay", endpoint("10.0.0.9")))
    world.slices.deleted(*old.key)
    world.turn()
    world.slices.know_clusters(frozenset({"one"}))
    world.run_turns()
    assert not world.pools


def test_out_of_sync_the_last_state_stays_and_is_marked_at_once(world: SlicesWorld) -> None:
    world.slices.replaced([RELAYS])
    world.slices.in_sync()
    before = dict(world.pools)
    woken = world.woken
    world.slices.out_of_sync()
    world.slices.out_of_sync()
    assert world.woken == woken + 1
    assert world.changes() == 0
    assert world.pools == before
    assert (world.mark, world.synced) == (UNSYNCED, True)
    world.slices.in_sync()
    assert world.changes() == 0
    assert world.mark == SYNCED


def test_in_sync_may_be_said_again_and_again(world: SlicesWorld) -> None:
    world.slices.replaced([])
    world.slices.in_sync()
    woken = world.woken
    world.slices.in_sync()
    assert world.woken == woken
    assert world.mark == SYNCED


def test_nothing_is_published_and_nothing_is_in_sync_before_all_is_looked_at(
    turns: SlicesWorld,
) -> None:
    many = [
        a_slice(f"p{n}-pool-relay", *(endpoint(f"10.0.{n}.{m}", pod=f"{n}-{m}") for m in range(99)))
        for n in range(50)
    ]
    turns.slices.replaced(many)
    turns.slices.in_sync()
    taken = 0
    while turns.turns:
        assert turns.changes() == 0
        assert (turns.mark, turns.synced) == (UNSYNCED, False)
        assert turns.woken == 0
        turns.turn()
        taken += 1
    assert taken >= 10
    assert turns.changes() == 50
    assert (turns.mark, turns.synced) == (SYNCED, True)


def test_a_turn_looks_at_a_bounded_number_of_endpoints(turns: SlicesWorld) -> None:
    many = [a_slice("q-pool-relay", endpoint("10.0.0.1"), name=str(n)) for n in range(5_000)]
    turns.slices.replaced(many)
    turns.turn()
    assert len(turns.slices) == 500
    turns.turn()
    assert len(turns.slices) == 1_000


def test_a_relist_that_takes_several_turns_shows_no_pod_that_moved_as_gone(
    turns: SlicesWorld,
) -> None:
    filler = [a_slice("x-frontend", endpoint("10.0.0.9"), name=str(n)) for n in range(2_000)]
    turns.slices.replaced([RELAYS, *filler])
    turns.slices.in_sync()
    turns.run_turns()
    turns.changes()
    moved = a_slice("qwen-pool-relay", endpoint("10.0.0.1", pod="relay"), name="second")
    turns.slices.replaced([*filler, moved])
    turns.run_turns()
    assert turns.changes() == 0


class Noting:
    """A reader that notes which Services changed."""

    def __init__(self) -> None:
        self.changed: list[Service] = []

    def service_changed(self, service: Service) -> None:
        self.changed.append(service)

    def work(self, endpoints: int) -> int:
        return endpoints

    def settled(self) -> None: ...

    def mark_changed(self) -> None: ...


def test_a_slice_that_comes_again_unchanged_is_not_looked_into_again(world: SlicesWorld) -> None:
    noting = Noting()
    world.slices.add_reader(noting)
    world.slices.replaced([RELAYS])
    again = a_slice("qwen-pool-relay", endpoint("10.0.0.1", pod="relay"))
    world.slices.replaced([again])
    world.slices.put(again)
    assert len(noting.changed) == 1


def test_what_a_relist_overtakes_is_never_seen(turns: SlicesWorld) -> None:
    turns.slices.put(RELAYS)
    turns.slices.replaced([OTHERS])
    turns.run_turns()
    assert [*turns.pools] == [OTHER]


def test_out_of_sync_takes_back_what_was_not_yet_looked_at_as_in_sync(turns: SlicesWorld) -> None:
    turns.slices.replaced([RELAYS])
    turns.slices.in_sync()
    turns.slices.out_of_sync()
    turns.run_turns()
    assert turns.changes() == 1
    assert (turns.mark, turns.synced) == (UNSYNCED, False)
    turns.slices.in_sync()
    turns.run_turns()
    turns.changes()
    assert (turns.mark, turns.synced) == (SYNCED, True)


def test_many_events_in_one_go_are_one_turn_and_one_change(turns: SlicesWorld) -> None:
    for ready in (True, False) * 10:
        turns.slices.put(a_slice("qwen-pool-relay", endpoint("10.0.0.1", ready=ready)))
    assert len(turns.turns) == 1
    turns.run_turns()
    assert turns.changes() == 1
    assert turns.pools[KEY].relays == ()


def test_a_slice_that_is_gone_before_it_was_known_is_no_matter(world: SlicesWorld) -> None:
    world.slices.deleted("models", "never-seen")
    assert world.changes() == 0


def test_refused_slices_are_counted_by_their_reason(world: SlicesWorld) -> None:
    names = ["reference-demo-without-cluster", "cluster-label-empty", "lighthouse-broker-copy"]
    world.slices.replaced([*(sample(f"mcs/{name}") for name in names), RELAYS])
    assert len(world.slices) == 4
    assert {reason: n for reason, n in world.slices.refused.items() if n} == {
        Refusal.NO_SOURCE_CLUSTER: 2,
        Refusal.BROKER_COPY: 1,
    }
    world.slices.replaced([])
    assert not any(world.slices.refused.values())


def test_a_refused_slice_is_told_once_and_not_with_each_event_or_relist(world: SlicesWorld) -> None:
    refused = sample("mcs/cluster-label-empty")
    for _ in range(3):
        world.slices.replaced([refused])
        world.slices.in_sync()
        world.slices.put(a_slice("q-frontend", endpoint("10.0.0.1"), cluster="", name="another"))
        world.slices.put(a_slice("q-frontend", endpoint("10.0.0.2"), cluster="", name="another"))
        world.slices.put(refused)
    told = world.told(Event.SLICE_REFUSED)
    assert told[0] == {"slice": "models/from-nowhere-0", "reason": "no_source_cluster"}
    assert [one["slice"] for one in told] == ["models/from-nowhere-0", *["models/another"] * 3]


def test_a_refused_slice_that_changes_is_not_told_again(world: SlicesWorld) -> None:
    for address in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
        world.slices.put(a_slice("q-frontend", endpoint(address), cluster="", name="one"))
    assert len(world.told(Event.SLICE_REFUSED)) == 1


def test_a_slice_that_is_refused_for_another_reason_is_told_again(world: SlicesWorld) -> None:
    world.slices.put(a_slice("q-frontend", cluster="", name="one"))
    world.slices.put(a_slice("q-frontend", cluster="rome", family="FQDN", name="one"))
    reasons = [told["reason"] for told in world.told(Event.SLICE_REFUSED)]
    assert reasons == ["no_source_cluster", "address_type"]


def test_very_many_refusals_are_told_together(world: SlicesWorld) -> None:
    world.slices.replaced([a_slice("q-frontend", cluster="", name=str(n)) for n in range(100)])
    assert len(world.told(Event.SLICE_REFUSED)) == REFUSALS_TOLD_ONE_BY_ONE
    assert world.told(Event.SLICES_REFUSED) == [
        {"slices": 100 - REFUSALS_TOLD_ONE_BY_ONE, "reasons": {"no_source_cluster": 80}}
    ]


def test_a_slice_that_becomes_readable_is_read_and_back(world: SlicesWorld) -> None:
    world.slices.put(a_slice("qwen-pool-relay", endpoint("10.0.0.1"), cluster="", name="one"))
    assert world.pools == {}
    world.slices.put(a_slice("qwen-pool-relay", endpoint("10.0.0.1"), name="one"))
    assert [*world.pools] == [KEY]
    world.slices.put(a_slice("qwen-pool-relay", endpoint("10.0.0.1"), cluster="", name="one"))
    assert world.pools == {}
    assert world.slices.refused[Refusal.NO_SOURCE_CLUSTER] == 1


def test_known_clusters_make_slices_readable_that_were_not() -> None:
    world = SlicesWorld(KARMADA)
    world.slices.replaced([sample("karmada/hub-before-1.11")])
    world.slices.in_sync()
    assert world.pools == {}
    world.slices.know_clusters(frozenset({"oslo", "bergen"}))
    assert [*world.pools] == [PoolKey("oslo", "models", "qwen")]
    assert not any(world.slices.refused.values())


def test_clusters_that_change_nothing_change_nothing() -> None:
    world = SlicesWorld(KARMADA)
    world.slices.replaced([sample("karmada/hub-v4"), sample("karmada/member-copy")])
    before = dict(world.pools)
    for clusters in (frozenset({"oslo"}), frozenset({"oslo"}), None):
        world.slices.know_clusters(clusters)
    assert world.pools == before
    assert len(world.told(Event.SLICE_REFUSED)) == 1


def test_what_arrived_is_not_overtaken_by_what_is_known_of_clusters(turns: SlicesWorld) -> None:
    turns.slices.put(RELAYS)
    turns.run_turns()
    turns.slices.put(a_slice("qwen-pool-relay", endpoint("10.0.0.9", pod="relay")))
    turns.slices.know_clusters(frozenset({"rome"}))
    turns.run_turns()
    assert turns.pools[KEY].relays == ("ip:10.0.0.9",)


def test_clusters_that_are_forgotten_leave_no_guess_behind() -> None:
    world = SlicesWorld(KARMADA)
    world.slices.replaced([sample("karmada/hub-before-1.11")])
    world.slices.know_clusters(frozenset({"oslo"}))
    assert len(world.pools) == 1
    world.slices.know_clusters(frozenset({"oslo", "oslo-qwen"}))
    assert world.pools == {}
    assert world.slices.refused[Refusal.AMBIGUOUS_CLUSTER] == 1
