"""`serve` in a world that is bad in one way: run as `altered_serve.py WAY [flag ...]`.

Everything but the named part is the real thing.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable

import structlog

from global_discovery.cli import process, serve
from global_discovery.cli.parser import Parser
from global_discovery.cli.serve_flags import read_values
from global_discovery.cli.signals import StopSignals
from global_discovery.serving import service
from global_discovery.sources.registered.registrations import Registrations
from global_discovery.storage.memory import MemoryStore
from global_discovery.storage.store import Reading, StoredShare

EVER = 3600.0


def say(event: str) -> None:
    structlog.get_logger().info(event)


class NeverOpens(MemoryStore):
    """Its disk or network does not answer."""

    async def open(self) -> Reading:
        await asyncio.sleep(EVER)
        return Reading()


class CannotOpen(MemoryStore):
    """It says why."""

    async def open(self) -> Reading:
        raise OSError("the store\nis in use")


class RunDies(MemoryStore):
    """What it must do for ever ends with a fault."""

    async def run(self) -> None:
        raise ZeroDivisionError("a fault of ours")


class NeverCloses(MemoryStore):
    """It hangs at the end, but lets others run."""

    async def close(self) -> None:
        say("closing")
        await asyncio.sleep(EVER)


class BlocksAtTheEnd(MemoryStore):
    """It hangs at the end, and the loop with it."""

    async def close(self) -> None:
        say("closing")
        while True:
            # In short steps: one call could begin just after a signal and never see it.
            time.sleep(0.05)  # noqa: ASYNC251 - that is what is bad about it


class StoresAfterTheSignal(MemoryStore):
    """A call is under way when the signal comes."""

    def __init__(self, signals: StopSignals) -> None:
        self._signals = signals

    async def put(self, share: StoredShare) -> None:
        del share
        say("storing")
        await self._signals.wait()
        for _ in range(100):  # turns of the loop, after which the service is stopping
            await asyncio.sleep(0)


def tick_dies(_registrations: Registrations) -> bool:
    raise ZeroDivisionError("a fault of ours")


def main() -> int:
    way, *flags = sys.argv[1:]
    parser = Parser()
    serve.add_parser(parser.add_subparsers())
    values = read_values(parser.parse_args(["serve", *flags]), os.environ)
    signals = StopSignals()
    stores: dict[str, Callable[[], MemoryStore]] = {
        "store-never-opens": NeverOpens,
        "task-dies-while-store-opens": NeverOpens,
        "store-cannot-open": CannotOpen,
        "task-of-the-store-dies": RunDies,
        "store-never-closes": NeverCloses,
        "store-is-given-up": NeverCloses,
        "store-blocks-at-the-end": BlocksAtTheEnd,
        "call-under-way": lambda: StoresAfterTheSignal(signals),
    }
    if way.startswith("task-dies"):
        Registrations.tick = tick_dies  # type: ignore[method-assign]  # the fault
    if way == "endless-grace":
        service.DRAIN_SECONDS = EVER
    if way == "store-never-closes":
        service.STORE_CLOSE_SECONDS = EVER
    if way == "store-is-given-up":
        service.STORE_CLOSE_SECONDS = 0.1
    if way == "stopped-before-it-starts":
        os.kill(os.getpid(), 15)
    return process.run(values, signals, stores.get(way, MemoryStore)())


if __name__ == "__main__":
    sys.exit(main())
