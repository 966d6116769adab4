"""docs/flags.md, `--help` and the table of flags say the same."""

import re
import subprocess
from pathlib import Path

import pytest

from global_discovery.cli.serve_flags import FLAGS
from support.serve_process import COMMAND, clean_environment

DOCUMENT = Path(__file__).parents[2] / "docs" / "flags.md"
ROW = re.compile(
    r"\| `(?P<name>--\S+) (?P<metavar>[^`]+)` \| `(?P<variable>\w+)` \| (?P<default>[^|]+) \| "
)
HELP = re.compile(
    r"^  (?P<name>--\S+) (?P<metavar>\S+).*?"
    r"\[default: (?P<default>.*?); environment: (?P<variable>\w+)\]",
    re.DOTALL | re.MULTILINE,
)

Rows = dict[str, list[tuple[str, str, str, str]]]


@pytest.fixture(scope="module")
def table() -> Rows:
    rows: Rows = {}
    for flag in FLAGS.flags:
        row = (flag.name, flag.metavar, flag.variable, flag.shown_default)
        rows.setdefault(flag.heading.title, []).append(row)
    return rows


def test_the_document_has_the_table(table: Rows) -> None:
    rows: Rows = {}
    title = ""
    for line in DOCUMENT.read_text().splitlines():
        if line.startswith("## "):
            title = line.removeprefix("## ")
        elif line.startswith("| `--"):
            row = ROW.match(line)
            assert row is not None, line
            metavar, default = row["metavar"].replace(r"\|", "|"), row["default"].strip("`")
            rows.setdefault(title, []).append((row["name"], metavar, row["variable"], default))
    assert rows == table


def test_the_help_has_the_table(table: Rows) -> None:
    env = clean_environment(COLUMNS="500")
    shown = subprocess.run(
        [*COMMAND, "--help"], env=env, capture_output=True, text=True, check=True, timeout=60
    )
    rows: Rows = {}
    for group in shown.stdout.split("\n\n"):
        title, _, body = group.partition(":\n")
        for row in HELP.finditer(body):
            rows.setdefault(title, []).append(
                (row["name"], row["metavar"], row["variable"], row["default"])
            )
    assert rows == table
