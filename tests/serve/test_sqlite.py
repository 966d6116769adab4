"""Real processes over one file: restarts, kills, a full disk, and a file that cannot be used."""

import os
import resource
import signal
from pathlib import Path

import pytest

from support.grpc_calls import eventually
from support.kill_loop import kill_loop
from support.metrics import metric
from support.serve_process import LOOPBACK, SHORT_LEASE, started
from support.sqlite_process import Caller, serving


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "registrations.db"


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
async def test_a_restart_keeps_the_pool_and_its_id(path: Path, end: signal.Signals) -> None:
    async with serving(path) as (server, caller):
        _, lease = await caller.register("kept", model="as it was")
        _, gone = await caller.register("withdrawn")
        assert await caller.withdraw("withdrawn", gone["lease_id"]) == 204
        server.send(end)
        await server.ended()
    async with serving(path) as (server, caller):
        _, body = await caller.get("/pools")
        assert [pool["model"] for pool in body["pools"]] == ["as it was"]
        assert (body["complete"], body["reasons"]) == (False, ["STARTING"])
        _, again = await caller.register("kept", lease["lease_id"], model="as it was")
        assert again["lease_id"] == lease["lease_id"]
        assert (await caller.register("withdrawn", gone["lease_id"]))[0] == 409
        read = await server.event("store_read")
        assert (read["shares"], read["pools"], read["withdrawn"]) == (1, 1, 1)


@pytest.mark.slow
async def test_kills_in_the_middle_of_writes_lose_nothing_that_was_answered(path: Path) -> None:
    await kill_loop(path, kills=3, calls_between=120, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(3))
async def test_many_kills_lose_nothing_that_was_answered(path: Path, seed: int) -> None:
    await kill_loop(path, kills=40, calls_between=400, seed=seed)


@pytest.mark.slow
async def test_a_restored_lease_ends_when_nobody_renews_it(path: Path) -> None:
    async with serving(path, *SHORT_LEASE) as (server, caller):
        await caller.register("silent")
        server.send(signal.SIGKILL)
        await server.ended()
    async with serving(path, *SHORT_LEASE) as (server, caller):
        assert await caller.listed() == {"silent"}
        lapsed = await server.event("pool_lapsed")
        assert lapsed["departure"] == "removed"
        assert await caller.listed() == set()
        assert await server.stop() == 0


async def test_a_second_process_on_the_file_exits_with_1(path: Path) -> None:
    storage = ["--registration-storage", "sqlite", "--sqlite-path", str(path)]
    async with serving(path) as (_, caller):
        async with started(*LOOPBACK, *storage) as second:
            assert "in use by another process" in (await second.event("cannot_start"))["message"]
            assert await second.ended() == 1
        assert (await caller.register("still"))[0] == 200


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"garbage" * 1000, "no SQLite database"),
        (None, "No such file"),
        ("fifo", "is not a regular file"),
    ],
)
async def test_a_file_that_cannot_be_used_is_one_clear_line_and_status_1(
    path: Path, content: bytes | str | None, said: str
) -> None:
    if content is None:
        path = path / "in" / "a" / "directory" / "that" / "is" / "not" / "there"
    elif isinstance(content, bytes):
        put(path, content)
    else:
        os.mkfifo(path)
    storage = ["--registration-storage", "sqlite", "--sqlite-path", str(path)]
    async with started(*LOOPBACK, *storage) as server:
        told = await server.event("cannot_start")
        assert said in told["message"]
        assert str(path) in told["message"]
        assert await server.ended() == 1
    assert not any("Traceback" in line for line in server.lines)


def put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def register_until_refused(caller: Caller) -> None:
    for number in range(20_000):
        status, body = await caller.register(f"filler-{number}", model="x" * 1000)
        if status != 200:
            assert status == 503
            assert body["code"] == "STORE_UNWRITABLE"
            return
    pytest.fail("the disk never was full")


async def test_a_full_disk_is_told_and_survived(path: Path) -> None:
    async with serving(path, "--lease-duration-secs", "600", megabytes=1) as (server, caller):
        _, lease = await caller.register("first")
        await register_until_refused(caller)
        failing = await server.event("store_failing")
        assert str(path) in failing["message"]
        rest_port = (await server.ready())["rest_port"]
        assert await metric(rest_port, "global_discovery_store_failing") == 1
        status, health = await caller.get("/healthz")
        assert (status, health["status"]) == (200, "degraded")
        assert (await caller.get("/readyz"))[0] == 200
        assert (await caller.register("first", lease["lease_id"]))[0] == 200
        assert (await caller.register("late"))[0] == 503
        assert "late" in await caller.listed()
        unlimited = resource.RLIM_INFINITY
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
        await server.event("store_works_again")
        assert (await caller.register("late"))[0] == 200
        assert await metric(rest_port, "global_discovery_store_failing") == 0
        assert await metric(rest_port, "global_discovery_store_failures_total") == 1
        everything = await caller.listed()
        server.send(signal.SIGKILL)
        await server.ended()
        await eventually(lambda: server.process.returncode is not None)
    async with serving(path) as (_, caller):
        assert await caller.listed() == everything
