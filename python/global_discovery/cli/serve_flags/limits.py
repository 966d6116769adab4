"""The flags of what callers may use: how much there may be in all, and of one caller."""

from global_discovery.cli.flags import Flag, Heading, Values
from global_discovery.cli.values import whole_number, whole_seconds
from global_discovery.serving.limits import ServiceLimits
from global_discovery.sources.registered.admission import RegistrationLimits

LIMITS = Heading("limits")
MANY = 10_000_000
LEAST_BODY_BYTES, MOST_BODY_BYTES = 128 * 1024, 16 * 1024 * 1024
LEAST_HEADER_BYTES, MOST_HEADER_BYTES = 4 * 1024, 64 * 1024
MOST_BYTES_PER_SECOND = 2**32
MAX_IDLE_SECONDS = 3_600


def _limit(name: str, help_: str, default: int, *, least: int = 1, most: int = MANY) -> Flag[int]:
    return Flag(name, "NUMBER", whole_number(least, most), help_, LIMITS, default=str(default))


_REGISTRATIONS = RegistrationLimits()
_SERVICE = ServiceLimits()
MAX_POOLS = _limit("--max-pools", "Registered pools.", _REGISTRATIONS.pools)
MAX_SHARES = _limit("--max-shares", "Live shares of all pools.", _REGISTRATIONS.shares)
MAX_NEW_SHARES = _limit(
    "--max-new-shares-per-second",
    "Shares that one caller may begin in a second.",
    _REGISTRATIONS.new_shares_per_second,
)
MAX_WATCHERS = _limit("--max-watchers", "Open watches.", _SERVICE.watchers)
MAX_WATCHERS_OF_ONE = _limit(
    "--max-watchers-per-caller", "Open watches of one caller.", _SERVICE.watchers_per_caller
)
MAX_FAILED_AUTHENTICATIONS = _limit(
    "--max-failed-authentications-per-second",
    "Calls of one caller in a second that may fail to prove who it is.",
    _SERVICE.failed_authentications_per_second,
)
MAX_BYTES_PER_SECOND = _limit(
    "--max-bytes-per-second",
    "Bytes of one caller's requests in a second, before large ones are refused.",
    _SERVICE.bytes_per_second,
    least=MOST_BODY_BYTES // 16,
    most=MOST_BYTES_PER_SECOND,
)
MAX_BODY_BYTES = _limit(
    "--max-body-bytes",
    "The largest body of a request, and message over gRPC.",
    _SERVICE.body_bytes,
    least=LEAST_BODY_BYTES,
    most=MOST_BODY_BYTES,
)
MAX_HEADER_BYTES = _limit(
    "--max-header-bytes",
    "The longest line of an HTTP request's head, and all metadata of a gRPC call.",
    _SERVICE.header_bytes,
    least=LEAST_HEADER_BYTES,
    most=MOST_HEADER_BYTES,
)
MAX_STREAMS = _limit(
    "--max-streams-per-connection",
    "Calls and watches at a time on one gRPC connection.",
    _SERVICE.streams_per_connection,
)
MAX_GRPC_CONNECTIONS = _limit(
    "--max-grpc-connections", "Open gRPC connections.", _SERVICE.grpc_connections
)
MAX_HTTP_CONNECTIONS = _limit(
    "--max-http-connections", "Open HTTP connections.", _SERVICE.http_connections
)
MAX_HTTP_CONNECTIONS_OF_ONE = _limit(
    "--max-http-connections-per-caller",
    "Open HTTP connections of one address.",
    _SERVICE.http_connections_per_caller,
)
HTTP_IDLE = Flag(
    "--http-idle-secs",
    "SECONDS",
    whole_seconds(1, MAX_IDLE_SECONDS),
    "How long an HTTP connection may wait for its next request.",
    LIMITS,
    default=str(_SERVICE.http_idle_seconds),
)

LIMIT_FLAGS = (
    MAX_POOLS,
    MAX_SHARES,
    MAX_NEW_SHARES,
    MAX_WATCHERS,
    MAX_WATCHERS_OF_ONE,
    MAX_FAILED_AUTHENTICATIONS,
    MAX_BYTES_PER_SECOND,
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    MAX_STREAMS,
    MAX_GRPC_CONNECTIONS,
    MAX_HTTP_CONNECTIONS,
    MAX_HTTP_CONNECTIONS_OF_ONE,
    HTTP_IDLE,
)


def limits_from(values: Values) -> ServiceLimits:
    """What the flags say."""
    return ServiceLimits(
        registrations=RegistrationLimits(
            pools=values[MAX_POOLS],
            shares=values[MAX_SHARES],
            new_shares_per_second=values[MAX_NEW_SHARES],
        ),
        watchers=values[MAX_WATCHERS],
        watchers_per_caller=values[MAX_WATCHERS_OF_ONE],
        bytes_per_second=values[MAX_BYTES_PER_SECOND],
        failed_authentications_per_second=values[MAX_FAILED_AUTHENTICATIONS],
        body_bytes=values[MAX_BODY_BYTES],
        header_bytes=values[MAX_HEADER_BYTES],
        streams_per_connection=values[MAX_STREAMS],
        grpc_connections=values[MAX_GRPC_CONNECTIONS],
        http_connections=values[MAX_HTTP_CONNECTIONS],
        http_connections_per_caller=values[MAX_HTTP_CONNECTIONS_OF_ONE],
        http_idle_seconds=values[HTTP_IDLE],
    )
