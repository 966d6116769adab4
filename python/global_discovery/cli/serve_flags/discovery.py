"""The flags of the values of `--pool-discovery`: where pools and routers come from."""

from global_discovery.cli.flags import Flag, Heading
from global_discovery.cli.serve_flags.general import POOL_DISCOVERY
from global_discovery.cli.values import kubeconfig, label, name_suffix, on_or_off, router

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
"""All three are set, or none."""
