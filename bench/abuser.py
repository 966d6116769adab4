"""One abuser: a process that does one thing over and over, from an address of its own.

`python bench/abuser.py KIND GRPC_PORT HTTP_PORT`: prints a line once it is at its pace, and
ends with its standard input; then prints how often it did its thing. It comes from
127.0.0.2, so that the service can tell it from everyone else, and is nice to the load
beside it, which is what is measured.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from itertools import count

import content
import h2
import http1

from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2

ADDRESS = "127.0.0.2"
BEYOND = 1_000_000
"""The first number of the pools that only abusers register."""
LARGE_BYTES = 900_000
UNDER_WAY = {"http slow bodies": 2.5}
"""Seconds until a kind is at its pace: its connections are open, and each has sent two bytes."""

Work = Callable[[], Awaitable[object]]
done = count()
numbers = count(BEYOND)


def main() -> None:
    kind, grpc_port, http_port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    os.nice(15)
    asyncio.run(_abuse(kind, grpc_port, http_port))


async def _abuse(kind: str, grpc_port: int, http_port: int) -> None:
    port = http_port if kind.startswith("http") else grpc_port
    tasks = [asyncio.ensure_future(_for_ever(work)) for work in await KINDS[kind](port)]
    await asyncio.sleep(UNDER_WAY.get(kind, 0.0))
    print("begun", flush=True)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, sys.stdin.read)
    print(next(done), flush=True)
    for task in tasks:
        task.cancel()


async def _for_ever(work: Work) -> None:
    while True:
        try:
            await work()
            next(done)
        except (OSError, h2.CallFailed, EOFError, ValueError):
            await asyncio.sleep(0.01)


async def _no_calls(port: int) -> list[Work]:
    """Keeps the machine as busy as the others do, and leaves the service alone."""
    del port

    async def one() -> None:
        sum(range(10_000))
        await asyncio.sleep(0)

    return [one]


# -- over gRPC -------------------------------------------------------------------


async def _calls(
    port: int,
    path: str,
    message: Callable[[], bytes],
    connections: int,
    at_a_time: int,
) -> list[Work]:
    """So many calls at a time on so many connections, which are opened again when they end."""

    async def worker(held: list[h2.Channel]) -> None:
        try:
            await held[0].unary(path, message())
        except h2.CallFailed:
            if held[0].is_closed:
                held[0] = await h2.connect(port, ADDRESS)
            else:
                next(done)

    works: list[Work] = []
    for _ in range(connections):
        held = [await h2.connect(port, ADDRESS)]
        works += [lambda held=held: worker(held) for _ in range(at_a_time)]  # type: ignore[misc]
    return works


async def _new_pools(port: int) -> list[Work]:
    return await _calls(
        port,
        content.SERVICE + "RegisterPool",
        lambda: content.register_request(next(numbers)),
        16,
        16,
    )


async def _renewals(port: int) -> list[Work]:
    unknown = pb.RenewPoolsRequest(lease_ids=[f"nobody-{n:09}" for n in range(10_000)])
    request = unknown.SerializeToString()
    return await _calls(port, content.SERVICE + "RenewPools", lambda: request, 4, 4)


async def _garbage(port: int) -> list[Work]:
    return await _calls(port, content.SERVICE + "RegisterPool", lambda: b"\xff" * 300, 16, 16)


async def _large(port: int) -> list[Work]:
    told = content.registration(BEYOND)
    told.capacity.extend([pool_pb2.Capacity(gpu_sku="x", gpu_count=1)] * (LARGE_BYTES // 7))
    request = pb.RegisterPoolRequest(registration=told).SerializeToString()
    return await _calls(port, content.SERVICE + "RegisterPool", lambda: request, 4, 4)


async def _lists(port: int) -> list[Work]:
    request = pb.ListPoolsRequest(page_size=10_000).SerializeToString()
    return await _calls(port, content.SERVICE + "ListPools", lambda: request, 4, 8)


async def _filtered_lists(port: int) -> list[Work]:
    def request() -> bytes:
        wanted = pb.PoolFilter(models=[f"{next(numbers)}", "Qwen/Qwen3-1B"])
        return pb.ListPoolsRequest(filter=wanted).SerializeToString()

    return await _calls(port, content.SERVICE + "ListPools", request, 4, 8)


async def _health(port: int) -> list[Work]:
    return await _calls(port, "/grpc.health.v1.Health/Check", lambda: b"", 8, 16)


async def _watches(port: int) -> list[Work]:
    """Opens watches, and cancels each with its first data."""

    async def one(channel: h2.Channel) -> None:
        first = asyncio.get_running_loop().create_future()
        seen = count()

        def got(_: bytes) -> None:
            if next(seen) and not first.done():
                first.set_result(None)

        stream = channel.stream(content.SERVICE + "WatchPools", b"", got)

        def ended() -> None:
            if not first.done():
                first.set_result(None)

        stream.ended = ended
        await first
        channel.reset(stream)

    channels = [await h2.connect(port, ADDRESS) for _ in range(4)]
    return [lambda c=c: one(c) for c in channels for _ in range(4)]  # type: ignore[misc]


async def _connections(port: int) -> list[Work]:
    async def one() -> None:
        (await h2.connect(port, ADDRESS)).close()

    return [one] * 32


# -- over HTTP -------------------------------------------------------------------


async def _requests(port: int, request: Callable[[], bytes], connections: int) -> list[Work]:
    async def worker(held: list[http1.Connection]) -> None:
        try:
            await held[0].ask(request())
        except ConnectionError:
            held[0] = await http1.connect(port, ADDRESS)

    held = [[await http1.connect(port, ADDRESS)] for _ in range(connections)]
    return [lambda h=h: worker(h) for h in held]  # type: ignore[misc]


def _post(document: object) -> bytes:
    body = json.dumps(document).encode()
    return http1.request("POST", "/pools", body, Content_Type="application/json")


async def _http_new_pools(port: int) -> list[Work]:
    return await _requests(port, lambda: _post(content.json_registration(next(numbers), "")), 256)


async def _http_large(port: int) -> list[Work]:
    told = content.json_registration(BEYOND, "")
    request = _post(told | {"more": [[[[]]]] * (LARGE_BYTES // 10)})
    return await _requests(port, lambda: request, 16)


async def _http_garbage(port: int) -> list[Work]:
    request = http1.request("POST", "/pools", b"{" * 100, Content_Type="application/json")
    return await _requests(port, lambda: request, 256)


async def _http_lists(port: int) -> list[Work]:
    request = http1.request("GET", "/pools", Accept_Encoding="gzip")
    return await _requests(port, lambda: request, 32)


async def _http_filtered_lists(port: int) -> list[Work]:
    return await _requests(
        port,
        lambda: http1.request("GET", f"/pools?model={next(numbers)}&model=Qwen/Qwen3-1B"),
        32,
    )


async def _http_metrics(port: int) -> list[Work]:
    return await _requests(port, lambda: http1.request("GET", "/metrics"), 32)


async def _http_pipelined(port: int) -> list[Work]:
    """A thousand requests at a go on each of eight connections."""
    many = http1.request("GET", "/livez") * 1_000

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(ADDRESS, 0))
        try:
            writer.write(many)
            while await reader.read(65_536):
                pass
        finally:
            writer.close()

    return [one] * 8


async def _http_slow(port: int) -> list[Work]:
    """Two thousand connections of which each sends a byte of its body a second."""
    head = http1.request("POST", "/pools", Content_Type="application/json", Content_Length="1000")

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(ADDRESS, 0))
        try:
            writer.write(head)
            while not reader.at_eof():
                await asyncio.sleep(1)
                writer.write(b" ")
                await writer.drain()
        finally:
            writer.close()

    return [one] * 2_000


async def _http_connections(port: int) -> list[Work]:
    async def one() -> None:
        (await http1.connect(port, ADDRESS)).close()

    return [one] * 64


KINDS: dict[str, Callable[[int], Awaitable[list[Work]]]] = {
    "no calls": _no_calls,
    "renewals of unknown leases": _renewals,
    "garbage": _garbage,
    "large messages": _large,
    "lists": _lists,
    "filtered lists": _filtered_lists,
    "watches": _watches,
    "checks of health": _health,
    "connections": _connections,
    "http large bodies": _http_large,
    "http garbage": _http_garbage,
    "http lists": _http_lists,
    "http filtered lists": _http_filtered_lists,
    "http metrics": _http_metrics,
    "http pipelined": _http_pipelined,
    "http slow bodies": _http_slow,
    "http connections": _http_connections,
    "new pools": _new_pools,
    "http new pools": _http_new_pools,
}


if __name__ == "__main__":
    main()
