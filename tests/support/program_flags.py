"""The commands of the program and their flags, as its help shows them."""

import contextlib
import io
import re

from global_discovery.cli.main import make_parser

FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")


def subcommands() -> list[str]:
    """All of them; one with commands of its own by these."""
    return [*re.findall(r"^    ([a-z]+)", _help_of(""), re.MULTILINE), "dynamodb create-table"]


def flags_of(name: str) -> set[str]:
    """Of one of these commands."""
    return set(FLAG.findall(_help_of(name)))


def _help_of(name: str) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        make_parser().parse_args([*name.split(), "--help"])
    return shown.getvalue()
