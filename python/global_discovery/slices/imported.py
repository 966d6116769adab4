"""What the imported slices of one pool say of it."""

from dataclasses import dataclass

from global_discovery.domain.pool import PoolKey


@dataclass(frozen=True, slots=True)
class ImportedPool:
    """One side of a pool: what the Kubernetes side shows under a key.

    It is there as soon as any slice of either Service of the pool is; without
    relays it is not shown Ready, and is no pool by itself.
    """

    key: PoolKey
    relays: tuple[str, ...] = ()
    """`ip:<address>` of each Ready Pool Relay, sorted."""
    frontends: tuple[str, ...] = ()
    """URLs of the Ready frontends, sorted; at most 1,024."""
    frontend_slices: int = 0
    """How many imported slices the frontend Service has."""
    frontend_port_seen: bool = False
    """Whether any of them has the port that frontends are expected on."""
