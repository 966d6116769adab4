"""What the client library promises to be importable, and with how little."""

import subprocess
import sys

import global_discovery.client as library

EXTRAS = (
    "grpc_health",
    "grpc_reflection",
    "orjson",
    "prometheus_client",
    "rich",
    "structlog",
    "global_discovery.serving",
)


def test_the_public_names_are_few_and_all_there() -> None:
    assert len(library.__all__) <= 10
    assert all(hasattr(library, name) for name in library.__all__)


def test_it_is_imported_without_anything_that_only_a_server_or_a_terminal_needs() -> None:
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({EXTRAS}))\n"
        "from global_discovery.client import *\n"
        "PoolCache(['a:1', 'http://b'], saved_view='view')\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
