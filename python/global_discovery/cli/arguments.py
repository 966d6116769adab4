"""What the client commands take from their command line."""

import argparse
import os

from global_discovery.cli.text import safe
from global_discovery.cli.values import address

DEFAULT_SERVER = "127.0.0.1:50051"
SERVER_VARIABLE = "GLOBAL_DISCOVERY_SERVER"


def add_server(parser: argparse.ArgumentParser) -> None:
    """Adds `--server`."""
    parser.add_argument(
        "--server",
        metavar="HOST:PORT",
        action="append",
        type=server,
        help="the server's gRPC address; given several times, the next one is used when one "
        f"is unavailable [default: {DEFAULT_SERVER}; environment: {SERVER_VARIABLE}, "
        "several between commas]",
    )


class Misused(Exception):
    """A sentence about what was given wrongly outside of the command line itself."""


def servers_of(args: argparse.Namespace) -> list[str]:
    """The servers to call, in order. Raises Misused for a variable that names none."""
    if args.server:
        given: list[str] = args.server
        return given
    variable = os.environ.get(SERVER_VARIABLE)
    if variable is None:
        return [DEFAULT_SERVER]
    try:
        return [server(part.strip()) for part in variable.split(",")]
    except argparse.ArgumentTypeError as problem:
        raise Misused(f"{SERVER_VARIABLE}: {problem}") from None


def server(text: str) -> str:
    """A gRPC target from `host:port`."""
    try:
        target = address(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(f"{shown(text)} {problem}") from None
    if text.startswith(":") or not target.port:
        raise argparse.ArgumentTypeError(f"{shown(text)} needs a host and a port to connect to")
    return str(target)


def nonempty_text(text: str) -> str:
    """Any text but the empty one; it must be UTF-8, as everything that is sent."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not UTF-8") from None
    return text


def shown(text: str) -> str:
    """What was given, fit for a terminal, in quotes."""
    return f"'{safe(text)}'"
