"""The client library, for relays and routers: needs the protocol and gRPC, nothing of the server.

* `PoolHeartbeat` keeps a pool registered;
* `watch_pools`, `watch_routers` follow what is listed, for ever;
* `list_pools`, `list_routers` ask once;
* `PoolFold` is what a watch keeps, for those who call WatchPools themselves.

Everything is asynchronous, and an object belongs to the event loop that uses it
first; it is not to be shared between loops or threads.
"""

from global_discovery.client.errors import CallFailed, ErrorDetails, FieldViolation, causes
from global_discovery.client.fold import (
    Carried,
    Fold,
    PoolFold,
    PoolKey,
    RouterFold,
    Update,
    is_exact,
)
from global_discovery.client.heartbeat import PoolHeartbeat
from global_discovery.client.heartbeat_schedule import HeartbeatState, HeldLease
from global_discovery.client.lists import Listing, list_pools, list_routers
from global_discovery.client.timing import Timer
from global_discovery.client.watch import (
    Connection,
    Watch,
    WatchState,
    watch_pools,
    watch_routers,
)

__all__ = [
    "CallFailed",
    "Carried",
    "Connection",
    "ErrorDetails",
    "FieldViolation",
    "Fold",
    "HeartbeatState",
    "HeldLease",
    "Listing",
    "PoolFold",
    "PoolHeartbeat",
    "PoolKey",
    "RouterFold",
    "Timer",
    "Update",
    "Watch",
    "WatchState",
    "causes",
    "is_exact",
    "list_pools",
    "list_routers",
    "watch_pools",
    "watch_routers",
]
