"""What is kept and foreseen for explanations: shares that ended, leases that will, near misses."""

import random

import pytest

from global_discovery.domain.explanation import Ending, NearMissKind
from global_discovery.domain.pool import PoolKey
from global_discovery.sources.near_misses import LOOKED_AT, alike, near_misses
from global_discovery.sources.registered.ended_shares import MAX_A_POOL, MAX_POOLS
from support.lease_world import KEY, LeaseWorld, a_seen_share, keys

OTHER = PoolKey("c1", "ns", "other")


# -- shares that ended ---------------------------------------------------------------


def test_only_the_last_pools_that_lost_a_share_are_remembered(world: LeaseWorld) -> None:
    many = keys(MAX_POOLS + 3)
    for key in many:
        world.withdraw(key, lease_id=world.register(key))
    explained = [bool(world.registrations.explain(key).ended) for key in (*many[:4], many[-1])]
    assert explained == [False, False, False, True, True]


def test_only_the_last_shares_of_a_pool_are_remembered_the_newest_first(world: LeaseWorld) -> None:
    for number in range(MAX_A_POOL + 2):
        world.withdraw(lease_id=world.register(relay_id=f"r{number}"), caller="10.9.9.9")
    ended = world.registrations.explain(KEY).ended
    assert [one.who.name for one in ended] == [f"r{number}" for number in range(9, 1, -1)]
    assert {(one.ending, one.caller) for one in ended} == {(Ending.WITHDRAWN, "10.9.9.9")}


def test_a_share_withdrawn_elsewhere_is_remembered_as_that() -> None:
    world = LeaseWorld(shared=True)
    world.take(a_seen_share("elsewhere", renewed=True))
    world.take(withdrawn={"elsewhere": 100.0})
    (ended,) = world.registrations.explain(KEY).ended
    assert (ended.ending, ended.caller) == (Ending.WITHDRAWN, "another instance")


def test_a_share_found_in_a_store_again_is_no_ended_one() -> None:
    world = LeaseWorld(shared=True)
    world.take(a_seen_share(renewed=True))
    world.run(16)
    assert world.registrations.explain(KEY).ended
    world.take(a_seen_share("s2", renewed=True))
    assert not world.registrations.explain(KEY).ended


# -- leases that will end ------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_a_foreseen_end_is_when_the_lease_ends_whatever_happened_before(seed: int) -> None:
    """Stalls, heartbeats of others and silence; then nobody renews it any more."""
    chance = random.Random(seed)
    world = LeaseWorld(mass_lapse_protection=False)
    world.run(40)
    world.register()
    for _ in range(chance.randrange(1, 5)):
        world.run(chance.randrange(1, 40) / 8)
        if chance.random() < 0.6:
            world.clock.stop(chance.uniform(5.5, 25))
        world.tick()
        if chance.random() < 0.7:
            world.register(OTHER)
    world.register(OTHER)  # it listens from here on at the latest
    shares = world.registrations.explain(KEY).shares
    if not shares:
        return
    remaining = shares[0].remaining
    if remaining > 0.5:
        world.run(remaining - 0.25)
        assert world.registrations.explain(KEY).shares
    world.run(0.75)
    assert not world.registrations.explain(KEY).shares


def test_while_the_instance_does_not_listen_a_lease_ends_one_lease_from_now_at_the_earliest(
    world: LeaseWorld,
) -> None:
    world.run(40)
    world.register()
    world.run(10)
    world.clock.stop(20)
    (share,) = world.registrations.explain(KEY).shares
    assert (share.remaining, share.extensions) == (15.0, 1)
    world.run(5)
    (share,) = world.registrations.explain(KEY).shares
    assert share.remaining == 15.0
    world.register(OTHER)
    world.run(14.5)
    assert world.registrations.explain(KEY).shares


def test_a_stall_after_the_end_of_a_lease_gives_it_nothing(world: LeaseWorld) -> None:
    world.run(40)
    world.register()
    world.run(14.875)
    world.clock.advance(0.25)
    world.registrations.explain(OTHER)  # the loop runs, and the lease is not looked at
    world.clock.stop(7)
    (share,) = world.registrations.explain(KEY).shares
    assert (share.remaining, share.extensions) == (0.0, 0)
    world.tick()
    assert not world.registrations.explain(KEY).shares


def test_no_more_extensions_are_foreseen_than_are_given(world: LeaseWorld) -> None:
    world.run(40)
    world.register()
    for _ in range(5):
        world.clock.stop(6)
        world.tick()
        world.register(OTHER)
    shares = world.registrations.explain(KEY).shares
    assert [share.extensions for share in shares] == [3]


# -- near misses ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("qwen", "Qwen", True),
        ("qwen", "qwne", True),
        ("qwen", "qwen3", True),
        ("qwen-70b", "qwen70b", True),
        ("qwen", "llama", False),
        ("qwen", "qwen-large", False),
        ("ab", "cd", False),
        ("a", "b", False),
        ("axxb", "ayyb", True),
        ("xaay", "zaaz", False),
    ],
)
def test_names_are_alike_when_one_slip_makes_one_of_the_other(
    one: str, other: str, *, expected: bool
) -> None:
    assert alike(one, other) is expected
    assert alike(other, one) is expected


def test_among_very_many_pools_the_other_clusters_are_found_all_the_same() -> None:
    asked = PoolKey("rome", "models", "qwen")
    looked_at = [PoolKey(f"c{number % 50}", "x", f"p{number}") for number in range(LOOKED_AT)]
    beyond = [PoolKey("c7", "models", "qwen"), PoolKey("unseen", "models", "qwen")]
    registered = dict.fromkeys([*looked_at, *beyond])
    found = near_misses(
        asked, registered=registered.keys(), imported=(), slices=None, may_read=lambda _: True
    )
    assert [(miss.kind, miss.key) for miss in found.found] == [
        (NearMissKind.OTHER_CLUSTER, beyond[0])
    ]
    assert found.cut


def test_where_all_was_looked_at_nothing_is_cut() -> None:
    registered = dict.fromkeys(keys(LOOKED_AT))
    found = near_misses(
        KEY, registered=registered.keys(), imported=(), slices=None, may_read=lambda _: True
    )
    assert found == ((), False)
