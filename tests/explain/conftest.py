"""A service to be asked for explanations, in each mode."""

from collections.abc import AsyncIterator

import pytest

from support.explaining import World, a_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """In the mode `registrations`."""
    async with a_world() as world:
        yield world


@pytest.fixture
async def mcs() -> AsyncIterator[World]:
    """In the mode `mcs`, in sync."""
    async with a_world(slices=True) as world:
        world.watching.slices.in_sync()
        yield world
