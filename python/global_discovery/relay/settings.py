"""What a relay is told when it starts. Values are valid and normalised already."""

from dataclasses import dataclass

from global_discovery.client import TlsSettings
from global_discovery.domain.pool import Location, PoolKey
from global_discovery.v1 import pool_pb2


@dataclass(frozen=True, slots=True)
class RelaySettings:
    """One relay for one pool."""

    pool: PoolKey
    location: Location
    servers: tuple[str, ...]
    """Whom to register with, as `PoolHeartbeat` takes them."""
    relay_id: str
    openai_url: str
    """The model server, without `/v1`."""
    health_url: str
    model: str | None = None
    """The only model of the pool; None to ask the model server."""
    frontends: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()
    """Pairs of gpu_sku and gpu_count."""
    withdraw_on_exit: bool = False
    tls: TlsSettings | None = None
    """How those to register with are called; not for the model server."""
    listen_host: str = "0.0.0.0"  # noqa: S104 - kubelet calls from outside of the pod's loopback
    listen_port: int = 0

    def registration(self, model: str) -> pool_pb2.PoolRegistration:
        """What is registered while the pool serves `model`."""
        return pool_pb2.PoolRegistration(
            key=pool_pb2.PoolKey(**self.pool._asdict()),
            model=model,
            location=pool_pb2.Location(
                region=self.location.region,
                availability_zone=self.location.availability_zone,
                datacenter=self.location.datacenter,
            ),
            capabilities=self.capabilities,
            capacity=[
                pool_pb2.Capacity(gpu_sku=sku, gpu_count=count) for sku, count in self.capacity
            ],
            frontends=self.frontends,
        )
