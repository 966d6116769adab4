"""Registrations and heartbeats to test with."""

from collections.abc import Sequence

from global_discovery.domain.lease import Heartbeat
from global_discovery.domain.pool import Content, Location, PoolKey, Registration
from global_discovery.v1 import pool_pb2


def pool_key(number: int = 0, *, cluster: str = "c1", namespace: str = "ns") -> PoolKey:
    return PoolKey(cluster, namespace, f"pool-{number:05}")


def a_heartbeat(
    key: PoolKey,
    *,
    model: str = "m",
    region: str = "r1",
    relay_id: str = "relay",
    lease_id: str = "",
    frontends: Sequence[str] = ("http://10.0.0.1:8000",),
) -> Heartbeat:
    """One call of a relay, as a face hands it to the registrations."""
    content = Content(model, Location(region), frontends=tuple(frontends))
    return Heartbeat(
        Registration(key, content), caller="10.1.1.1", relay_id=relay_id, lease_id=lease_id
    )


def a_registration(
    number: int = 0,
    *,
    cluster: str = "c1",
    namespace: str = "ns",
    model: str = "m",
    region: str = "r1",
    frontends: Sequence[str] = ("http://10.0.0.1:8000",),
) -> pool_pb2.PoolRegistration:
    """The same, as a gRPC client sends it."""
    return pool_pb2.PoolRegistration(
        key=pool_pb2.PoolKey(cluster_id=cluster, namespace=namespace, dgd_name=f"pool-{number:05}"),
        model=model,
        location=pool_pb2.Location(region=region),
        frontends=frontends,
    )
