"""The tables of `pools` and `routers`. Needs rich, which is imported here only.

No markup is read and nothing is highlighted: every text is escaped and put in as
it is. On a pipe a table is as wide as its content and has no colour, whatever
the environment asks for; `NO_COLOR` counts on a terminal. Where standard output
cannot be written, it raises as `ending.writing` says.
"""

import sys
import time
from collections.abc import Iterable
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from global_discovery.cli.ending import writing
from global_discovery.cli.events import unconnected_text
from global_discovery.cli.kinds import Kind
from global_discovery.cli.text import count, safe, seconds_text
from global_discovery.client.fold import Carried, is_exact
from global_discovery.client.lists import Listing
from global_discovery.client.watch import WatchState
from global_discovery.v1 import pool_pb2

_WIDE = 1_000_000
_NO_BOX = {"box": None, "pad_edge": False, "padding": (0, 2, 0, 0)}


def console() -> Console:
    """Standard output, as a terminal only if it is one."""
    terminal = sys.stdout.isatty()
    return Console(
        force_terminal=terminal,
        width=None if terminal else _WIDE,
        markup=False,
        emoji=False,
        highlight=False,
    )


def print_list(kind: Kind, listing: Listing[Any]) -> None:
    """The table of a list, and its mark below."""
    out = console()
    with writing():
        out.print(_table(kind, listing.entries, ()))
        out.print(_summary(kind, len(listing.entries), 0, listing.mark))


class LiveTable:
    """A table that is redrawn in place. A context manager, which restores the terminal."""

    def __init__(self, kind: Kind) -> None:
        """Draws nothing before it is entered."""
        self._kind = kind
        self._live = Live(console=console(), auto_refresh=False, vertical_overflow="ellipsis")

    def __enter__(self) -> Self:
        """Takes the terminal."""
        with writing():
            self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Gives it back, with the last table left standing."""
        with writing():
            self._live.stop()

    def draw(self, state: WatchState[Any], now: float | None = None) -> None:
        """Shows a state. `now`, for the ages, is on the monotonic clock."""
        moment = time.monotonic() if now is None else now
        shown = _watched(self._kind, state, moment)
        with writing():
            self._live.update(shown, refresh=True)


def _watched(kind: Kind, state: WatchState[Any], now: float) -> RenderableType:
    fold = state.fold
    carried = [(entry, now - entry.listed_until) for entry in fold.carried.values()]
    return Group(
        _connection(state),
        _summary(kind, len(fold.listed), len(carried), fold.mark),
        _table(kind, fold.listed.values(), carried),
    )


def _table(
    kind: Kind, entries: Iterable[Any], carried: Iterable[tuple[Carried[Any], float]]
) -> Table:
    rows: list[tuple[Any, Any, float | None]] = [
        *((kind.key(entry), entry, None) for entry in entries),
        *((kind.key(old.entry), old.entry, age) for old, age in carried),
    ]
    with_age = any(age is not None for _, _, age in rows)
    table = Table(header_style="bold", **_NO_BOX)  # type: ignore[arg-type]  # a dict of options
    for name in kind.columns + (("CARRIED",) if with_age else ()):
        table.add_column(name, overflow="fold")
    for _, entry, age in sorted(rows, key=lambda row: row[0]):
        cells = [Text(safe(cell)) for cell in kind.cells(entry)]
        if with_age:
            cells.append(Text("" if age is None else f"for {seconds_text(age)}"))
        table.add_row(*cells, style="dim" if age is not None else None)
    return table


def _summary(kind: Kind, listed: int, carried: int, mark: pool_pb2.Mark | None) -> Text:
    known = f"{count(listed, kind.noun)}" + (f" and {carried} carried" if carried else "")
    style = "green" if mark is not None and is_exact(mark) else "yellow"
    return Text.assemble(f"{known}, ", (kind.mark_sentence(mark), style))


def _connection(state: WatchState[Any]) -> Text:
    connection = state.connection
    if connection.last_error is not None and not connection.connected:
        told = safe(unconnected_text(connection.last_error))
        return Text(f"not connected: {told}", style="red")
    info = connection.info
    who = f" (instance {info.instance_id}, version {info.version})" if info else ""
    return Text(safe(f"following {connection.server}{who}"))
