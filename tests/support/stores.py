"""Every store that the behaviour suite runs over; a new one joins by one more maker."""

from collections.abc import Callable
from pathlib import Path

from global_discovery.storage.memory import MemoryStore
from global_discovery.storage.sqlite.store import SqliteStore
from global_discovery.storage.store import RegistrationStore
from support.clock import FakeClock

MakeStore = Callable[[], RegistrationStore]
"""Makes one more store over the same place, as the next process would."""

MAKERS: dict[str, Callable[[Path, FakeClock], RegistrationStore]] = {
    "memory": lambda _place, _clock: MemoryStore(),
    "sqlite": lambda place, clock: SqliteStore(place / "registrations.db", clock),
}
KEEPING = sorted(name for name in MAKERS if name != "memory")
"""Those that a restart does not empty."""
