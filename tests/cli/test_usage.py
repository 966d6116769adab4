"""How the program is called, wrongly too, and with what installed."""

import asyncio
import importlib
import json
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from global_discovery import __version__
from global_discovery.cli.extras import needs
from support.client_process import ran
from support.running import a_service, target

ROOT = Path(__file__).parents[2]
POOL = ("--pool", "c1/ns/mine", "--model", "m", "--region", "r1")


async def test_version_and_help_are_readable() -> None:
    assert (await ran("--version")).out == f"global-discovery {__version__}\n"
    result = await ran("--help")
    assert result.status == 0
    for command in ("serve", "pools", "routers", "why", "register", "relay", "health"):
        assert f"\n    {command} " in result.out
    assert (await ran("register", "--help")).status == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "COMMAND"),
        (("nonsense",), "nonsense"),
        (("pools", "--server", "nowhere"), "nowhere"),
        (("pools", "--server", "host:0"), "host:0"),
        (("pools", "--server", ":50051"), ":50051"),
        (("pools", "--model", ""), "--model"),
        (("pools", "--mod", "x"), "--mod"),
        (("pools", "-o", "xml"), "xml"),
        (("register", "--pool", "c/n/d", "--model", "m"), "--region"),
        (("register", "--pool", "c/d", "--model", "m", "--region", "r"), "c/d"),
        (("register", *POOL, "--capacity", "H100"), "H100"),
        (("register", *POOL, "--capacity", "H100=1_0"), "H100=1_0"),
        (("register", *POOL, "--frontend"), "--frontend"),
        (("pools", "--model", b"\xff"), "--model"),
        (("dynamodb",), "COMMAND"),
        (("dynamodb", "create-table"), "--dynamodb-table"),
        (("dynamodb", "create-table", "--dynamodb-table", "x"), "--dynamodb-table"),
    ],
)
async def test_wrong_usage_is_refused_with_status_two(arguments: Any, named: str) -> None:
    result = await ran(*arguments)
    assert (result.status, result.out) == (2, "")
    assert named in result.err
    assert "Traceback" not in result.err


async def test_a_variable_that_names_no_server_is_refused_by_its_name() -> None:
    result = await ran("pools", GLOBAL_DISCOVERY_SERVER="nowhere")
    assert result.status == 2
    assert "GLOBAL_DISCOVERY_SERVER" in result.err


BLOCKED = """
import sys
from importlib.abc import MetaPathFinder

class Block(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Block())
from global_discovery.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
SERVER_ONLY = {"orjson", "structlog", "prometheus_client", "grpc_health", "rich"}


async def ran_without(blocked: set[str], *arguments: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", BLOCKED.format(blocked=blocked), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@pytest.mark.parametrize(
    "command",
    [
        "",
        "serve",
        "pools",
        "routers",
        "why",
        "register",
        "relay",
        "health",
        "dynamodb create-table",
    ],
)
async def test_all_help_works_with_the_client_library_alone(command: str) -> None:
    status, out, _ = await ran_without(SERVER_ONLY, *command.split(), "--help")
    assert status == 0
    assert "usage:" in out


RELAY = "relay --cluster-id=c --pool=n/d --region=r --frontend=http://h"
DYNAMODB = "serve --registration-storage=dynamodb --dynamodb-table=pools"


@pytest.mark.parametrize(
    ("command", "missing", "extra"),
    [
        ("serve", "structlog", "server"),
        ("serve", "orjson", "server"),
        ("serve", "grpc_health", "server"),
        ("serve --pool-discovery=mcs", "prometheus_client", "server"),
        ("serve --pool-discovery=mcs", "kubernetes_asyncio", "kubernetes"),
        ("serve --pool-discovery=karmada", "msgspec", "kubernetes"),
        ("serve --token-audience=x", "kubernetes_asyncio", "kubernetes"),
        (DYNAMODB, "aiobotocore", "dynamodb"),
        ("dynamodb create-table --dynamodb-table=pools", "aiobotocore", "dynamodb"),
        ("dynamodb create-table --dynamodb-table=pools", "orjson", "dynamodb"),
        (RELAY, "structlog", "relay"),
        (RELAY, "prometheus_client", "relay"),
    ],
)
async def test_what_is_not_installed_is_one_sentence_that_names_its_extra(
    command: str, missing: str, extra: str
) -> None:
    status, out, err = await ran_without({missing}, *command.split())
    assert (status, out) == (1, "")
    assert err == (
        f"global-discovery: {missing} is not installed; install global-discovery[{extra}]\n"
    )
    assert packages_of(extra) & {plain(name) for name in packages_distributions()[missing]}


def packages_of(extra: str) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {plain(needed) for needed in project["optional-dependencies"][extra]}


def plain(requirement: str) -> str:
    return requirement.partition(">=")[0].replace("_", "-").lower()


def test_a_missing_module_of_our_own_is_a_fault_and_no_advice() -> None:
    with pytest.raises(ModuleNotFoundError), needs("server"):
        importlib.import_module("global_discovery.serving.nothing")


async def test_without_rich_a_table_is_refused_with_advice_and_json_works() -> None:
    async with a_service() as service:
        server = ("--server", target(service))
        status, _, err = await ran_without({"rich"}, "pools", *server)
        assert status == 1
        assert "global-discovery[cli]" in err
        status, out, _ = await ran_without({"rich"}, "pools", "-o", "json", *server)
        assert status == 0
        assert json.loads(out)["pools"] == []
        status, out, _ = await ran_without({"rich"}, "why", "c/n/d", *server)
        assert (status, out.splitlines()[0]) == (1, "c/n/d is not listed: NOT_REGISTERED")
