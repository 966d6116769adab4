"""What the client commands take from their command line."""

import argparse
import os
import re
from pathlib import Path

from global_discovery.cli.text import safe
from global_discovery.cli.values import address
from global_discovery.client.fold import PoolKey
from global_discovery.client.tls import ClientTls, TlsSettings, TokenFile
from global_discovery.pem import BadTlsFile

CA_VARIABLE = "GLOBAL_DISCOVERY_CA_PATH"
CERT_VARIABLE = "GLOBAL_DISCOVERY_CLIENT_CERT_PATH"
KEY_VARIABLE = "GLOBAL_DISCOVERY_CLIENT_KEY_PATH"
NAME_VARIABLE = "GLOBAL_DISCOVERY_TLS_SERVER_NAME"
BEARER_VARIABLE = "GLOBAL_DISCOVERY_TOKEN_PATH"
DEFAULT_SERVER = "127.0.0.1:50051"
SERVER_VARIABLE = "GLOBAL_DISCOVERY_SERVER"
_COUNT = re.compile(r"[0-9]{1,9}")
_KEY_PARTS = 3


def add_server(parser: argparse.ArgumentParser) -> None:
    """Adds `--server`, and how it is called over TLS."""
    parser.add_argument(
        "--server",
        metavar="HOST:PORT",
        action="append",
        type=server,
        help="the server's gRPC address; given several times, the next one is used when one "
        f"is unavailable [default: {DEFAULT_SERVER}; environment: {SERVER_VARIABLE}, "
        "several between commas]",
    )
    add_tls(parser.add_argument_group("TLS"))


def add_tls(group: "argparse._ArgumentGroup") -> None:
    """Adds `--tls` and what goes with it."""
    group.add_argument(
        "--tls",
        action="store_true",
        help="call gRPC servers over TLS, with the system's CAs; the flags below imply it",
    )
    for name, metavar, variable, what in (
        ("--ca-path", "PATH", CA_VARIABLE, "the CAs of the servers' certificates, in PEM"),
        ("--client-cert-path", "PATH", CERT_VARIABLE, "the certificate to show, in PEM"),
        ("--client-key-path", "PATH", KEY_VARIABLE, "its private key, in PEM"),
        (
            "--tls-server-name",
            "NAME",
            NAME_VARIABLE,
            "the name in the servers' certificates, where they are called by another one",
        ),
        ("--token-path", "PATH", BEARER_VARIABLE, "the file of the token to show with each call"),
    ):
        group.add_argument(
            name, metavar=metavar, type=nonempty_text, help=f"{what} [environment: {variable}]"
        )


def tls_of(args: argparse.Namespace) -> TlsSettings | None:
    """How servers are called over TLS, if they are. Raises Misused, also for bad files."""
    ca = _set(args.ca_path, CA_VARIABLE)
    cert = _set(args.client_cert_path, CERT_VARIABLE)
    key = _set(args.client_key_path, KEY_VARIABLE)
    name = _set(args.tls_server_name, NAME_VARIABLE)
    token = _set(args.token_path, BEARER_VARIABLE)
    if not (args.tls or ca or cert or key or name or token):
        return None
    for given, flag, missing, other in (
        (cert, "--client-cert-path", key, "--client-key-path"),
        (key, "--client-key-path", cert, "--client-cert-path"),
    ):
        if given and not missing:
            raise Misused(f"{flag} needs {other}")
    settings = TlsSettings(ca, cert, key, name or "", token)
    try:
        ClientTls(settings).credentials()
        if token:
            TokenFile(Path(token)).read()
    except BadTlsFile as bad:
        given_paths = (
            (ca, "--ca-path"),
            (cert, "--client-cert-path"),
            (key, "--client-key-path"),
            (token, "--token-path"),
        )
        flag = next(flag for path, flag in given_paths if path and Path(path) == bad.path)
        raise Misused(f"{flag} {shown(str(bad.path))}: {bad.problem}") from None
    return settings


def _set(given: str | None, variable: str) -> str | None:
    """What the flag says, else the variable. Raises Misused for an empty one."""
    text = os.environ.get(variable) if given is None else given
    if text == "":
        raise Misused(f"{variable} must not be empty")
    return text


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


def pool_key(text: str) -> PoolKey:
    """Three parts; whether each of them keeps the rules is for the server to say."""
    parts = nonempty_text(text).split("/")
    if len(parts) != _KEY_PARTS or not all(parts):
        raise argparse.ArgumentTypeError(f"{shown(text)} is not of the form cluster/namespace/name")
    return PoolKey(*parts)


def nonempty_text(text: str) -> str:
    """Any text but the empty one; it must be UTF-8, as everything that is sent."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not UTF-8") from None
    return text


def capacity(text: str) -> tuple[str, int]:
    """A kind of accelerators and how many: `sku=count`. The name may have a `=` in it."""
    sku, equals, count = nonempty_text(text).rpartition("=")
    if not equals or not sku or _COUNT.fullmatch(count) is None:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not of the form sku=count")
    return sku, int(count)


def shown(text: str) -> str:
    """What was given, fit for a terminal, in quotes."""
    return f"'{safe(text)}'"
