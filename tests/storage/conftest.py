"""Every store that the behaviour suite runs over; a new one joins by one more parameter."""

from collections.abc import AsyncIterator

import pytest

from global_discovery.storage.memory import MemoryStore
from global_discovery.storage.store import RegistrationStore

STORES = {"memory": MemoryStore}


@pytest.fixture(params=sorted(STORES))
async def store(request: pytest.FixtureRequest) -> AsyncIterator[RegistrationStore]:
    store: RegistrationStore = STORES[request.param]()
    assert store.name == request.param
    await store.open()
    yield store
    await store.close()
