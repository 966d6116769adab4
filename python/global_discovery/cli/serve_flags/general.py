"""The flags of every mode and store, but those of TLS."""

from global_discovery.cli.flags import Flag, Heading
from global_discovery.cli.values import address, network, on_or_off, one_of, whole_seconds
from global_discovery.domain.lease import LeaseTerms

MAX_LEASE_SECONDS = 86_400
MAX_SLOW_WATCHER_SECONDS = 3_600
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
TRACING = Flag(
    "--tracing",
    "on|off",
    on_or_off,
    "Whether calls are traced; where spans go is said by OTEL_* variables. Needs the extra otel.",
    ALWAYS,
    default="off",
)
LOG_LEVEL = Flag(
    "--log-level",
    "LEVEL",
    one_of("debug", "info", "warning", "error"),
    "The least level that is logged: debug, info, warning or error.",
    ALWAYS,
    default="info",
)
