"""`global-discovery pools` and `global-discovery routers`: what a running server lists.

Without `--watch` they print the list once. With it they follow it until Ctrl-C:
on a terminal as a table that is redrawn in place, on a pipe one line a change,
with `-o json` one JSON object a line.
"""

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc

from global_discovery.cli.arguments import add_server, nonempty_text, servers_of, tls_of
from global_discovery.cli.ending import Failed, run_until_stopped, write
from global_discovery.cli.events import Events, event_document, event_lines, json_text
from global_discovery.cli.kinds import POOLS, ROUTERS, Kind
from global_discovery.client import CallFailed, list_pools, watch_pools
from global_discovery.client.lists import Listing, list_routers
from global_discovery.client.watch import Watch, WatchState, watch_routers
from global_discovery.serving.race import race
from global_discovery.v1 import pool_discovery_pb2 as pb

REDRAW_SECONDS = 0.1
AGES_SECONDS = 1.0
NEEDS_RICH = (
    "-o table needs rich, which is not installed: install global-discovery[cli], or use -o json"
)
_HOPELESS = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED}
"""Answers to a first call that no waiting changes."""


@dataclass(frozen=True, slots=True)
class _Request:
    """What one command asks, and of whom."""

    kind: Kind
    list_once: Callable[[], Awaitable[Listing[Any]]]
    watch: Callable[[], Watch[Any]]


def add_parsers(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Adds both commands to those of the program."""
    pools = subparsers.add_parser(
        "pools",
        help="list or follow the pools of a running server",
        description="Lists the serving pools, or follows them with --watch until Ctrl-C.",
    )
    _add_common(pools)
    filters = pools.add_argument_group(
        "filters", "Values of one filter are alternatives; different filters combine with and."
    )
    for name, metavar, what in (
        ("--model", "MODEL", "only pools that serve this model"),
        ("--region", "REGION", "only pools of this region"),
        ("--cluster-id", "CLUSTER", "only pools of this cluster"),
        ("--namespace", "NAMESPACE", "only pools of this Kubernetes namespace"),
    ):
        filters.add_argument(
            name,
            metavar=metavar,
            action="append",
            default=[],
            type=nonempty_text,
            help=f"{what}; may be given several times",
        )
    routers = subparsers.add_parser(
        "routers",
        help="list or follow the routers of a running server",
        description="Lists the global routers, or follows them with --watch until Ctrl-C.",
    )
    _add_common(routers)


def _add_common(parser: argparse.ArgumentParser) -> None:
    add_server(parser)
    parser.add_argument("--watch", action="store_true", help="follow what changes, until Ctrl-C")
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json"),
        default="table",
        help="table for people, json for programs (with --watch one object a line)"
        " [default: table]",
    )


def run_pools(args: argparse.Namespace) -> int:
    """The exit status. Raises Failed, and CallFailed for what the server said."""
    servers, tls = servers_of(args), tls_of(args)
    wanted = pb.PoolFilter(
        models=args.model,
        regions=args.region,
        cluster_ids=args.cluster_id,
        namespaces=args.namespace,
    )
    request = _Request(
        POOLS,
        lambda: list_pools(servers, wanted=wanted, tls=tls),
        lambda: watch_pools(servers, wanted=wanted, tls=tls),
    )
    return _run(request, args)


def run_routers(args: argparse.Namespace) -> int:
    """As `run_pools`."""
    servers, tls = servers_of(args), tls_of(args)
    request = _Request(
        ROUTERS,
        lambda: list_routers(servers, tls=tls),
        lambda: watch_routers(servers, tls=tls),
    )
    return _run(request, args)


def _run(request: _Request, args: argparse.Namespace) -> int:
    as_json = args.output == "json"
    if not args.watch:
        return run_until_stopped(_list(request, as_json=as_json))
    if not as_json and _redraws():
        return run_until_stopped(_watch_table(request))
    return run_until_stopped(_watch_lines(request, as_json=as_json))


def _redraws() -> bool:
    """Whether standard output is a terminal that can redraw a table in place."""
    return sys.stdout.isatty() and os.environ.get("TERM", "").lower() not in {"dumb", "unknown"}


def _rich_table() -> Any:
    """The module that needs rich. Raises Failed without it."""
    try:
        from global_discovery.cli import table  # noqa: PLC0415 - rich may not be installed
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "rich":
            raise
        raise Failed(NEEDS_RICH) from None
    return table


async def _list(request: _Request, *, as_json: bool) -> None:
    table = None if as_json else _rich_table()
    listing = await request.list_once()
    kind = request.kind
    if table is not None:
        table.print_list(kind, listing)
        return
    entries = [kind.document(entry) for entry in listing.entries]
    write(json_text({kind.plural: entries, **kind.mark_document(listing.mark)}) + "\n")


async def _watch_lines(request: _Request, *, as_json: bool) -> None:
    events = Events()
    async with request.watch() as watch:
        async for state in watch:
            _give_up_if_hopeless(state)
            lines: list[str] = []
            for event in events.of(state):
                if as_json:
                    lines.append(json_text(event_document(event, request.kind)))
                else:
                    lines.extend(event_lines(event, request.kind))
            if lines:
                write("\n".join(lines) + "\n")


async def _watch_table(request: _Request) -> None:
    """Reads all the while, and redraws at most ten times a second."""
    news = _News()
    with _rich_table().LiveTable(request.kind) as table:
        async with request.watch() as watch:
            await race(_read(watch, news), _draw(table, news))


async def _draw(table: Any, news: "_News") -> None:
    while True:
        table.draw(await news.next())
        await asyncio.sleep(REDRAW_SECONDS)


class _News:
    """The newest state, for a reader that may miss the ones between."""

    def __init__(self) -> None:
        self._state: WatchState[Any] | None = None
        self._came = asyncio.Event()

    def put(self, state: WatchState[Any]) -> None:
        self._state = state
        self._came.set()

    async def next(self) -> WatchState[Any]:
        """A new state; the same again after a second while ages are shown."""
        while True:
            ages = self._state is not None and bool(self._state.fold.carried)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AGES_SECONDS if ages else None):
                    await self._came.wait()
            self._came.clear()
            if self._state is not None:
                return self._state


async def _read(watch: Watch[Any], news: _News) -> None:
    async for state in watch:
        _give_up_if_hopeless(state)
        news.put(state)


def _give_up_if_hopeless(state: WatchState[Any]) -> None:
    """Raises what a first call was refused with for good."""
    error = state.connection.last_error
    if error is not None and error.code in _HOPELESS and state.fold.mark is None:
        raise CallFailed(error.server, error.code, error.message, error.details) from error
