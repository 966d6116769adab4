"""Each change of state is told once: by whom, what it was, what it is. Renewals are not told."""

from typing import Any

import pytest

from global_discovery.domain.events import Event
from global_discovery.domain.lease import Heartbeat
from global_discovery.domain.pool import Content, Location, Registration
from global_discovery.sources.registered.registrations import LAPSES_TOLD_ONE_BY_ONE
from support.lease_world import KEY, LeaseWorld, a_seen_share, keys


def told(world: LeaseWorld, event: Event) -> list[dict[str, Any]]:
    return [fields for happened, fields in world.events if happened is event]


def test_a_pool_s_whole_life_says_who(world: LeaseWorld) -> None:
    first = world.register(relay_id="r1", caller="10.0.0.1")
    second = world.register(relay_id="r2", caller="10.0.0.2")
    world.withdraw(lease_id=first, caller="10.0.0.9")
    world.withdraw(lease_id=second, caller="10.0.0.8")
    pool = str(KEY)
    assert told(world, Event.POOL_REGISTERED) == [
        {
            "pool": pool,
            "caller": "10.0.0.1",
            "identity": "",
            "relay": "relay_id r1",
            "after": {"model": "m", "region": "r1", "relays": ["ip:10.0.0.1"]},
        }
    ]
    assert told(world, Event.SHARE_BEGAN) == [
        {"pool": pool, "caller": "10.0.0.2", "identity": "", "relay": "relay_id r2", "shares": 2}
    ]
    assert told(world, Event.SHARE_WITHDRAWN) == [
        {"pool": pool, "caller": "10.0.0.9", "identity": "", "relay": "relay_id r1", "shares": 1}
    ]
    assert told(world, Event.POOL_WITHDRAWN) == [
        {
            "pool": pool,
            "caller": "10.0.0.8",
            "identity": "",
            "relay": "relay_id r2",
            "before": {"model": "m", "region": "r1", "relays": ["ip:10.0.0.2"]},
        }
    ]


def test_a_change_is_told_with_the_fields_that_changed(world: LeaseWorld) -> None:
    lease_id = world.register(relay_id="r1", relays=("ip:10.0.0.1",))
    world.register(relay_id="r1", relays=("ip:10.0.0.1",), model="n", lease_id=lease_id)
    assert told(world, Event.POOL_CHANGED) == [
        {
            "pool": str(KEY),
            "relay": "relay_id r1",
            "caller": "10.0.0.1",
            "identity": "",
            "before": {"model": "m"},
            "after": {"model": "n"},
        }
    ]


def test_a_renewal_is_not_told(world: LeaseWorld) -> None:
    lease_id = world.register(relay_id="r1")
    world.events.clear()
    world.register(relay_id="r1", lease_id=lease_id)
    world.register(relay_id="r1")
    world.renew(lease_id)
    assert world.events == []


def test_a_lapse_names_the_relay_that_was_last(world: LeaseWorld) -> None:
    world.register(relay_id="r1", relays=("ip:10.0.0.1",))
    world.run(3.0)
    world.register(relay_id="r2", relays=("ip:10.0.0.2",))
    world.run(40.0)
    (lapsed,) = told(world, Event.SHARE_LAPSED)
    assert lapsed == {"pool": str(KEY), "relay": "relay_id r1", "shares": 1}
    changed = told(world, Event.POOL_CHANGED)[-1]
    assert changed["after"] == {"relays": ["ip:10.0.0.2"]}
    assert "caller" not in changed
    (gone,) = told(world, Event.POOL_LAPSED)
    assert gone["relay"] == "relay_id r2"


def test_many_shares_that_lapse_together_are_cut_short() -> None:
    world = LeaseWorld(mass_lapse_protection=False)
    for key in keys(100):
        world.register(key, relay_id="gone")
    world.run(3.0)
    kept = [world.register(key, relay_id="stays") for key in keys(100)]
    for _ in range(10):
        world.run(2.0)
        world.renew(*kept)
    assert world.registrations.shares == 100
    assert len(told(world, Event.SHARE_LAPSED)) == LAPSES_TOLD_ONE_BY_ONE
    assert sum(fields["shares"] for fields in told(world, Event.SHARES_LAPSED)) == 100


def test_what_another_instance_changed_is_told_as_its_doing() -> None:
    world = LeaseWorld(shared=True)
    world.take(a_seen_share("s1", renewed=True))
    world.take(a_seen_share("s1", renewed=True, model="n", number=2))
    (changed,) = told(world, Event.POOL_CHANGED)
    assert changed["caller"] == "another instance"
    assert (changed["before"], changed["after"]) == ({"model": "m"}, {"model": "n"})
    (registered,) = told(world, Event.POOL_REGISTERED)
    assert (registered["caller"], registered["after"]["model"]) == ("another instance", "m")


@pytest.mark.parametrize("count", [8, 9, 1024])
def test_a_line_is_bounded_whatever_is_registered(world: LeaseWorld, count: int) -> None:
    def beat(frontends: tuple[str, ...]) -> None:
        content = Content("m" * 1024, Location("r1"), frontends=frontends)
        heartbeat = Heartbeat(Registration(KEY, content), "10.0.0.1", relay_id="r" * 128)
        world.registrations.register(heartbeat)

    beat(())
    beat(tuple(f"http://{'h' * 400}-{number:04}" for number in range(count)))
    (changed,) = told(world, Event.POOL_CHANGED)
    shown = changed["after"]["frontends"]
    assert len(shown) == min(count, 9)
    assert len(str(changed)) < 3000
    assert (f"and {count - 8} more" in shown) == (count > 8)


def test_no_line_has_a_lease_id(world: LeaseWorld) -> None:
    ids = [world.register(relay_id=name, model=name) for name in ("r1", "r2")]
    world.withdraw(lease_id=ids[0])
    world.run(40.0)
    assert not [one for one in ids if one in str(world.events)]
