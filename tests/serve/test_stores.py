"""Which store the flags name."""

from pathlib import Path

from global_discovery.cli.stores import store_from
from global_discovery.domain.clock import SystemClock
from global_discovery.domain.events import ignore
from global_discovery.domain.lease import LeaseTerms
from global_discovery.storage.dynamodb.store import DynamoDBStore
from global_discovery.storage.memory import MemoryStore
from global_discovery.storage.sqlite.store import SqliteStore
from global_discovery.storage.store import RegistrationStore
from support.serve_flags import read

DYNAMODB = ["--registration-storage", "dynamodb", "--dynamodb-table", "pools"]


def made(*flags: str) -> RegistrationStore:
    return store_from(read(*flags), LeaseTerms(), SystemClock(), ignore)


def test_each_value_names_its_store(tmp_path: Path) -> None:
    file = str(tmp_path / "file.db")
    assert isinstance(made(), MemoryStore)
    sqlite = made("--registration-storage", "sqlite", "--sqlite-path", file)
    assert isinstance(sqlite, SqliteStore)
    dynamodb = made(*DYNAMODB, "--dynamodb-region", "eu-west-1", "--dynamodb-refresh-secs", "2")
    assert isinstance(dynamodb, DynamoDBStore)
    assert not list(tmp_path.iterdir())
