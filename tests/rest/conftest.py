"""What the tests of the REST face have in common."""

from collections.abc import AsyncIterator

import pytest

from support.rest import RestUnderTest, a_rest_face


@pytest.fixture
async def rest() -> AsyncIterator[RestUnderTest]:
    """A face that takes calls."""
    async with a_rest_face() as under_test:
        yield under_test
