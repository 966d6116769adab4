"""`global-discovery serve`: from the command line to a running service.

Every refusal comes before anything is opened: one sentence on stderr that names
the flag, exit status 2. From then on everything that is said is a line of the
log, and a failure ends with exit status 1. Only after the refusals is the
server's code loaded, so that the command line works where just the client
library is installed.
"""

import argparse
import os
import sys
from typing import Any

from global_discovery.cli.flags import Refused
from global_discovery.cli.serve_flags import FLAGS, read_values
from global_discovery.cli.signals import StopSignals

REFUSED, FAILED = 2, 1
_EXTRAS = {"kubernetes_asyncio": "kubernetes", "msgspec": "kubernetes"}
"""What installs a module that is missing; the extra `server` installs the others."""


def add_parser(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Adds the command to those of the program."""
    parser = subparsers.add_parser(
        "serve",
        help="run the service",
        description="Runs the service until SIGTERM or SIGINT; a second signal ends it at once.",
        usage="%(prog)s [flags]",
    )
    FLAGS.add_to(parser)


def run(args: argparse.Namespace) -> int:
    """Serves until a signal; the exit status."""
    try:
        values = read_values(args, os.environ)
    except Refused as refusal:
        sys.stderr.write(f"global-discovery serve: {refusal}\n")
        return REFUSED
    signals = StopSignals()
    try:
        from global_discovery.cli import process  # noqa: PLC0415 - see the module's docstring

        return process.run(values, signals)
    except ModuleNotFoundError as missing:
        module = (missing.name or "").partition(".")[0]
        extra = _EXTRAS.get(module, "server")
        sys.stderr.write(
            f"global-discovery serve: {module} is not installed; "
            f"install global-discovery[{extra}]\n"
        )
        return FAILED
