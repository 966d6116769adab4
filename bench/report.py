"""The table: on the terminal, and as docs/performance.md with how to read it."""

import datetime as dt
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import measure
import page

LIBRARIES = ("grpcio", "protobuf", "aiohttp", "orjson", "prometheus-client")
HEADINGS = {
    "a": "RegisterPool: the heartbeat of one relay",
    "b": "RenewPools: many leases at once",
    "c": "Changes to 1,000 watchers over 20 connections",
    "d": "A new watcher of 10,000 pools",
    "e": "GET /pools of 1,000 pools",
    "f": "Memory",
    "g": "Calls over each store",
    "h": "10,000 pools that live, over each store",
    "i": "Two replicas over one table of 10,000 pools",
    "j": "A start with what was stored",
    "k": "Heartbeats beside an abuser",
}


@dataclass(frozen=True)
class Columns:
    """Which sides a table has, and which of them it divides by which."""

    sides: tuple[str, ...]
    ratios: tuple[tuple[str, str], ...]

    @property
    def titles(self) -> tuple[str, ...]:
        """What stands above them."""
        return ("what", "unit", *self.sides, *map("/".join, self.ratios), "aim")


SERVERS = Columns(("ours", "bare", "etcd"), (("ours", "bare"), ("ours", "etcd")))
STORES = Columns(("memory", "sqlite", "dynamodb"), (("sqlite", "memory"), ("dynamodb", "memory")))
REPLICAS = Columns(("A", "B"), (("B", "A"),))
ABUSE = Columns(("alone", "beside"), (("beside", "alone"),))
COLUMNS = {
    **dict.fromkeys("abcdef", SERVERS),
    "g": STORES,
    "h": STORES,
    "i": REPLICAS,
    "j": STORES,
    "k": ABUSE,
}


@dataclass(frozen=True)
class Aim:
    """What a ratio should be."""

    against: str
    bound: float
    at_most: bool = False

    def met(self, ratio: float) -> bool:
        """Whether a ratio is as it should be."""
        return ratio <= self.bound if self.at_most else ratio >= self.bound

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.bound:g} {self.against}"


@dataclass(frozen=True)
class Row:
    """One line: a figure of each side, and how they compare."""

    job: str
    what: str
    unit: str
    figures: dict[str, float]
    ratios: dict[tuple[str, str], float]
    """By the two sides that are compared."""
    aim: Aim | None = None

    def cells(self) -> tuple[str, ...]:
        """As text, in the order of the table's columns."""
        columns = COLUMNS[self.job]
        verdict = ""
        if self.aim is not None:
            verdict = str(self.aim)
            compared = "beside" if self.aim.against == "alone" else "ours"
            ratio = self.ratios.get((compared, self.aim.against))
            if ratio is not None:
                verdict += " - met" if self.aim.met(ratio) else " - MISSED"
        sides = [_number(self.figures.get(side)) for side in columns.sides]
        ratios = [_number(self.ratios.get(pair)) for pair in columns.ratios]
        return (self.what, self.unit, *sides, *ratios, verdict)


def row(  # noqa: PLR0913 - a line of the table has these columns
    job: str,
    what: str,
    unit: str,
    rounds: measure.Rounds,
    quantity: str,
    *,
    aim: Aim | None = None,
) -> Row:
    """A line from the rounds of all sides that have the quantity."""
    found = {side: values[quantity] for side, values in rounds.items() if values.get(quantity)}
    return Row(
        job,
        what,
        unit,
        {side: measure.median(values) for side, values in found.items()},
        {
            (side, other): measure.ratio(found[side], found[other])
            for side, other in COLUMNS[job].ratios
            if side in found and other in found
        },
        aim,
    )


def row_of(
    job: str, what: str, unit: str, figures: dict[str, float], *, aim: Aim | None = None
) -> Row:
    """A line of figures that were measured once."""
    ratios = {
        (side, other): figures[side] / figures[other]
        for side, other in COLUMNS[job].ratios
        if side in figures and other in figures
    }
    return Row(job, what, unit, figures, ratios, aim)


def as_text(rows: Sequence[Row]) -> str:
    """For the terminal."""
    lines = []
    for job, heading in HEADINGS.items():
        of_job = [line.cells() for line in rows if line.job == job]
        if of_job:
            table = [COLUMNS[job].titles, *of_job]
            widths = [max(map(len, column)) for column in zip(*table, strict=True)]
            lines += ["", f"{job}. {heading}", *(_padded(cells, widths) for cells in table)]
    return "\n".join(lines)


def write(path: Path, rows: Sequence[Row], *, etcd: str, minutes: float, load: float) -> None:
    """Writes the page of the documentation. `load` is the load average when the run began."""
    parts = [page.INTRODUCTION.format(machine=_machine(etcd, minutes, load))]
    for job, heading in HEADINGS.items():
        of_job = [line for line in rows if line.job == job]
        if of_job:
            parts += [f"## {job}. {heading}", "", page.NOTES[job], ""]
            columns = COLUMNS[job]
            numbers = len(columns.sides) + len(columns.ratios)
            parts += [_markdown(columns.titles), "|---|---|" + "--:|" * numbers + "---|"]
            parts += [_markdown(line.cells()) for line in of_job] + [""]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts))


def _padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    last = len(cells) - 1
    padded = (
        cell.ljust(width) if column in {0, 1, last} else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  " + "  ".join(padded).rstrip()


def _markdown(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _machine(etcd: str, minutes: float, load: float) -> str:
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    facts = {
        "Date": f"{dt.datetime.now(dt.UTC):%Y-%m-%d}; the run took {minutes:.1f} min",
        "Load average when it began": f"{load:.1f}",
        "CPU": f"{_cpu_model()}, {os.cpu_count()} logical cores",
        "Memory": f"{memory:.0f} GiB",
        "System": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "Libraries": libraries,
        "etcd": f"{etcd}, one node, its data in memory"
        if etcd
        else "not installed, so not measured",
    }
    return "\n".join(f"- {name}: {fact}" for name, fact in facts.items())


def _cpu_model() -> str:
    with Path("/proc/cpuinfo").open() as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
