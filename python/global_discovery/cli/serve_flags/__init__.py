"""The flags of `global-discovery serve`: the whole table, and how it is read.

A new flag joins as a row: in the room of what uses it, in the table here, and in
docs/flags.md, under one heading in all three. `rules` has what must hold between
rows.
"""

import argparse
from collections.abc import Mapping

from global_discovery.cli.flags import FlagTable, Values
from global_discovery.cli.serve_flags import (
    access,
    discovery,
    general,
    limits,
    rules,
    stores,
    tls,
)

FLAGS = FlagTable(
    [
        general.LISTEN,
        general.GRPC_LISTEN,
        general.HEALTH_LISTEN,
        tls.TLS_CERT,
        tls.TLS_KEY,
        tls.TLS_CLIENT_CA,
        access.ANONYMOUS,
        access.POLICY,
        access.TOKEN_AUDIENCE,
        access.TOKEN_CLUSTER,
        access.TOKEN_ISSUER,
        general.POOL_DISCOVERY,
        general.STORAGE,
        general.HEARTBEAT,
        general.LEASE,
        general.TRUSTED_PROXY,
        general.MASS_LAPSE_PROTECTION,
        general.SLOW_WATCHER,
        general.LOG_FORMAT,
        general.LOG_LEVEL,
        general.TRACING,
        *limits.LIMIT_FLAGS,
        discovery.ROUTER,
        discovery.POOL_RELAY_SUFFIX,
        discovery.FRONTEND_SUFFIX,
        discovery.FRONTEND_PORT_NAME,
        *discovery.ROUTER_FLAGS,
        discovery.KUBECONFIG,
        discovery.KUBERNETES_STRICT_X509,
        discovery.WATCH_NAMESPACE,
        stores.SQLITE_PATH,
        stores.DYNAMODB_TABLE,
        stores.DYNAMODB_REGION,
        stores.DYNAMODB_ENDPOINT_URL,
        stores.DYNAMODB_REFRESH,
    ]
)


def read_values(args: argparse.Namespace, environ: Mapping[str, str]) -> Values:
    """What the flags and variables say. Raises Refused."""
    values = FLAGS.read(args, environ)
    rules.check(values)
    return values
