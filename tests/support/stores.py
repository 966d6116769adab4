"""Every store that the behaviour suite runs over; a new one joins by one more maker."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from global_discovery.domain.events import ignore
from global_discovery.domain.lease import LeaseTerms
from global_discovery.storage.dynamodb.http_api import HttpDynamoDB
from global_discovery.storage.dynamodb.store import DynamoDBStore
from global_discovery.storage.dynamodb.table import create_table
from global_discovery.storage.memory import MemoryStore
from global_discovery.storage.sqlite.store import SqliteStore
from global_discovery.storage.store import RegistrationStore
from support import dynamodb_server
from support.clock import FakeClock

MakeStore = Callable[[], RegistrationStore]
"""Makes one more store over the same place, as the next process would."""


def _dynamodb(place: Path, clock: FakeClock) -> DynamoDBStore:
    """A table a place, on a server that is a process of its own."""
    table = f"gd-{place.parent.name}-{place.name}"

    async def connect() -> HttpDynamoDB:
        api = dynamodb_server.of_this_process().reached(clock)
        await create_table(api, table, asyncio.sleep)
        return api

    return DynamoDBStore(
        connect=connect, table=table, terms=LeaseTerms(), clock=clock, report=ignore
    )


MAKERS: dict[str, Callable[[Path, FakeClock], RegistrationStore]] = {
    "dynamodb": _dynamodb,
    "memory": lambda _place, _clock: MemoryStore(),
    "sqlite": lambda place, clock: SqliteStore(place / "registrations.db", clock),
}
KEEPING = sorted(name for name in MAKERS if name != "memory")
"""Those that a restart does not empty."""
