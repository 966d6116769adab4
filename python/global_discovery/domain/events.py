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
    NO_ROUTERS = "no_routers_configured"
    """No router is configured; the list of routers is empty and exact."""
    TLS_FILES_TAKEN = "tls_files_taken"
    """New handshakes are made with new files, or the files are again those in use."""
    TLS_FILES_REFUSED = "tls_files_refused"
    """The files of TLS cannot be used; those before them stay in use."""


Report = Callable[..., None]
"""Called as `report(Event.STALLED, seconds=7.2)`; must not raise and must not block."""


def ignore(event: Event, **fields: object) -> None:
    """Reports to nobody."""
