"""How the leases that run are counted, and when this instance last heard a relay."""

import pytest

from global_discovery.sources.registered.lease_states import LeaseState
from support.lease_world import LeaseWorld, a_seen_share, keys


def counts(world: LeaseWorld) -> tuple[int, int, int]:
    leases = world.registrations.leases()
    return tuple(leases[state] for state in LeaseState)  # type: ignore[return-value]


def test_a_lease_is_overdue_when_its_heartbeat_is_missing_and_renewed_when_it_comes() -> None:
    world = LeaseWorld()
    late, lively = (world.register(key) for key in keys(2))
    assert counts(world) == (2, 0, 0)
    world.run(9.0)
    world.registrations.renew([lively])
    world.run(2.0)
    assert counts(world) == (1, 1, 0)
    world.registrations.renew([late])
    assert counts(world) == (2, 0, 0)


def test_a_lease_that_a_stall_extended_is_neither_until_it_is_renewed() -> None:
    world = LeaseWorld()
    lease_id = world.register()
    world.clock.advance(14.0)  # without a tick: nobody could be heard
    world.register(keys(1)[0])
    world.run(2.0)
    assert counts(world) == (1, 0, 1)
    world.registrations.renew([lease_id])
    assert counts(world) == (2, 0, 0)


def test_a_restored_lease_counts_as_extended_at_once() -> None:
    world = LeaseWorld(ready=False)
    world.restore(a_seen_share("s1"), a_seen_share("s2", relay_id="r2"))
    assert counts(world) == (0, 0, 2)


def test_a_lease_that_another_instance_granted_is_counted_from_when_it_was_seen() -> None:
    world = LeaseWorld(shared=True)
    world.restore(a_seen_share("s1"))
    assert counts(world) == (1, 0, 0)
    world.run(10.5)
    assert counts(world) == (0, 1, 0)


def test_the_age_of_the_last_heartbeat_is_that_of_any_pool_and_of_this_instance() -> None:
    world = LeaseWorld(shared=True)
    world.restore(a_seen_share("s1"))
    assert world.registrations.heartbeat_age is None
    lease_id = world.register(keys(1)[0])
    world.run(3.0)
    assert world.registrations.heartbeat_age == pytest.approx(3.0, abs=0.2)
    world.registrations.renew(["unknown"])
    assert world.registrations.heartbeat_age == pytest.approx(3.0, abs=0.2)
    world.registrations.renew([lease_id])
    assert world.registrations.heartbeat_age == 0.0
