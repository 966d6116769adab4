"""The client library, for relays and routers: needs nothing of the server.

* `PoolHeartbeat` keeps a pool registered;
* `PoolCache` has the pools at hand, for a router that must answer whatever happens;
* `watch_pools` follows what is listed, step by step;
* `list_pools` asks once;
* `TlsSettings` says how they all call over TLS.

Everything is asynchronous, and an object belongs to the event loop that uses it
first; it is not to be shared between loops or threads. What is not named here may
change with any release.
"""

from global_discovery.client.cache import PoolCache
from global_discovery.client.cache_state import CachedPool, CacheState
from global_discovery.client.errors import CallFailed
from global_discovery.client.heartbeat import PoolHeartbeat
from global_discovery.client.heartbeat_schedule import HeartbeatState
from global_discovery.client.lists import list_pools
from global_discovery.client.tls import TlsSettings
from global_discovery.client.watch import watch_pools

__all__ = [
    "CacheState",
    "CachedPool",
    "CallFailed",
    "HeartbeatState",
    "PoolCache",
    "PoolHeartbeat",
    "TlsSettings",
    "list_pools",
    "watch_pools",
]
