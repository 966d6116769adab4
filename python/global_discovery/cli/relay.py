"""`global-discovery relay`: from the command line to a running Pool Relay.

Every refusal comes before anything is opened: one sentence on stderr that names
the flag, exit status 2. From then on everything that is said is a line of the
log, and a failure ends with exit status 1. The relay's own code is loaded only
after the refusals.
"""

import argparse
import os
import re
import socket
import sys
from typing import Any, NamedTuple

from global_discovery.cli.arguments import (
    DEFAULT_SERVER,
    SERVER_VARIABLE,
    Misused,
    add_tls,
    capacity,
    nonempty_text,
    server,
    shown,
    tls_of,
)
from global_discovery.cli.ending import MISUSED
from global_discovery.cli.extras import needs
from global_discovery.cli.signals import StopSignals
from global_discovery.cli.values import address
from global_discovery.client.tls import ClientTls, TokenInPlainText
from global_discovery.domain import frontend_url, rules
from global_discovery.domain.errors import InvalidInput
from global_discovery.domain.pool import Registration
from global_discovery.relay.settings import RelaySettings

CLUSTER_VARIABLE = "DYN_CLUSTER_ID"
POD_VARIABLE = "POD_UID"
DEFAULT_LISTEN = "0.0.0.0:8082"
_QUERY = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")
"""What may stand in a query (RFC 3986, 3.4)."""
_FLAG_OF_FIELD = {
    "cluster_id": "--cluster-id",
    "namespace": "--pool",
    "dgd_name": "--pool",
    "model": "--model",
    "location.region": "--region",
    "location.availability_zone": "--availability-zone",
    "location.datacenter": "--datacenter",
    "capabilities": "--capability",
    "capacity": "--capacity",
    "frontends": "--frontend",
}


class _Pool(NamedTuple):
    namespace: str
    dgd_name: str


def add_parser(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Adds the command to those of the program."""
    parser = subparsers.add_parser(
        "relay",
        help="keep a model server's pool registered",
        description="Watches a model server and keeps its pool registered, until SIGTERM or "
        "SIGINT; a second signal ends it at once.",
        usage="%(prog)s [flags]",
    )
    pool = parser.add_argument_group("the pool")
    _add_identity(pool)
    _add_content(pool)
    _add_model_server(parser.add_argument_group("the model server"))
    relay = parser.add_argument_group("the relay")
    _add_relay(relay)
    add_tls(parser.add_argument_group("TLS"))
    _add_log(relay)


def _add_identity(group: "argparse._ArgumentGroup") -> None:
    add = group.add_argument
    add(
        "--cluster-id",
        metavar="CLUSTER",
        type=nonempty_text,
        help=f"the cluster that it runs in; required [environment: {CLUSTER_VARIABLE}]",
    )
    add(
        "--pool",
        "--routing-pool",
        metavar="NAMESPACE/NAME",
        required=True,
        type=_pool,
        help="its namespace and deployment name; the cluster is told by --cluster-id "
        "(to `register`, --pool names all three)",
    )
    add(
        "--region",
        "--routing-pool-region",
        metavar="REGION",
        required=True,
        type=nonempty_text,
        help="where it runs",
    )
    add("--availability-zone", metavar="ZONE", type=nonempty_text, help="where in the region")
    add("--datacenter", metavar="NAME", type=nonempty_text, help="in which datacenter")


def _add_content(group: "argparse._ArgumentGroup") -> None:
    add = group.add_argument
    frontends: dict[str, Any] = {"metavar": "URL", "dest": "frontends", "default": []}
    add(
        "--frontend",
        action="append",
        type=_url,
        help="one of its HTTP servers; may be given several times",
        **frontends,
    )
    add(
        "--routing-pool-frontends",
        action="extend",
        type=_urls,
        help="the same, several between commas",
        **frontends,
    )
    add(
        "--capability",
        metavar="NAME",
        action="append",
        default=[],
        type=nonempty_text,
        help="something that it can do; may be given several times",
    )
    add(
        "--capacity",
        metavar="SKU=COUNT",
        action="append",
        default=[],
        type=capacity,
        help="accelerators of one kind; may be given several times",
    )


def _add_model_server(group: "argparse._ArgumentGroup") -> None:
    add = group.add_argument
    add(
        "--openai-url",
        metavar="URL",
        type=_openai_url,
        help="its URL, with or without /v1 at the end [default: the first frontend]",
    )
    add(
        "--health-url",
        metavar="URL",
        type=_health_url,
        help="answers 2xx while its models are ready [default: <openai-url>/health]",
    )
    add(
        "--model",
        metavar="MODEL",
        type=nonempty_text,
        help="the model that it serves [default: asked of /v1/models]",
    )


def _add_relay(group: "argparse._ArgumentGroup") -> None:
    add = group.add_argument
    add(
        "--server",
        metavar="SERVER",
        action="append",
        type=_server,
        help="a server of Global Discovery: host:port for gRPC, an http:// or https:// URL for "
        "REST; given several times, the next one is used when one is away "
        f"[default: {DEFAULT_SERVER}; environment: {SERVER_VARIABLE}, several between commas]",
    )
    add(
        "--relay-id",
        metavar="ID",
        type=nonempty_text,
        help="must differ between the relays of one pool and stay the same when one restarts "
        f"[default: the host name; environment: {POD_VARIABLE}]",
    )
    add(
        "--withdraw-on-exit",
        action="store_true",
        help="withdraw the pool on exit also while its health URL answers",
    )
    add(
        "--listen",
        metavar="HOST:PORT",
        type=_listen,
        default=DEFAULT_LISTEN,
        help="where /health and /metrics are served; port 0 is a free one [default: %(default)s]",
    )


def _add_log(group: "argparse._ArgumentGroup") -> None:
    add = group.add_argument
    add(
        "--log-format",
        choices=("json", "console"),
        help="how log lines are written to stderr [default: console on a terminal, else json]",
    )
    add(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="the least level that is logged [default: %(default)s]",
    )


def run(args: argparse.Namespace) -> int:
    """Relays until a signal; the exit status. Raises NotInstalled."""
    try:
        settings = _settings(args)
    except Misused as misuse:
        sys.stderr.write(f"global-discovery relay: {misuse}\n")
        return MISUSED
    signals = StopSignals()
    with needs("relay"):
        from global_discovery.relay import process  # noqa: PLC0415 - see the module's docstring
    return process.run(settings, signals.wait, log_format=args.log_format, log_level=args.log_level)


def _settings(args: argparse.Namespace) -> RelaySettings:
    """Raises Misused."""
    relay_id, told_by = _relay_id(args)
    registration = _registration(args, relay_id, told_by)
    content = registration.content
    openai_url = args.openai_url or next(map(_without_v1, args.frontends), None)
    if openai_url is None:
        raise Misused("--openai-url is required where there is no --frontend")
    servers, tls = tuple(args.server or _default_servers()), tls_of(args)
    try:
        ClientTls.of(tls, servers)
    except TokenInPlainText as refusal:
        raise Misused(f"--token-path: {refusal}") from None
    return RelaySettings(
        pool=registration.key,
        location=content.location,
        servers=servers,
        tls=tls,
        relay_id=relay_id,
        openai_url=openai_url,
        health_url=args.health_url or f"{openai_url}/health",
        model=args.model,
        frontends=content.frontends,
        capabilities=content.capabilities,
        capacity=content.capacity,
        withdraw_on_exit=args.withdraw_on_exit,
        listen_host=args.listen.host,
        listen_port=args.listen.port,
    )


def _relay_id(args: argparse.Namespace) -> tuple[str, str]:
    """The id, and what it was told by."""
    if args.relay_id:
        return args.relay_id, "--relay-id"
    if told := os.environ.get(POD_VARIABLE):
        return told, POD_VARIABLE
    return socket.gethostname(), "the host name, which is used without --relay-id,"


def _registration(args: argparse.Namespace, relay_id: str, told_by: str) -> Registration:
    """What will be registered, held to every rule now. Raises Misused."""
    cluster_id = args.cluster_id
    if cluster_id is None:
        cluster_id = os.environ.get(CLUSTER_VARIABLE)
        if not cluster_id:
            what = "must not be empty" if cluster_id == "" else "is required"
            raise Misused(f"--cluster-id (or {CLUSTER_VARIABLE}) {what}")
    raw = rules.RawRegistration(
        cluster_id=cluster_id,
        namespace=args.pool.namespace,
        dgd_name=args.pool.dgd_name,
        # Without --model the name comes later, from the model server.
        model=args.model or "to-be-asked",
        region=args.region,
        availability_zone=args.availability_zone or "",
        datacenter=args.datacenter or "",
        capabilities=args.capability,
        capacity=args.capacity,
        frontends=args.frontends,
    )
    try:
        return rules.check_registration(raw, relay_id=relay_id)
    except InvalidInput as error:
        field, message = error.violations[0]
        named = field.partition("[")[0]
        source = {**_FLAG_OF_FIELD, "relay_id": told_by}.get(named, named)
        raise Misused(f"{source} {message}") from None


def _default_servers() -> list[str]:
    variable = os.environ.get(SERVER_VARIABLE)
    if variable is None:
        return [DEFAULT_SERVER]
    try:
        return [_server(part.strip()) for part in variable.split(",")]
    except argparse.ArgumentTypeError as problem:
        raise Misused(f"{SERVER_VARIABLE}: {problem}") from None


def _server(text: str) -> str:
    return _url(text) if "://" in text else server(text)


def _url(text: str) -> str:
    try:
        return frontend_url.normalize(nonempty_text(text))
    except frontend_url.BadUrl as problem:
        raise argparse.ArgumentTypeError(f"{shown(text)} {problem}") from None


def _health_url(text: str) -> str:
    """As it was given, query included: to some servers a trailing `/` means something."""
    url, _, query = text.partition("?")
    _url(url)
    if _QUERY.fullmatch(query) is None:
        raise argparse.ArgumentTypeError(f"{shown(text)} has a query that is none")
    return text


def _openai_url(text: str) -> str:
    """Without `/v1` at its end, which clients of such servers have in their base URL."""
    return _without_v1(_url(text))


def _without_v1(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.removesuffix('/v1')}"


def _urls(text: str) -> list[str]:
    return [_url(part.strip()) for part in text.split(",")]


def _listen(text: str) -> Any:
    try:
        return address(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(f"{shown(text)} {problem}") from None


def _pool(text: str) -> _Pool:
    namespace, slash, dgd_name = nonempty_text(text).partition("/")
    if not (slash and namespace and dgd_name) or "/" in dgd_name:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not of the form namespace/name")
    return _Pool(namespace, dgd_name)
