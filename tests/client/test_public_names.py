"""What the client library promises to be importable, and with how little."""

import subprocess
import sys
from typing import Any

import pytest

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
    assert len(library.__all__) < 10
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


@pytest.mark.parametrize(
    ("servers", "told"),
    [
        ("h:1", "not one string"),
        ("", "not one string"),
        (b"h:1", "not one string"),
        ([], "at least one server"),
        ([""], r"servers\[0\]"),
        (["h:1", None], r"servers\[1\]"),
        (["ftp://x"], r"servers\[0\]"),
        (["http://"], r"servers\[0\]"),
        (["HTTP://h?q"], r"servers\[0\]"),
        (["h 1"], r"servers\[0\]"),
        (["h:1/path"], r"servers\[0\]"),
    ],
)
def test_servers_that_are_none_are_refused_before_anything_is_opened(
    servers: Any, told: str
) -> None:
    for made_of in (library.PoolCache, library.PoolHeartbeat, library.watch_pools):
        with pytest.raises(ValueError, match=told) as refused:
            made_of(servers)
        assert "servers" in str(refused.value)


def test_what_grpc_calls_a_target_and_any_web_address_is_taken() -> None:
    servers = ["h", "h:1", "[::1]:1", "dns:///h:1", "unix:/run/x", "http://h/", "https://h:1/p"]
    library.PoolCache(servers)
    library.PoolHeartbeat(servers)
