"""The flags of `global-discovery serve`: the table, and the rules between its rows.

A new flag joins as a row, here and in docs/flags.md, under the heading of the
mode or store that uses it.
"""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path

from global_discovery.cli.flags import Flag, FlagTable, Heading, Refused, Values
from global_discovery.cli.values import (
    address,
    endpoint_url,
    file_path,
    kubeconfig,
    label,
    name_suffix,
    network,
    on_or_off,
    one_of,
    region_name,
    router,
    table_name,
    whole_seconds,
)
from global_discovery.domain.lease import LeaseTerms
from global_discovery.pem import BadTlsFile
from global_discovery.serving.tls.files import TlsPaths, load

MAX_LEASE_SECONDS = 86_400
MAX_SLOW_WATCHER_SECONDS = 3_600
MAX_REFRESH_SECONDS = 60
_DEFAULTS = LeaseTerms()

ALWAYS = Heading("every mode and store")

LISTEN = Flag(
    "--listen",
    "HOST:PORT",
    address,
    "Where REST is served. ':8080' is every interface, port 0 a free port.",
    ALWAYS,
    default="0.0.0.0:8080",
)
GRPC_LISTEN = Flag(
    "--grpc-listen", "HOST:PORT", address, "Where gRPC is served.", ALWAYS, default="0.0.0.0:50051"
)
HEALTH_LISTEN = Flag(
    "--health-listen",
    "HOST:PORT",
    address,
    "Where /livez, /readyz, /healthz and /metrics are served, in plain HTTP.",
    ALWAYS,
    otherwise="on --listen",
)
TLS_CERT = Flag(
    "--tls-cert-path",
    "PATH",
    file_path,
    "The server's certificate and the intermediate ones, in PEM: TLS for REST and gRPC.",
    ALWAYS,
)
TLS_KEY = Flag("--tls-key-path", "PATH", file_path, "Its private key, in PEM.", ALWAYS)
TLS_CLIENT_CA = Flag(
    "--tls-client-ca-path",
    "PATH",
    file_path,
    "The CAs, in PEM, of which callers must show a certificate.",
    ALWAYS,
)
POOL_DISCOVERY = Flag(
    "--pool-discovery",
    "MODE",
    one_of("registrations", "karmada", "mcs"),
    "Where the list of pools comes from: registrations, karmada or mcs.",
    ALWAYS,
    default="registrations",
)
STORAGE = Flag(
    "--registration-storage",
    "STORE",
    one_of("memory", "sqlite", "dynamodb"),
    "Where registrations are kept: memory, sqlite or dynamodb.",
    ALWAYS,
    default="memory",
)
HEARTBEAT = Flag(
    "--heartbeat-interval-secs",
    "SECONDS",
    whole_seconds(1, MAX_LEASE_SECONDS // 3),
    "How often a relay renews its lease; at most a third of the lease.",
    ALWAYS,
    default=str(_DEFAULTS.heartbeat_interval),
)
LEASE = Flag(
    "--lease-duration-secs",
    "SECONDS",
    whole_seconds(1, MAX_LEASE_SECONDS),
    "How long a pool is listed without a renewal.",
    ALWAYS,
    default=str(_DEFAULTS.lease_duration),
)
TRUSTED_PROXY = Flag(
    "--trusted-proxy",
    "CIDR",
    network,
    "A network whose X-Forwarded-For is believed.",
    ALWAYS,
    otherwise="none",
    repeatable=True,
)
MASS_LAPSE_PROTECTION = Flag(
    "--mass-lapse-protection",
    "on|off",
    on_or_off,
    "Whether pools that lapse together with most others are unlisted instead of removed.",
    ALWAYS,
    default="on",
)
SLOW_WATCHER = Flag(
    "--slow-watcher-secs",
    "SECONDS",
    whole_seconds(1, MAX_SLOW_WATCHER_SECONDS),
    "How long one write to a watcher may take before its stream is ended.",
    ALWAYS,
    default="30",
)
LOG_FORMAT = Flag(
    "--log-format",
    "json|console",
    one_of("json", "console"),
    "How log lines are written to stderr.",
    ALWAYS,
    otherwise="console on a terminal, else json",
)
LOG_LEVEL = Flag(
    "--log-level",
    "LEVEL",
    one_of("debug", "info", "warning", "error"),
    "The least level that is logged: debug, info, warning or error.",
    ALWAYS,
    default="info",
)
ROUTER = Flag(
    "--router",
    "ID=URL",
    router,
    "A Global Router to list.",
    Heading("with registrations", POOL_DISCOVERY, frozenset({"registrations"})),
    otherwise="none",
    repeatable=True,
)
IMPORTED = Heading("with karmada or mcs", POOL_DISCOVERY, frozenset({"karmada", "mcs"}))
POOL_RELAY_SUFFIX = Flag(
    "--pool-relay-suffix",
    "TEXT",
    name_suffix,
    "What follows dgd_name in the name of the Service of its Pool Relays.",
    IMPORTED,
    default="-pool-relay",
)
FRONTEND_SUFFIX = Flag(
    "--frontend-suffix",
    "TEXT",
    name_suffix,
    "What follows dgd_name in the name of the Service of its frontends.",
    IMPORTED,
    default="-frontend",
)
FRONTEND_PORT_NAME = Flag(
    "--frontend-port-name",
    "NAME",
    label,
    "The name of the frontends' port.",
    IMPORTED,
    default="http",
)
ROUTER_NAMESPACE = Flag(
    "--router-namespace",
    "NAME",
    label,
    "The namespace of the Service of the Global Routers; needs the other two router flags.",
    IMPORTED,
    otherwise="no routers are listed",
)
ROUTER_SERVICE = Flag(
    "--router-service",
    "NAME",
    label,
    "The name of the Service of the Global Routers.",
    IMPORTED,
    otherwise="no routers are listed",
)
ROUTER_PORT_NAME = Flag(
    "--router-port-name",
    "NAME",
    label,
    "The name of the routers' port.",
    IMPORTED,
    otherwise="no routers are listed",
)
KUBECONFIG = Flag(
    "--kubeconfig",
    "PATH",
    kubeconfig,
    "How the Kubernetes API server is reached.",
    IMPORTED,
    otherwise="that of KUBECONFIG, else the service account of the pod",
)
KUBERNETES_STRICT_X509 = Flag(
    "--kubernetes-strict-x509",
    "on|off",
    on_or_off,
    "Whether Python 3.13 and newer refuse an API server's certificate without the extensions "
    "of RFC 5280.",
    IMPORTED,
    default="on",
)
WATCH_NAMESPACE = Flag(
    "--watch-namespace",
    "NAME",
    label,
    "A namespace in which slices are watched, where watching all is not permitted.",
    IMPORTED,
    otherwise="all",
    repeatable=True,
)
ROUTER_FLAGS = (ROUTER_NAMESPACE, ROUTER_SERVICE, ROUTER_PORT_NAME)
_WITH_SQLITE = Heading("with sqlite", STORAGE, frozenset({"sqlite"}))
SQLITE_PATH = Flag(
    "--sqlite-path",
    "PATH",
    file_path,
    "The file in which registrations are kept; made when it is not there.",
    _WITH_SQLITE,
    otherwise="none, it must be set",
)
_WITH_DYNAMODB = Heading("with dynamodb", STORAGE, frozenset({"dynamodb"}))
DYNAMODB_TABLE = Flag(
    "--dynamodb-table",
    "NAME",
    table_name,
    "The table in which registrations are kept.",
    _WITH_DYNAMODB,
    otherwise="none, it must be set",
)
DYNAMODB_REGION = Flag(
    "--dynamodb-region",
    "REGION",
    region_name,
    "The AWS region of the table.",
    _WITH_DYNAMODB,
    otherwise="as AWS's own configuration says",
)
DYNAMODB_ENDPOINT_URL = Flag(
    "--dynamodb-endpoint-url",
    "URL",
    endpoint_url,
    "Where DynamoDB is, if not where AWS has it.",
    _WITH_DYNAMODB,
    otherwise="AWS's own",
)
DYNAMODB_REFRESH = Flag(
    "--dynamodb-refresh-secs",
    "SECONDS",
    whole_seconds(1, MAX_REFRESH_SECONDS),
    "How often the table is read.",
    _WITH_DYNAMODB,
    default="1",
)

FLAGS = FlagTable(
    [
        LISTEN,
        GRPC_LISTEN,
        HEALTH_LISTEN,
        TLS_CERT,
        TLS_KEY,
        TLS_CLIENT_CA,
        POOL_DISCOVERY,
        STORAGE,
        HEARTBEAT,
        LEASE,
        TRUSTED_PROXY,
        MASS_LAPSE_PROTECTION,
        SLOW_WATCHER,
        LOG_FORMAT,
        LOG_LEVEL,
        ROUTER,
        POOL_RELAY_SUFFIX,
        FRONTEND_SUFFIX,
        FRONTEND_PORT_NAME,
        *ROUTER_FLAGS,
        KUBECONFIG,
        KUBERNETES_STRICT_X509,
        WATCH_NAMESPACE,
        SQLITE_PATH,
        DYNAMODB_TABLE,
        DYNAMODB_REGION,
        DYNAMODB_ENDPOINT_URL,
        DYNAMODB_REFRESH,
    ]
)


def read_values(args: argparse.Namespace, environ: Mapping[str, str]) -> Values:
    """What the flags and variables say. Raises Refused."""
    values = FLAGS.read(args, environ)
    _refuse_store_without_place(values)
    _refuse_short_lease(values)
    _refuse_doubled_routers(values)
    _refuse_shared_ports(values)
    _refuse_ambiguous_suffixes(values)
    _refuse_half_a_router_service(values)
    _refuse_bad_tls_files(values)
    return values


def _refuse_store_without_place(values: Values) -> None:
    for store, place in (("sqlite", SQLITE_PATH), ("dynamodb", DYNAMODB_TABLE)):
        if values[STORAGE] == store and not values.is_set(place):
            raise Refused(f"{values.source(STORAGE)} {store} needs {place.name}")


def tls_paths(values: Values) -> TlsPaths | None:
    """What TLS is served with, if it is. Raises Refused when a part of it is missing."""
    if values.is_set(TLS_CLIENT_CA):
        _refuse_missing(values, TLS_CLIENT_CA, TLS_CERT)
    _refuse_missing(values, TLS_CERT, TLS_KEY)
    _refuse_missing(values, TLS_KEY, TLS_CERT)
    cert, key = values.get(TLS_CERT), values.get(TLS_KEY)
    if cert is None or key is None:
        return None
    return TlsPaths(cert, key, values.get(TLS_CLIENT_CA))


def _refuse_short_lease(values: Values) -> None:
    heartbeat, lease = values[HEARTBEAT], values[LEASE]
    if 3 * heartbeat > lease:
        raise Refused(
            f"{values.source(HEARTBEAT)} {heartbeat}: is more than a third of "
            f"{values.source(LEASE)} {lease}"
        )


def _refuse_doubled_routers(values: Values) -> None:
    seen = set()
    for found in values.all(ROUTER):
        if found.id in seen:
            raise Refused(f"{values.source(ROUTER)}: the id {found.id!a} is there twice")
        seen.add(found.id)


def _refuse_shared_ports(values: Values) -> None:
    taken = {values[LISTEN]: LISTEN}
    for flag in (GRPC_LISTEN, HEALTH_LISTEN):
        wanted = values.get(flag)
        if wanted is None or not wanted.port:
            continue
        if wanted in taken:
            raise Refused(f"{values.source(flag)} {wanted}: is {values.source(taken[wanted])} too")
        taken[wanted] = flag


def _refuse_ambiguous_suffixes(values: Values) -> None:
    """A Service whose name ends in both could be of two pools."""
    suffixes = {flag: values[flag] for flag in (POOL_RELAY_SUFFIX, FRONTEND_SUFFIX)}
    for flag, other in ((POOL_RELAY_SUFFIX, FRONTEND_SUFFIX), (FRONTEND_SUFFIX, POOL_RELAY_SUFFIX)):
        if suffixes[flag].endswith(suffixes[other]):
            raise Refused(
                f"{values.source(flag)} {suffixes[flag]!a}: ends in "
                f"{values.source(other)} {suffixes[other]!a}"
            )


def _refuse_half_a_router_service(values: Values) -> None:
    given = [flag for flag in ROUTER_FLAGS if values.is_set(flag)]
    missing = [flag.name for flag in ROUTER_FLAGS if not values.is_set(flag)]
    if given and missing:
        raise Refused(f"{values.source(given[0])} needs {' and '.join(missing)} too")


def _refuse_missing(values: Values, flag: Flag[Path], needed: Flag[Path]) -> None:
    if values.is_set(flag) and not values.is_set(needed):
        raise Refused(f"{values.source(flag)} needs {needed.name}")


def _refuse_bad_tls_files(values: Values) -> None:
    paths = tls_paths(values)
    if paths is None:
        return
    try:
        load(paths, now=time.time())
    except BadTlsFile as bad:
        flags = (TLS_CERT, TLS_KEY, TLS_CLIENT_CA)
        blamed = next(flag for flag in flags if values.get(flag) == bad.path)
        raise Refused(f"{values.source(blamed)} {str(bad.path)!a}: {bad.problem}") from None
