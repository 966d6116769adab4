"""The program `global-discovery`: its commands, and the one place where they end.

A command's code and what it needs are imported when it is called, so that the
program and its help work with nothing but the client library installed.
"""

import argparse
import io
import sys
from collections.abc import Sequence

from global_discovery import __version__
from global_discovery.cli import dynamodb, health, listing, register, relay, serve, why
from global_discovery.cli.arguments import Misused
from global_discovery.cli.ending import (
    FAILED,
    INTERRUPTED,
    MISUSED,
    NOT_READ,
    Failed,
    closed_output,
    complain,
    stop_writing,
    writing,
)
from global_discovery.cli.parser import Parser
from global_discovery.cli.text import safe
from global_discovery.client import CallFailed

_RUN = {
    "serve": serve.run,
    "dynamodb": dynamodb.run,
    "health": health.run,
    "pools": listing.run_pools,
    "routers": listing.run_routers,
    "why": why.run,
    "register": register.run,
    "relay": relay.run,
}


def make_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = Parser(
        prog="global-discovery",
        description="Tells LLM routers, in every region, which serving pools exist right now.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    serve.add_parser(commands)
    listing.add_parsers(commands)
    why.add_parser(commands)
    register.add_parser(commands)
    relay.add_parser(commands)
    dynamodb.add_parser(commands)
    health.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; the exit status (see `ending`). Wrong usage raises SystemExit(2)."""
    if sys.stdout is None:
        sys.stdout = closed_output()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a process may be started without them
            stream.reconfigure(errors="backslashreplace")
    try:
        args = make_parser().parse_args(argv)
        status = _RUN[args.command](args)
        with writing():
            sys.stdout.flush()
    except Misused as misuse:
        return _say(f"{misuse}", MISUSED)
    except (Failed, CallFailed) as failure:
        return _say(safe(str(failure)), FAILED)
    except BrokenPipeError:
        stop_writing(sys.stdout)
        return NOT_READ
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _say(sentence: str, status: int) -> int:
    complain(sentence)
    return status


if __name__ == "__main__":
    sys.exit(main())
