"""A listed pool that no request can be sent to is told once, with what was looked for."""

import pytest

from global_discovery.domain.events import Event
from support.join_world import KEY, JoinWorld, keys


@pytest.fixture
def world() -> JoinWorld:
    return JoinWorld()


def told(world: JoinWorld) -> list[dict[str, object]]:
    world.view.refresh()
    world.join.tick()
    return world.told(Event.POOL_WITHOUT_FRONTENDS)


@pytest.mark.parametrize(
    ("slices", "port_seen", "cause"),
    [
        (0, False, "no slice of its frontend Service is imported"),
        (2, False, "has a TCP port of that name"),
        (2, True, "none of its frontends is Ready"),
    ],
)
def test_a_pool_that_goes_live_without_frontends_is_told_with_what_is_expected(
    world: JoinWorld, slices: int, cause: str, *, port_seen: bool
) -> None:
    world.register(KEY)
    world.show(KEY, frontends=(), frontend_slices=slices, frontend_port_seen=port_seen)
    (fields,) = told(world)
    assert fields["pool"] == "c1/ns/pool"
    assert (fields["service"], fields["port_name"]) == ("ns/pool-frontend", "http")
    assert (fields["imported_slices"], fields["port_seen"]) == (slices, port_seen)
    assert cause in fields["message"]


def test_a_pool_that_loses_its_last_frontend_is_told_once_for_each_loss(world: JoinWorld) -> None:
    world.agree(KEY)
    assert not told(world)
    for expected in (1, 2):
        for number in range(100):
            world.show(KEY, frontends=(), frontend_slices=number)
            world.register(KEY, model=f"m{number}")
            assert len(told(world)) == expected
            assert len(world.join.without_frontends) == 1
        world.show(KEY)
        assert len(told(world)) == expected
        assert len(world.join.without_frontends) == 0


@pytest.mark.parametrize("side", ["registration", "slices"])
def test_a_pool_that_is_not_listed_is_not_told(world: JoinWorld, side: str) -> None:
    world.register(KEY) if side == "registration" else None
    world.show(KEY, frontends=(), relays=() if side == "registration" else ("ip:10.0.0.1",))
    assert not told(world)


def test_a_pool_that_leaves_and_comes_back_without_frontends_is_told_again(
    world: JoinWorld,
) -> None:
    world.register(KEY)
    world.show(KEY, frontends=())
    assert len(told(world)) == 1
    world.withdraw(KEY)
    assert len(told(world)) == 1
    assert len(world.join.without_frontends) == 0
    world.register(KEY)
    assert len(told(world)) == 2


def test_frontends_that_arrive_before_the_next_tick_are_not_missed(world: JoinWorld) -> None:
    world.register(KEY)
    world.show(KEY, frontends=())
    world.view.refresh()
    world.show(KEY)
    assert not told(world)


def test_a_held_pool_has_the_frontends_it_had(world: JoinWorld) -> None:
    world.agree(*keys(6))
    world.show(*keys(6), frontends=())
    assert len(told(world)) == 4
    world.run(10)
    assert len(told(world)) == 6


def test_many_at_once_are_told_in_portions_each_once(world: JoinWorld) -> None:
    world.register(*keys(50))
    world.show(*keys(50), frontends=())
    assert len(told(world)) == 20
    world.run(1)
    assert sorted(fields["pool"] for fields in told(world)) == [str(key) for key in keys(50)]
