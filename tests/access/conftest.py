"""What the tests of access have in common. Making a CA takes a while, so there is one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from global_discovery.domain.pool import Router
from support.access import NOTHING, in_file
from support.access_world import AccessWorld, an_access_world


@pytest.fixture(scope="session")
def ca() -> trustme.CA:
    return trustme.CA(organization_name="of callers")


@pytest.fixture
async def world(tmp_path: Path, ca: trustme.CA) -> AsyncIterator[AccessWorld]:
    """A policy, and certificates of callers; who shows none may do nothing."""
    async with an_access_world(
        tmp_path,
        ca,
        policy=in_file(tmp_path),
        anonymous=NOTHING,
        routers=(Router("r", "http://r"),),
    ) as made:
        yield made
