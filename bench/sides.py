"""The sides of the comparison: the same jobs said in each server's own words."""

import asyncio
import contextlib
import importlib
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

import content
import h2
import processes
from grpc_tools import protoc  # type: ignore[import-untyped]
from processes import Server

from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2

BARE = "/bench.Bare/"
ETCD = "/etcdserverpb."
PREFIX, PREFIX_END = b"pools/", b"pools0"
CONCURRENT_CALLS = 64
LEASE_SECONDS = 3600


class WatchSide(Protocol):
    """A server that tells watchers of changes."""

    name: str
    server: Server
    greetings: int
    """How many messages a new watcher is sent before the first change."""

    async def change(self, number: int, pool: int) -> None:
        """Causes change `number`, which watchers are told of."""
        ...

    def watch(self, channel: h2.Channel, on_message: h2.OnMessage) -> h2.Stream:
        """A new watcher of all changes from now on."""
        ...

    def changes_in(self, message: bytes) -> tuple[int, ...]:
        """The numbers of the changes that a message carries."""
        ...


async def in_parallel(
    count: int, call: Callable[[int], Awaitable[Any]], workers: int = CONCURRENT_CALLS
) -> None:
    """Calls `call(0)` to `call(count - 1)`, `workers` at a time."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await call(number)

    await asyncio.gather(*(work() for _ in range(workers)))


class Ours:
    """The service."""

    name = "ours"
    greetings = 2

    def __init__(self, server: Server, channel: h2.Channel) -> None:
        """Calls go over `channel`."""
        self.server = server
        self.channel = channel
        self.lease_ids: list[str] = []
        self._position = ""

    async def register_pools(self, count: int) -> None:
        """Registers pools 0 to `count` - 1 and keeps their lease ids."""
        self.lease_ids = [""] * count

        async def register(index: int) -> None:
            self.lease_ids[index] = (await self.register(index)).lease_id

        await in_parallel(count, register)

    async def register(self, index: int, change: int = 0, lease_id: str = "") -> Any:
        """RegisterPool."""
        request = content.register_request(index, change, lease_id)
        return pb.RegisterPoolResponse.FromString(
            await self.channel.unary(content.SERVICE + "RegisterPool", request)
        )

    async def look(self) -> None:
        """Learns the position at which new watchers begin."""
        request = pb.ListPoolsRequest(page_size=1).SerializeToString()
        answer = await self.channel.unary(content.SERVICE + "ListPools", request)
        self._position = pb.ListPoolsResponse.FromString(answer).position

    async def change(self, number: int, pool: int) -> None:
        """See WatchSide."""
        await self.register(pool, number, self.lease_ids[pool])

    def watch(self, channel: h2.Channel, on_message: h2.OnMessage) -> h2.Stream:
        """See WatchSide."""
        request = pb.WatchPoolsRequest(position=self._position, idle_interval_secs=25)
        path = content.SERVICE + "WatchPools"
        return channel.stream(path, request.SerializeToString(), on_message)

    def watch_from_nothing(self, channel: h2.Channel, on_message: h2.OnMessage) -> h2.Stream:
        """A new watcher, which is sent a snapshot."""
        return channel.stream(content.SERVICE + "WatchPools", b"", on_message)

    def changes_in(self, message: bytes) -> tuple[int, ...]:
        """See WatchSide."""
        return content.changes_in(message)


class Bare:
    """Handlers that do nothing, on the same transport."""

    name = "bare"
    greetings = 1

    def __init__(self, server: Server, channel: h2.Channel) -> None:
        """Calls go over `channel`."""
        self.server = server
        self.channel = channel
        mark = pool_pb2.Mark(
            completeness=pool_pb2.COMPLETENESS_ESTIMATED,
            reasons=[pool_pb2.ESTIMATED_REASON_STARTING],
            bound_secs=1,
        )
        self._mark, self._position = mark, "x" * 44

    async def change(self, number: int, pool: int) -> None:
        """See WatchSide: publishes a message of the size that ours has."""
        listed = pool_pb2.Pool.FromString(content.listed_pool(pool, number))
        for time in (listed.registered_time, listed.changed_time):
            time.seconds, time.nanos = 1_800_000_000, 500_000_000
        message = pb.WatchPoolsResponse(
            changes=pb.PoolChanges(pools=[listed]), position=self._position, mark=self._mark
        )
        await self.publish(message.SerializeToString())

    async def publish(self, message: bytes) -> None:
        """Sends a message to every watcher."""
        await self.channel.unary(BARE + "Publish", message)

    def watch(self, channel: h2.Channel, on_message: h2.OnMessage) -> h2.Stream:
        """See WatchSide."""
        return channel.stream(BARE + "Watch", b"", on_message)

    def changes_in(self, message: bytes) -> tuple[int, ...]:
        """See WatchSide."""
        return content.changes_in(message)


class Etcd:
    """One etcd node: a key for each pool, a lease for each key, a watch on the prefix."""

    name = "etcd"
    greetings = 1

    def __init__(self, server: Server, channel: h2.Channel) -> None:
        """Calls go over `channel`."""
        self.server = server
        self.channel = channel
        self._pb = _etcd_messages()

    async def grant(self, lease_id: int) -> None:
        """LeaseGrant."""
        request = self._pb.LeaseGrantRequest(TTL=LEASE_SECONDS, ID=lease_id)
        await self.channel.unary(ETCD + "Lease/LeaseGrant", request.SerializeToString())

    async def register_pools(self, count: int) -> None:
        """A lease and a key for each of the pools 0 to `count` - 1."""

        async def register(index: int) -> None:
            await self.grant(index + 1)
            await self.put(index, 0, lease_id=index + 1)

        await in_parallel(count, register)

    async def put(self, pool: int, change: int, lease_id: int = 0) -> None:
        """Put, with the value that a listed pool has."""
        request = self._pb.PutRequest(
            key=PREFIX + b"cluster-00/serving/llm-%06d" % pool,
            value=content.listed_pool(pool, change),
            lease=lease_id,
        )
        await self.channel.unary(ETCD + "KV/Put", request.SerializeToString())

    async def keep_alive(self, lease_ids: Sequence[int], channel: h2.Channel) -> None:
        """Renews leases over one stream, without waiting for one answer before the next request."""
        done = asyncio.get_running_loop().create_future()
        left = len(lease_ids)

        def answered(message: bytes) -> None:
            nonlocal left
            left -= 1
            if not left:
                done.set_result(message)

        stream = channel.open(ETCD + "Lease/LeaseKeepAlive", answered)
        for lease_id in lease_ids:
            stream.send(self._pb.LeaseKeepAliveRequest(ID=lease_id).SerializeToString())
        last = self._pb.LeaseKeepAliveResponse.FromString(await done)
        stream.cancel()
        if last.TTL != LEASE_SECONDS:
            raise RuntimeError("etcd did not renew a lease")

    async def read_all(self) -> bytes:
        """Range over all pools."""
        request = self._pb.RangeRequest(key=PREFIX, range_end=PREFIX_END)
        return await self.channel.unary(ETCD + "KV/Range", request.SerializeToString())

    async def change(self, number: int, pool: int) -> None:
        """See WatchSide."""
        await self.put(pool, number)

    def watch(self, channel: h2.Channel, on_message: h2.OnMessage) -> h2.Stream:
        """See WatchSide."""
        stream = channel.open(ETCD + "Watch/Watch", on_message)
        create = self._pb.WatchCreateRequest(key=PREFIX, range_end=PREFIX_END)
        stream.send(self._pb.WatchRequest(create_request=create).SerializeToString())
        return stream

    def changes_in(self, message: bytes) -> tuple[int, ...]:
        """See WatchSide."""
        return _etcd_changes(message)


S = TypeVar("S", bound=Ours | Bare | Etcd)

_STARTING = {
    "ours": processes.our_server,
    "bare": processes.bare_server,
    "etcd": processes.etcd_server,
}


@contextlib.asynccontextmanager
async def fresh(kind: type[S]) -> AsyncIterator[S]:
    """A side with a server process of its own."""
    with _STARTING[kind.name]() as server:
        channel = await h2.connect(server.ports["grpc"])
        try:
            yield kind(server, channel)
        finally:
            channel.close()


@lru_cache(maxsize=1)
def _etcd_messages() -> Any:
    """The generated module of etcd.proto, made on the spot."""
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        if protoc.main(["protoc", f"-I{here}", f"--python_out={folder}", "etcd.proto"]):
            raise RuntimeError("etcd.proto does not compile")
        sys.path.insert(0, folder)
        try:
            return importlib.import_module("etcd_pb2")
        finally:
            sys.path.remove(folder)


@lru_cache(maxsize=65_536)
def _etcd_changes(message: bytes) -> tuple[int, ...]:
    """As content.changes_in."""
    events = _etcd_messages().WatchResponse.FromString(message).events
    pools = (pool_pb2.Pool.FromString(event.kv.value) for event in events)
    return tuple(map(content.change_of, pools))
