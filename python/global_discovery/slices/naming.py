"""How the Services of a pool are named, and which port of them counts."""

from dataclasses import dataclass

from global_discovery.domain.pool import PoolKey
from global_discovery.slices.recognise import Service


@dataclass(frozen=True, slots=True)
class Naming:
    """The Service of the relays, that of the frontends, and the frontends' port."""

    relay_suffix: str = "-pool-relay"
    frontend_suffix: str = "-frontend"
    frontend_port: str = "http"

    def __post_init__(self) -> None:
        """Raises ValueError where a Service could be of two pools."""
        suffixes = self.relay_suffix, self.frontend_suffix
        if not all(suffixes):
            raise ValueError("a suffix must not be empty")
        if suffixes[0].endswith(suffixes[1]) or suffixes[1].endswith(suffixes[0]):
            raise ValueError("one suffix must not end in the other")

    def pool_of(self, service: Service) -> PoolKey | None:
        """The pool that a Service belongs to, in either role.

        Exactly one suffix is cut off, and once: `x-pool-relay-frontend` has the
        frontends of the pool `x-pool-relay`, and says nothing of a pool `x`.
        """
        for suffix in (self.relay_suffix, self.frontend_suffix):
            name = service.name.removesuffix(suffix)
            if name and name != service.name:
                return PoolKey(service.cluster_id, service.namespace, name)
        return None

    def relays_of(self, pool: PoolKey) -> Service:
        """The Service of its Pool Relays."""
        return Service(pool.cluster_id, pool.namespace, pool.dgd_name + self.relay_suffix)

    def frontends_of(self, pool: PoolKey) -> Service:
        """The Service of its frontends."""
        return Service(pool.cluster_id, pool.namespace, pool.dgd_name + self.frontend_suffix)
