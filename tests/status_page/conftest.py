"""What the tests of the status page have in common: a real REST face, and a service with slices."""

from collections.abc import AsyncIterator

import pytest

from support.explaining import World, a_world
from support.rest import RestUnderTest, a_rest_face


@pytest.fixture
async def rest() -> AsyncIterator[RestUnderTest]:
    """A face that takes calls, on a clock that is moved."""
    async with a_rest_face() as under_test:
        yield under_test


@pytest.fixture
async def mcs() -> AsyncIterator[World]:
    """A service in the mode `mcs`, in sync, on a clock that is moved."""
    async with a_world(slices=True) as world:
        world.watching.slices.in_sync()
        yield world
