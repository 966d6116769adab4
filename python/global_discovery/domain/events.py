"""What is worth telling an operator, by name.

The rooms below `serving` report events and do not know what becomes of them;
`serving` turns each into one log line. The names are fixed and documented in
docs/operating.md.
"""

from collections.abc import Callable
from enum import Enum


class Event(Enum):
    """The names of the log lines about state, and what each means."""

    LISTENING = "listening"
    """The ports are open; no call is taken yet."""
    READY = "ready"
    """The store was read; calls are taken."""
    STOPPING = "stopping"
    """No more calls are taken; streams are ended, calls under way are finished."""
    STORE_NOT_CLOSED = "store_not_closed"
    """The store took too long to close and was left as it was."""
    STORE_READ = "store_read"
    """What the store had when it was opened."""
    STORE_FAILING = "store_failing"
    """The store fails to read or to write; said once, until it works again."""
    STORE_WORKS_AGAIN = "store_works_again"
    """It took everything that was missing in it."""
    REGION_SILENT = "region_silent"
    """No beacon of a region of the shared store was seen for two intervals."""
    REGION_HEARD = "region_heard"
    """It is heard again, or has left, or was silent for an hour."""
    STORED_ITEM_UNREADABLE = "stored_item_unreadable"
    """Something in the shared store lacks what every format has, and was passed over."""
    TABLE_WITHOUT_TTL = "table_without_ttl"
    """The table works, but nothing removes what is old."""
    POOL_REGISTERED = "pool_registered"
    """A pool entered the registrations."""
    POOL_WITHDRAWN = "pool_withdrawn"
    """The last share of a pool was withdrawn."""
    POOL_LAPSED = "pool_lapsed"
    """The last lease of a pool ended without a renewal."""
    POOLS_LAPSED = "pools_lapsed"
    """Many pools lapsed at once; told together."""
    ALL_SHARES_WITHDRAWN = "all_shares_withdrawn"
    """A caller ended every share of a pool."""
    RELAYS_DISAGREE = "relays_disagree"
    """Live relays of one pool register different content."""
    RELAY_ID_NEEDED = "relay_id_needed"
    """Callers that cannot be told apart alternate the content of one share."""
    STALLED = "stalled"
    """The process was stopped, suspended or blocked; leases are extended."""
    LEASES_EXTENDED = "leases_extended"
    """Leases were extended because the process could not listen."""
    MASS_LAPSE_BEGAN = "mass_lapse_began"
    """Most pools missed their heartbeats together; lapses are `unlisted` for two leases."""
    MASS_LAPSE_ENDED = "mass_lapse_ended"
    """The two leases are over."""
    SLOW_WATCHER_ENDED = "slow_watcher_ended"
    """A watcher did not read its stream for too long."""
    MARK_CHANGED = "mark_changed"
    """The mark of a view, or its reasons, changed."""
    POOL_ONE_SIDED = "pool_one_sided"
    """Only the imported slices, or only the registrations, have listed a pool for long."""
    POOL_WITHOUT_FRONTENDS = "pool_without_frontends"
    """A listed pool has no Ready frontend."""
    SLICE_REFUSED = "slice_refused"
    """An imported slice is not read; the reason says why."""
    SLICES_REFUSED = "slices_refused"
    """Many slices are not read; told together."""
    SLICE_DAMAGED = "slice_damaged"
    """A slice has endpoints that cannot be read; the others of it count."""
    FRONTEND_PORT_MISSING = "frontend_port_missing"
    """A frontend slice has endpoints, but not the port that frontends are expected on."""
    TOO_MANY_ENDPOINTS = "too_many_endpoints"
    """A pool has more Ready relays or frontends than are listed."""
    POD_IN_TWO_CLUSTERS = "pod_in_two_clusters"
    """One pod is in slices of two source clusters."""
    WATCH_FAILING = "watch_failing"
    """A list or watch of the Kubernetes API fails; said once until it changes or heals."""
    WATCH_RECOVERED = "watch_recovered"
    """The watch has been well for half a minute."""
    OBJECTS_UNREADABLE = "objects_unreadable"
    """Objects of the Kubernetes API are left out, because they cannot be decoded."""
    NO_ROUTERS = "no_routers_configured"
    """No router is configured; the list of routers is empty and exact."""


Report = Callable[..., None]
"""Called as `report(Event.STALLED, seconds=7.2)`; must not raise and must not block."""


def ignore(event: Event, **fields: object) -> None:
    """Reports to nobody."""
