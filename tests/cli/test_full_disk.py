"""Output that cannot be written: a sentence and a status, as of any failure.

`/dev/full` takes every write as a full disk does.
"""

import asyncio
import signal
import subprocess
from pathlib import Path

import grpc
import pytest

from global_discovery.serving.service import Service
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.client_process import COMMAND, PATIENCE_SECONDS
from support.dynamodb_server import new_table_name, of_this_process
from support.pools import a_registration
from support.running import a_service, target
from support.serve_process import clean_environment

FULL = Path("/dev/full")
SENTENCE = "global-discovery: standard output cannot be written: No space left on device"


async def started(*arguments: str, **variables: str) -> asyncio.subprocess.Process:
    with FULL.open("wb") as full:  # noqa: ASYNC230 - opening a device does not block
        return await asyncio.create_subprocess_exec(
            *COMMAND,
            *arguments,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            env=clean_environment(**variables),
        )


async def ended(process: asyncio.subprocess.Process) -> tuple[int | None, str]:
    """The exit status, and what is left of its errors."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            _, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.communicate()
        raise
    return process.returncode, err.decode()


async def register(service: Service, *numbers: int) -> None:
    async with grpc.aio.insecure_channel(target(service)) as channel:
        for number in numbers:
            request = pb.RegisterPoolRequest(registration=a_registration(number))
            await PoolDiscoveryServiceStub(channel).RegisterPool(request)


@pytest.mark.parametrize(
    "command",
    [
        "pools",
        "pools -o json",
        "pools --watch",
        "pools --watch -o json",
        "routers",
        "routers -o json",
        "routers --watch",
        "why c/n/d",
        "why c/n/d -o json",
    ],
)
async def test_an_answer_that_cannot_be_written_is_one_sentence(command: str) -> None:
    async with a_service() as service:
        process = await started(*command.split(), "--server", target(service))
        assert await ended(process) == (1, f"{SENTENCE}\n")


@pytest.mark.parametrize("command", ["--version", "pools", "pools --watch", "why c/n/d -o json"])
async def test_so_is_one_for_which_there_is_no_output(command: str) -> None:
    async with a_service() as service:
        server = [] if command == "--version" else ["--server", target(service)]
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, *command.split(), *server),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=clean_environment(),
        )
        sentence = "global-discovery: standard output cannot be written: Bad file descriptor\n"
        assert await ended(process) == (1, sentence)


@pytest.mark.parametrize("output", ["table", "json"])
async def test_so_is_one_of_more_than_a_buffer(output: str) -> None:
    async with a_service() as service:
        await register(service, *range(200))
        process = await started("pools", "-o", output, "--server", target(service))
        assert await ended(process) == (1, f"{SENTENCE}\n")


@pytest.mark.parametrize("command", ["--version", "--help", "pools --help"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
async def test_so_is_help_that_cannot_be_written(command: str, unbuffered: str) -> None:
    process = await started(*command.split(), PYTHONUNBUFFERED=unbuffered)
    assert await ended(process) == (1, f"{SENTENCE}\n")


async def test_so_is_what_was_found_of_a_table() -> None:
    server = of_this_process()
    process = await started(
        *("dynamodb", "create-table", "--dynamodb-table", new_table_name()),
        *("--dynamodb-endpoint-url", server.url),
        **server.environment,
    )
    assert await ended(process) == (1, f"{SENTENCE}\n")


async def test_register_keeps_its_pool_without_its_lines_and_says_so_once() -> None:
    async with (
        a_service() as service,
        grpc.aio.insecure_channel(target(service)) as channel,
    ):
        stub = PoolDiscoveryServiceStub(channel)
        process = await started(
            *("register", "--pool", "c1/ns/mine", "--model", "m", "--region", "r1"),
            *("--server", target(service)),
        )
        assert process.stderr is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            line = await process.stderr.readline()
        assert line.decode() == f"{SENTENCE}; c1/ns/mine is kept all the same\n"
        assert len((await stub.ListPools(pb.ListPoolsRequest())).pools) == 1
        process.send_signal(signal.SIGTERM)
        assert await ended(process) == (1, "")
        assert not (await stub.ListPools(pb.ListPoolsRequest())).pools


async def test_a_sentence_that_cannot_be_written_leaves_its_status() -> None:
    with FULL.open("wb") as full:  # noqa: ASYNC230 - opening a device does not block
        process = await asyncio.create_subprocess_exec(
            *(*COMMAND, "dynamodb", "create-table"),
            stderr=full,
            env=clean_environment(),
        )
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await process.wait() == 2
