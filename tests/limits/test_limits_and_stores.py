"""At a limit a shared store is asked first: a share that lives elsewhere is no new one."""

import pytest

from global_discovery.domain.errors import StoreUnwritable
from global_discovery.domain.limits import LimitReached
from global_discovery.sources.registered.admission import RegistrationLimits
from global_discovery.storage.store import Reading
from support.lease_world import KEY, a_seen_share, keys
from support.registrar_world import RegistrarWorld


async def full(*, shared: bool) -> RegistrarWorld:
    """It has as many pools as it may have; the pool of its calls is none of them."""
    world = RegistrarWorld(shared=shared, limits=RegistrationLimits(pools=1))
    await world.registrar.open()
    world.world.register(keys(1)[0])
    return world


async def test_what_another_instance_took_a_moment_ago_is_renewed_at_a_limit() -> None:
    """A call without an id, at an instance that has not read the share yet."""
    world = await full(shared=True)
    world.store.found = Reading((a_seen_share("theirs"),))
    assert await world.register()
    assert world.store.consulted == [(KEY, ())]
    assert len(world.world.registrations) == 2


async def test_what_nobody_took_is_refused_after_the_store_was_asked() -> None:
    world = await full(shared=True)
    with pytest.raises(LimitReached):
        await world.register()
    assert len(world.store.consulted) == 1
    assert world.store.shares == {}


async def test_a_store_that_cannot_be_asked_is_told_and_no_limit() -> None:
    world = await full(shared=True)
    world.store.failing = True
    with pytest.raises(StoreUnwritable):
        await world.register()


async def test_a_store_of_ones_own_is_not_asked() -> None:
    world = await full(shared=False)
    with pytest.raises(LimitReached):
        await world.register()
    assert world.store.consulted == []
