"""`global-discovery health`, as a process, against real servers and against none."""

import asyncio
import http.server
import socket
import threading
from collections.abc import Iterator

import pytest

from support.serve_process import COMMAND, LOOPBACK, clean_environment, started

HEALTH = [COMMAND[0], "health"]


async def health(*flags: str, **variables: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *HEALTH,
        *flags,
        env=clean_environment(**variables),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert out == b""
    assert process.returncode is not None
    return process.returncode, err.decode()


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def failing_port() -> Iterator[int]:
    """Speaks HTTP and knows no method: it answers 501."""
    address = ("127.0.0.1", 0)
    with http.server.ThreadingHTTPServer(address, http.server.BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


async def test_it_ends_with_0_while_the_server_lives_and_with_1_after() -> None:
    async with started(*LOOPBACK) as server:
        address = f"127.0.0.1:{(await server.ready())['rest_port']}"
        assert await health("--address", address) == (0, "")
        await server.stop()
    status, said = await health("--address", address)
    assert status == 1
    assert said.startswith(f"global-discovery health: {address} does not answer: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("port", ["rest_port", "health_port"])
async def test_it_takes_the_address_from_the_variables_of_serve(port: str) -> None:
    async with started(*LOOPBACK, "--health-listen", "127.0.0.1:0") as server:
        number = (await server.ready())[port]
        for everywhere in (f":{number}", f"0.0.0.0:{number}"):
            assert await health(GLOBAL_DISCOVERY_LISTEN=everywhere) == (0, "")
        variables = {"GLOBAL_DISCOVERY_LISTEN": ":1", "GLOBAL_DISCOVERY_HEALTH_LISTEN": everywhere}
        assert await health(**variables) == (0, "")


@pytest.mark.parametrize(
    ("everywhere", "asked"),
    [(":1", "127.0.0.1:1"), ("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1")],
)
async def test_it_asks_a_server_on_every_interface_on_loopback(everywhere: str, asked: str) -> None:
    status, said = await health(GLOBAL_DISCOVERY_LISTEN=everywhere)
    assert (status, asked in said) == (1, True)


async def test_it_goes_past_every_proxy() -> None:
    async with started(*LOOPBACK) as server:
        address = f"127.0.0.1:{(await server.ready())['rest_port']}"
        assert await health("--address", address, http_proxy="http://127.0.0.1:1") == (0, "")


async def test_what_does_not_answer_does_not_live(silent_port: int) -> None:
    status, said = await health("--address", f"127.0.0.1:{silent_port}")
    assert (status, "timed out" in said) == (1, True)


async def test_what_speaks_something_else_does_not_live() -> None:
    async with started(*LOOPBACK) as server:
        address = f"127.0.0.1:{(await server.ready())['grpc_port']}"
        assert (await health("--address", address))[0] == 1


async def test_what_answers_but_not_with_200_does_not_live(failing_port: int) -> None:
    status, said = await health("--address", f"127.0.0.1:{failing_port}")
    assert (status, "answers /livez with 501" in said) == (1, True)


@pytest.mark.parametrize(
    ("flags", "variables", "named"),
    [
        (["--address="], {}, "--address"),
        (["--address=nowhere"], {}, "--address"),
        (["--address"], {}, "--address"),
        (["--addr=:1"], {}, "--addr"),
        ([], {"GLOBAL_DISCOVERY_LISTEN": "nowhere"}, "GLOBAL_DISCOVERY_LISTEN"),
        ([], {"GLOBAL_DISCOVERY_HEALTH_LISTEN": ""}, "GLOBAL_DISCOVERY_HEALTH_LISTEN"),
    ],
    ids=str,
)
async def test_a_bad_address_is_refused_and_named(
    flags: list[str], variables: dict[str, str], named: str
) -> None:
    status, said = await health(*flags, **variables)
    assert status == 2
    assert named in said
    assert said.count("\n") == 1
