"""From flags to the store that they name. Nothing is opened here.

What a store needs beyond the server itself is loaded only when it is named.
"""

import functools

from global_discovery.cli.extras import needs
from global_discovery.cli.flags import Values
from global_discovery.cli.serve_flags import stores as flags
from global_discovery.cli.serve_flags.general import STORAGE
from global_discovery.domain.clock import Clock
from global_discovery.domain.events import Report
from global_discovery.domain.lease import LeaseTerms
from global_discovery.storage.memory import MemoryStore
from global_discovery.storage.store import RegistrationStore


def store_from(
    values: Values, terms: LeaseTerms, clock: Clock, report: Report
) -> RegistrationStore:
    """The store of `--registration-storage`. Raises NotInstalled."""
    name = values[STORAGE]
    if name == "sqlite":
        return _sqlite(values, clock, report)
    if name == "dynamodb":
        return _dynamodb(values, terms, clock, report)
    return MemoryStore()


def _sqlite(values: Values, clock: Clock, report: Report) -> RegistrationStore:
    from global_discovery.storage.sqlite.store import SqliteStore  # noqa: PLC0415 - see above

    return SqliteStore(values[flags.SQLITE_PATH], clock, report)


def _dynamodb(values: Values, terms: LeaseTerms, clock: Clock, report: Report) -> RegistrationStore:
    with needs("dynamodb"):
        from global_discovery.storage.dynamodb.http_api import connect  # noqa: PLC0415 - see above
        from global_discovery.storage.dynamodb.store import (  # noqa: PLC0415 - see above
            DynamoDBStore,
        )
    return DynamoDBStore(
        connect=functools.partial(
            connect,
            clock=clock,
            region=values.get(flags.DYNAMODB_REGION) or "",
            endpoint_url=values.get(flags.DYNAMODB_ENDPOINT_URL) or "",
        ),
        table=values[flags.DYNAMODB_TABLE],
        terms=terms,
        clock=clock,
        report=report,
        refresh_period=float(values[flags.DYNAMODB_REFRESH]),
    )
