"""Why a pool is listed, or is not: one value, for every face that answers that question.

A `Finding` is a fixed code, what was seen, and what to do about it; the advice
of each code stands here and nowhere else. One finding is the verdict: it alone
decides whether the pool is listed. Every collection in an explanation is bounded
by whoever fills it, and a lease id stands in none of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from global_discovery.domain.change import Departure
from global_discovery.domain.completeness import Mark
from global_discovery.domain.pool import Pool, PoolKey

MayRead = Callable[[PoolKey], bool]
"""Whether the caller may know that a pool of this key exists."""


def everything(key: PoolKey) -> bool:
    """The predicate of a caller who may read every pool."""
    del key
    return True


class Code(Enum):
    """What was found of a pool. The values are the fixed codes of every face."""

    LISTED = "LISTED"
    NOT_REGISTERED = "NOT_REGISTERED"
    LAPSED = "LAPSED"
    WITHDRAWN = "WITHDRAWN"
    SOURCE_UNSYNCED = "SOURCE_UNSYNCED"
    NAMESPACE_NOT_WATCHED = "NAMESPACE_NOT_WATCHED"
    NOT_IMPORTED = "NOT_IMPORTED"
    RELAYS_NOT_IMPORTED = "RELAYS_NOT_IMPORTED"
    NO_READY_RELAY = "NO_READY_RELAY"
    FRONTENDS_NOT_IMPORTED = "FRONTENDS_NOT_IMPORTED"
    FRONTEND_PORT_MISSING = "FRONTEND_PORT_MISSING"
    NO_READY_FRONTEND = "NO_READY_FRONTEND"
    NO_FRONTENDS_REGISTERED = "NO_FRONTENDS_REGISTERED"
    ONE_SIDED = "ONE_SIDED"
    DAMPED = "DAMPED"
    RELAYS_DISAGREE = "RELAYS_DISAGREE"
    RELAY_ID_NEEDED = "RELAY_ID_NEEDED"
    HEARTBEAT_OVERDUE = "HEARTBEAT_OVERDUE"
    LEASE_EXTENDED = "LEASE_EXTENDED"
    SLICE_REFUSED = "SLICE_REFUSED"
    SLICE_DAMAGED = "SLICE_DAMAGED"
    TOO_MANY_ENDPOINTS = "TOO_MANY_ENDPOINTS"
    POD_IN_TWO_CLUSTERS = "POD_IN_TWO_CLUSTERS"
    STORE_FAILING = "STORE_FAILING"
    VIEW_ESTIMATED = "VIEW_ESTIMATED"


ADVICE: dict[Code, str] = {
    Code.LISTED: "Nothing needs to be done.",
    Code.NOT_REGISTERED: (
        "Look at the relay: does it run, does it call this service, and is it refused? Compare "
        "cluster_id, namespace and dgd_name; with the memory store ask the instance it calls."
    ),
    Code.LAPSED: (
        "Look at the relay: is it alive, does it reach this service, and do its heartbeats fail? "
        "With the memory store all of them must go to one instance."
    ),
    Code.WITHDRAWN: (
        "Nothing, if the shutdown was planned; else find out who called, and have the relay "
        "register again without the withdrawn lease_id."
    ),
    Code.SOURCE_UNSYNCED: (
        "Wait until the watch on the Kubernetes API is in sync; if it does not come to that, the "
        "log event watch_failing says why."
    ),
    Code.NAMESPACE_NOT_WATCHED: "Add the pool's namespace to --watch-namespace, or drop that flag.",
    Code.NOT_IMPORTED: (
        "Export the relay Service in the pool's cluster, and check that cluster_id is that "
        "cluster's name in MCS (Karmada: the member's name) and that the names match."
    ),
    Code.RELAYS_NOT_IMPORTED: (
        "Export the relay Service too, under the name that --pool-relay-suffix asks for."
    ),
    Code.NO_READY_RELAY: (
        "Look at the readiness of the Pool Relay's pod in the pool's cluster; if it is Ready "
        "there, the import is stale."
    ),
    Code.FRONTENDS_NOT_IMPORTED: (
        "Export the frontend Service, under the name that --frontend-suffix asks for."
    ),
    Code.FRONTEND_PORT_MISSING: (
        "Give the frontend Service a TCP port of the name that --frontend-port-name asks for."
    ),
    Code.NO_READY_FRONTEND: "Look at the readiness of the frontend pods in the pool's cluster.",
    Code.NO_FRONTENDS_REGISTERED: "Have the relay register the URLs of the pool's frontends.",
    Code.ONE_SIDED: "Mend the side that does not show it; the other findings say what it lacks.",
    Code.DAMPED: "Wait ten seconds; then the pool shows what its slices show.",
    Code.RELAYS_DISAGREE: "Have all relays of the pool register the same content.",
    Code.RELAY_ID_NEEDED: "Give each relay of the pool a relay_id of its own.",
    Code.HEARTBEAT_OVERDUE: (
        "Look at the relay and at the network: if nothing is heard the lease ends soon."
    ),
    Code.LEASE_EXTENDED: (
        "Look at the relay: it has not renewed since this service could listen again."
    ),
    Code.SLICE_REFUSED: (
        "Look up the reason in the table of refusals of the documentation on Kubernetes."
    ),
    Code.SLICE_DAMAGED: "Look at the slice: some of its endpoints have no usable address.",
    Code.TOO_MANY_ENDPOINTS: "Split the deployment: only the first ones are listed.",
    Code.POD_IN_TWO_CLUSTERS: (
        "Find out which of both is a copy: the implementation of MCS imports what it exported."
    ),
    Code.STORE_FAILING: "See the log event store_failing.",
    Code.VIEW_ESTIMATED: (
        "Wait until the view is exact before concluding anything from what is missing."
    ),
}
"""What to do about each, in one sentence or two."""


class Finding(NamedTuple):
    """One thing that is so, fit for a person."""

    code: Code
    detail: str
    """What was seen, in one sentence without a full stop."""

    @property
    def advice(self) -> str:
        """What to do about it."""
        return ADVICE[self.code]


class IdentityKind(Enum):
    """By what a share is told from the others of its pool."""

    RELAY_ID = "relay_id"
    RELAYS = "relays"
    ADDRESS = "address"


class Who(NamedTuple):
    """The relay that holds or held a share."""

    kind: IdentityKind
    name: str
    """The relay_id or the address; empty where `relays` are what tells it apart."""
    relays: tuple[str, ...]
    """The first of the relays that it speaks for."""
    relay_count: int


@dataclass(frozen=True, slots=True)
class ShareState:
    """One live share. Durations are in seconds."""

    who: Who
    granted: float
    since_renewal: float | None
    """Since this process last heard or saw a renewal; None when it never did."""
    remaining: float
    """Until its lease ends at the earliest, with the extensions that are due to it."""
    extensions: int
    """How often the lease was, or will be, extended since the last renewal."""
    number: int
    """Which change of the pool's content its content is."""
    decides: bool
    """Whether its content is the listed one."""
    model: str
    relay_id_needed: bool


class Ending(Enum):
    """How a share ended."""

    LAPSED = "lapsed"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class EndedShare:
    """One share that ended of late."""

    who: Who
    ending: Ending
    departure: Departure
    """How the pool left, had this been its last share."""
    ago: float
    """Seconds."""
    caller: str
    """Who withdrew it; empty for one that lapsed."""


@dataclass(frozen=True, slots=True)
class RegistrationSide:
    """What the registrations know of a key."""

    shares: tuple[ShareState, ...] = ()
    """The live ones; the pool is registered while there is one."""
    ended: tuple[EndedShare, ...] = ()
    """The last ones to end that are still remembered, the newest first."""
    disagreeing: bool = False


class SliceState(NamedTuple):
    """One imported EndpointSlice."""

    name: str
    """`<namespace>/<name>`."""
    family: str
    endpoints: int
    ready: int
    ports: tuple[str, ...]
    """`<name>:<number>/<protocol>` of its first ports."""


@dataclass(frozen=True, slots=True)
class ServiceState:
    """One of the two Services of a pool, as it is imported."""

    name: str
    """`<namespace>/<name>`, whether or not it is imported."""
    slice_count: int = 0
    slices: tuple[SliceState, ...] = ()
    """The first of them, sorted by name."""
    endpoints: int = 0
    """Told apart, in the address family that counts; of a frontend Service behind the port."""
    ready: int = 0
    port_seen: bool = False
    """Whether any slice has the port that is asked for; of a relay Service none is."""


class RefusedSlice(NamedTuple):
    """An imported slice that names a Service of the pool and is not read."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class SlicesSide:
    """What the Kubernetes side knows of a key."""

    in_sync: bool
    watched: bool
    """Whether the namespace is one whose slices are asked for."""
    relays: ServiceState
    frontends: ServiceState
    port_name: str
    refused: tuple[RefusedSlice, ...] = ()
    notices: tuple[Finding, ...] = ()
    """What is odd about the slices."""


class NearMissKind(Enum):
    """How a key or a Service resembles the key that was asked for. The most telling first."""

    OTHER_CLUSTER = "OTHER_CLUSTER"
    """The same namespace and name in another cluster."""
    NAME_WITH_SUFFIX = "NAME_WITH_SUFFIX"
    """One of both names has the suffix of a Service."""
    OTHER_SUFFIX = "OTHER_SUFFIX"
    """An imported Service with the pool's name and a suffix that is not asked for."""
    OTHER_NAMESPACE = "OTHER_NAMESPACE"
    """The same cluster and name in another namespace."""
    SIMILAR_NAME = "SIMILAR_NAME"
    """The name is spelled a little differently."""


class NearMiss(NamedTuple):
    """Something that exists and is not what was asked for."""

    kind: NearMissKind
    key: PoolKey
    """Of the pool; with OTHER_SUFFIX cluster, namespace and name of the Service."""
    registered: bool
    imported: bool
    detail: str
    """What else was seen; may be empty."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole answer about one key."""

    key: PoolKey
    verdict: Finding
    findings: tuple[Finding, ...]
    """What else is missing or odd."""
    pool: Pool | None
    """As it is listed; None when it is not."""
    registration: RegistrationSide
    slices: SlicesSide | None
    """None where no slices are read."""
    near_misses: tuple[NearMiss, ...]
    near_misses_cut: bool
    """Whether there is more to be looked at than was."""
    mark: Mark

    @property
    def listed(self) -> bool:
        """Whether it is listed now."""
        return self.pool is not None
