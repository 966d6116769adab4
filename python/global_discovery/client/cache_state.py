"""What a `PoolCache` tells: a pool with its standing, and how the cache stands."""

from collections.abc import Callable
from dataclasses import dataclass, field

from global_discovery.client.errors import CallFailed
from global_discovery.client.fold import PoolKey
from global_discovery.client.view_saver import SavedState
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2


@dataclass(frozen=True, slots=True)
class CachedPool:
    """One pool that may be used."""

    key: PoolKey
    pool: pool_pb2.Pool
    """As it was last told. Shared: do not change it."""
    carried: bool
    """Whether no server lists it at present; it may be gone, and nobody knows."""
    listed_until: float | None
    """When a carried pool was last known to be listed, on the cache's clock."""
    _now: Callable[[], float] = field(repr=False, compare=False)

    @property
    def age_seconds(self) -> float:
        """For how long a carried pool has not been known to be listed; 0 for a listed one."""
        return 0.0 if self.listed_until is None else max(0.0, self._now() - self.listed_until)


@dataclass(frozen=True, slots=True)
class CacheState:
    """How a cache stands."""

    server: str
    """The server that is followed, or was, or is tried first."""
    connected: bool
    """Whether its stream lives; while not, everything is as it was last known."""
    info: pb.ServerInfo | None
    """Who serves, as it said itself; None while not connected."""
    synced: bool
    """Whether any server has told its view since the cache was started."""
    mark: pool_pb2.Mark | None
    """The last one told, by whatever server; None before the first."""
    exact: bool
    """Whether the view is exact and alive: what is not offered does not exist."""
    listed: int
    """How many pools the newest view lists."""
    carried: int
    """How many are offered besides."""
    heard_seconds_ago: float | None
    """Since the last news of a server; None before the first."""
    oldest_carried_seconds: float | None
    """The age of the pool that has been carried longest; None when none is carried."""
    last_error: CallFailed | None
    """Why the connection was last lost; stays when it is restored."""
    causes: tuple[str, ...]
    """The last error and everything that led to it, outermost first."""
    saved: SavedState | None
    """How the file of the view stands; None without one."""
