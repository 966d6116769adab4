"""A store of each kind, alone and under a registrar."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from global_discovery.storage.store import RegistrationStore
from support.clock import FakeClock
from support.store_life import StoreLife, living
from support.stores import MAKERS, MakeStore


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=sorted(MAKERS))
def make_store(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> MakeStore:
    def make() -> RegistrationStore:
        store = MAKERS[request.param](tmp_path, clock)
        assert store.name == request.param
        return store

    return make


@pytest.fixture
async def life(make_store: MakeStore, clock: FakeClock) -> AsyncIterator[StoreLife]:
    async with living(make_store(), clock) as life:
        yield life
