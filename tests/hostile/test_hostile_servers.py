"""A client of servers that answer anything: it goes on, within its memory, and drops no pool."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from global_discovery.client import CallFailed, PoolCache, PoolHeartbeat, fold
from global_discovery.client.errors import causes
from global_discovery.client.polling import polled
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from support.beating import Watched, beating, failing, leased
from support.hostile_server import ANSWERS, SLOW, HostileServer, good, hostile_server
from support.list_server import a_list, names
from support.pools import a_registration
from support.timer import MovedTimer

PATIENCE = 60
MEMORY = 192 * 1024 * 1024
"""A body of the longest kind that is read, and as much again to read it."""


@pytest.fixture
async def server() -> AsyncIterator[HostileServer]:
    async with hostile_server() as hostile:
        yield hostile


async def until(timer: MovedTimer, holds: Callable[[], object]) -> None:
    """Lets much time pass until it is so."""
    async with asyncio.timeout(PATIENCE):
        while not holds():
            timer.advance(2.0)
            await asyncio.sleep(0.002)


class Peak:
    """How much more memory this process has had than at the beginning."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")
        self._before = self._peak()

    @property
    def grown(self) -> int:
        return self._peak() - self._before

    def _peak(self) -> int:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        assert found is not None
        return int(found[1]) * 1024


async def test_an_answer_to_a_poll_is_a_failed_call_within_bounds(server: HostileServer) -> None:
    for what, answer in ANSWERS.items():
        server.answer = answer
        messages = polled(server.url, wanted=None, every=1, timer=MovedTimer())
        peak = Peak()
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(CallFailed) as failed:
                await anext(messages)
        assert peak.grown < MEMORY, what
        assert max(map(len, causes(failed.value))) < 3000, what


async def test_no_answer_to_a_poll_drops_a_pool_and_a_good_one_is_taken_again(
    server: HostileServer,
) -> None:
    timer = MovedTimer()
    server.answer = lambda: good(a_list("a"))
    async with PoolCache([server.url], timer=timer) as cache:
        await until(timer, lambda: names(cache) == "a")
        for answer in [*ANSWERS.values(), *SLOW.values()]:
            server.answer, asked = answer, server.asked
            await until(timer, lambda asked=asked: server.asked > asked)
            await until(timer, lambda: not cache.state.connected)
            assert names(cache) == "a"
        server.answer = lambda: good(a_list("b"))
        await until(timer, lambda: cache.state.exact and names(cache) == "b")


async def test_tags_of_every_kind_lead_to_the_newest_list(server: HostileServer) -> None:
    timer = MovedTimer()
    tags = [
        b"",
        b"*",
        b'W/"',
        b'"\xff\xfe"',
        b'"' + b"x" * 8000 + b'"',
        b"a b\tc",
        b'"',
        b'"a","b"',
    ]
    async with PoolCache([server.url], timer=timer) as cache:
        for number, tag in enumerate(tags):
            name = chr(ord("a") + number)
            server.answer = lambda tag=tag, name=name: good(a_list(name), b"ETag: " + tag)
            await until(timer, lambda name=name: cache.state.exact and names(cache) == name)
            server.answer, asked = ANSWERS["not modified"], server.asked
            await until(timer, lambda asked=asked: server.asked > asked + 1)
            assert names(cache) == name


async def test_no_answer_to_a_heartbeat_ends_it_and_a_good_one_is_taken_again(
    server: HostileServer,
) -> None:
    timer = MovedTimer()
    granted = {"lease_duration_secs": 15, "heartbeat_interval_secs": 5, "lease_id": "id"}
    peak = Peak()
    async with beating(Watched(server.url, relay_id="r", timer=timer)) as heartbeat:
        heartbeat.set(a_registration())
        for answer in [*ANSWERS.values(), *SLOW.values()]:
            server.answer = lambda: good(granted)
            await passes(timer, heartbeat, leased)
            server.answer = answer
            await passes(timer, heartbeat, failing)
        server.answer = lambda: good(granted)
        await passes(timer, heartbeat, leased)
    assert peak.grown < MEMORY


async def passes(timer: MovedTimer, heartbeat: PoolHeartbeat, wanted: Any) -> None:
    await until(timer, lambda: wanted(heartbeat.state))


# -- over gRPC ------------------------------------------------------------------

STREAM = "global_discovery.v1.PoolDiscoveryService"


class Streams:
    """A gRPC server whose streams are bytes."""

    def __init__(self) -> None:
        self.messages: Any = tuple
        self.asked = 0
        self.target = ""

    async def watch(self, _request: bytes, _context: Any) -> AsyncIterator[bytes]:
        self.asked += 1
        for message in self.messages():
            yield message


@pytest.fixture
async def streams() -> AsyncIterator[Streams]:
    made = Streams()
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    watch = grpc.unary_stream_rpc_method_handler(made.watch)
    handlers = grpc.method_handlers_generic_handler(STREAM, {"WatchPools": watch})
    server.add_generic_rpc_handlers((handlers,))
    made.target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    yield made
    await server.stop(0)


def a_pool(name: str) -> pool_pb2.Pool:
    key = pool_pb2.PoolKey(cluster_id="c", namespace="n", dgd_name=name)
    return pool_pb2.Pool(key=key, model="m")


def a_view(*names: str, exact: bool = True, process: str = "p") -> list[bytes]:
    mark = pool_pb2.Mark(completeness=1 if exact else 2, bound_secs=1)
    snapshot = pb.PoolSnapshot(pools=map(a_pool, names))
    return [
        pb.WatchPoolsResponse(server=pb.ServerInfo(instance_id=process)).SerializeToString(),
        pb.WatchPoolsResponse(snapshot=snapshot, mark=mark, position="x").SerializeToString(),
    ]


PART = pb.WatchPoolsResponse(
    snapshot=pb.PoolSnapshot(pools=[a_pool(f"x{number}" + "y" * 200) for number in range(1000)])
).SerializeToString()


def parts() -> Iterator[bytes]:
    """A view without an end."""
    while True:
        yield PART


GARBAGE: dict[str, Any] = {
    "noise": lambda: [b"\xff" * 100],
    "noise after a beginning": lambda: [a_view("b")[0], b"\x0a\xff\xff\xff\xff\x0f"],
    "groups without an end": lambda: [b"\x0b" * 50_000],
    "no utf-8": lambda: [b"\x1a\x02\xff\xfe"],
    "a message that is too long": lambda: [b"\0" * 10_000_000],
    "empty messages": lambda: [b""] * 20_000,
    "a view without an end": parts,
    "nothing": list,
}


async def test_no_stream_drops_a_pool_and_a_good_one_is_taken_again(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "MAX_PARTS_BYTES", 2 * 1024 * 1024)
    timer = MovedTimer()
    streams.messages = lambda: a_view("a")
    async with PoolCache([streams.target], timer=timer) as cache:
        await until(timer, lambda: names(cache) == "a")
        peak = Peak()
        for what, messages in GARBAGE.items():
            streams.messages, asked = messages, streams.asked
            await until(timer, lambda asked=asked: streams.asked > asked + 1)
            assert names(cache) == "a", what
        assert peak.grown < MEMORY
        streams.messages = lambda: a_view("b", process="q")
        await until(timer, lambda: cache.state.exact and names(cache) == "b")
