import pytest

from support.lease_world import LeaseWorld


@pytest.fixture
def world() -> LeaseWorld:
    return LeaseWorld()
