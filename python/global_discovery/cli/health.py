"""`global-discovery health`: asks a server on this machine whether it lives.

For containers, whose image has no curl and no shell. It reads the same variables
as `serve` does, so that both agree about the port; where the port was given by a
flag, `--address` names it here too. It asks `/livez`, which fails only for a
process that must be restarted, past every proxy. Over TLS it verifies nothing:
it calls its own machine, by an address that no certificate names, and tells
nothing.
"""

import argparse
import http.client
import os
import ssl
import sys
from collections.abc import Mapping
from ipaddress import IPv4Address, ip_address
from typing import Any

from global_discovery.cli import serve_flags as flags
from global_discovery.cli.flags import Refused
from global_discovery.cli.values import Address, address

LIVES, DOES_NOT, REFUSED = 0, 1, 2
TIMEOUT_SECONDS = 3.0


def add_parser(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Adds the command to those of the program."""
    parser = subparsers.add_parser(
        "health",
        help="ask a server on this machine whether it lives",
        description="Exits with 0 when the server's /livez answers 200, else with 1.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="Where it listens. [default: "
        f"{flags.HEALTH_LISTEN.variable}, else {flags.LISTEN.variable}, "
        f"else {flags.LISTEN.default}]",
    )
    parser.add_argument(
        "--tls",
        action=argparse.BooleanOptionalAction,
        help="Whether it is asked over TLS, without verifying the certificate. [default: when "
        f"{flags.TLS_CERT.variable} is set and {flags.HEALTH_LISTEN.variable} is not]",
    )


def run(args: argparse.Namespace) -> int:
    """The exit status; one sentence on stderr unless it is 0."""
    try:
        target = _reachable(_address(args.address, os.environ))
    except Refused as refusal:
        sys.stderr.write(f"global-discovery health: {refusal}\n")
        return REFUSED
    over_tls = args.tls
    if over_tls is None:
        over_tls = flags.TLS_CERT.variable in os.environ
        over_tls &= flags.HEALTH_LISTEN.variable not in os.environ
    problem = _ask(target, over_tls=over_tls)
    if problem:
        sys.stderr.write(f"global-discovery health: {target} {problem}\n")
        return DOES_NOT
    return LIVES


def _address(given: str | None, environ: Mapping[str, str]) -> Address:
    source, text = "--address", given
    for flag in (flags.HEALTH_LISTEN, flags.LISTEN):
        if text is None:
            source, text = flag.variable, environ.get(flag.variable)
    try:
        return address(flags.LISTEN.shown_default if text is None else text)
    except ValueError as problem:
        raise Refused(f"{source} {text!a}: {problem}") from None


def _reachable(listening: Address) -> Address:
    """Where to reach a server that listens there: on loopback, if on every interface."""
    host = listening.host
    try:
        ip = ip_address(host)
    except ValueError:
        return listening
    if ip.is_unspecified:
        host = "127.0.0.1" if isinstance(ip, IPv4Address) else "::1"
    return Address(host, listening.port)


def _ask(target: Address, *, over_tls: bool) -> str:
    """What is wrong; nothing when it lives."""
    connection = _connection(target, over_tls=over_tls)
    try:
        connection.request("GET", "/livez")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"does not answer: {error}"
    finally:
        connection.close()
    return "" if status == http.HTTPStatus.OK else f"answers /livez with {status}"


def _connection(target: Address, *, over_tls: bool) -> http.client.HTTPConnection:
    if not over_tls:
        return http.client.HTTPConnection(target.host, target.port, timeout=TIMEOUT_SECONDS)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # see the module's docstring
    return http.client.HTTPSConnection(
        target.host, target.port, timeout=TIMEOUT_SECONDS, context=context
    )
