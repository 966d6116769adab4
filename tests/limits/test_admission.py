"""Which shares may begin, and that a live one is never refused for a limit."""

import pytest

from global_discovery.domain.completeness import Reason
from global_discovery.domain.limits import Limit, LimitReached
from global_discovery.sources.registered.admission import BURST_SECONDS, RegistrationLimits
from global_discovery.storage.store import SeenShare
from support.lease_world import KEY, LeaseWorld, a_seen_share, keys

SMALL = RegistrationLimits(pools=3, shares=5)
A_FEW_A_SECOND = RegistrationLimits(new_shares_per_second=2)
BURST = int(2 * BURST_SECONDS)


def refused(world: LeaseWorld, key: object, **call: object) -> LimitReached:
    with pytest.raises(LimitReached) as error:
        world.register(key, **call)  # type: ignore[arg-type]
    assert error.value.retry_after is not None
    assert error.value.retry_after > 0
    return error.value


def stored(count: int, *, renewed: bool = False) -> list[SeenShare]:
    return [a_seen_share(f"id of {key}", key=key, renewed=renewed) for key in keys(count)]


def full_of_pools() -> LeaseWorld:
    world = LeaseWorld(limits=SMALL)
    for key in keys(3):
        world.register(key)
    return world


def test_one_pool_more_is_refused_and_those_that_are_there_go_on() -> None:
    world = full_of_pools()
    error = refused(world, KEY)
    assert error.limit is Limit.POOLS
    assert 7.5 <= (error.retry_after or 0) <= 15, "about until a lease ends"
    assert len(world.registrations) == 3
    for key in keys(3):
        world.register(key)
        world.register(key, model="changed")
    world.register(keys(3)[0], relay_id="another")
    assert len(world.registrations) == 3


def test_one_share_more_is_refused_whatever_pool_it_is_of() -> None:
    world = full_of_pools()
    first, second, third = keys(3)
    world.register(first, relay_id="b")
    world.register(second, relay_id="b")
    assert refused(world, third, relay_id="b").limit is Limit.SHARES
    world.register(first, relay_id="b", model="changed")


def test_a_share_that_lapsed_is_a_new_one_and_leaves_room_for_another() -> None:
    world = full_of_pools()
    world.run(16)
    assert len(world.registrations) == 0
    world.register(KEY)
    for key in keys(2):
        world.register(key)
    assert refused(world, keys(3)[2]).limit is Limit.POOLS


def test_a_caller_begins_so_many_a_second_and_others_are_not_asked() -> None:
    world = LeaseWorld(limits=A_FEW_A_SECOND)
    all_keys = keys(BURST + 4)
    for key in all_keys[:BURST]:
        world.register(key, caller="10.0.0.1")
    assert refused(world, all_keys[BURST], caller="10.0.0.1").limit is Limit.NEW_SHARES
    world.register(all_keys[BURST], caller="10.0.0.2")
    world.clock.advance(0.5)
    world.register(all_keys[BURST + 1], caller="10.0.0.1")
    assert refused(world, all_keys[BURST + 2], caller="10.0.0.1").limit is Limit.NEW_SHARES


def test_renewals_and_changes_are_never_refused_for_a_rate() -> None:
    world = LeaseWorld(limits=A_FEW_A_SECOND)
    all_keys = keys(BURST + 1)
    for key in all_keys[:BURST]:
        world.register(key, caller="10.0.0.1")
    refused(world, all_keys[BURST], caller="10.0.0.1")
    for number in range(100):
        world.register(all_keys[0], caller="10.0.0.1", model=f"m{number}")
        world.register(all_keys[1], caller="10.0.0.1")


def test_those_that_are_refused_together_do_not_come_back_together() -> None:
    world = full_of_pools()
    times = {refused(world, KEY).retry_after for _ in range(20)}
    assert len(times) > 10


def test_what_a_store_had_is_listed_whatever_the_limits_say() -> None:
    world = LeaseWorld(limits=SMALL, ready=False)
    world.restore(*stored(8))
    world.registrations.ready()
    assert len(world.registrations) == 8
    assert refused(world, KEY).limit is Limit.POOLS
    world.register(keys(8)[7], relay_id="r1")


def test_what_another_instance_took_is_listed_whatever_the_limits_say() -> None:
    world = LeaseWorld(limits=SMALL, shared=True)
    world.take(*stored(8, renewed=True))
    assert len(world.registrations) == 8
    assert refused(world, KEY).limit is Limit.POOLS
    world.register(keys(8)[7], relay_id="r1")


def test_a_refusal_says_nothing_about_the_mark() -> None:
    world = full_of_pools()
    for _ in range(4):
        world.run(5)
        for key in keys(3):
            world.register(key)
    refused(world, KEY)
    mark = world.registrations.drain().mark
    assert mark.exact
    assert Reason.STARTING not in mark.reasons
