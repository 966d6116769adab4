"""What is registered: pools of an ordinary size, and a number in them that tells changes apart."""

from functools import lru_cache

from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2

SERVICE = "/global_discovery.v1.PoolDiscoveryService/"


def registration(index: int, change: int = 0) -> pool_pb2.PoolRegistration:
    """Pool number `index`, as it is after change number `change`."""
    return pool_pb2.PoolRegistration(
        key=pool_pb2.PoolKey(
            cluster_id=f"cluster-{index % 20:02d}",
            namespace="serving",
            dgd_name=f"llm-{index:06d}",
        ),
        model=f"Qwen/Qwen3-{index % 50}B",
        location=pool_pb2.Location(
            region="eu-west-1", availability_zone="eu-west-1a", datacenter=f"change-{change:08d}"
        ),
        capabilities=["chat", "tools"],
        capacity=[pool_pb2.Capacity(gpu_sku="H100-SXM5-80GB", gpu_count=16)],
        frontends=[f"http://10.{index >> 8 & 255}.{index & 255}.{n}:8000" for n in range(1, 5)],
        relays=[f"ip:10.{index >> 8 & 255}.{index & 255}.9"],
    )


def register_request(index: int, change: int = 0, lease_id: str = "") -> bytes:
    """A RegisterPoolRequest."""
    return pb.RegisterPoolRequest(
        registration=registration(index, change),
        relay_id=f"relay-{index:06d}",
        lease_id=lease_id,
    ).SerializeToString()


def sequence_field(sequence: int) -> bytes:
    """The field `sequence` of a RegisterPoolRequest, to be appended to one."""
    return pb.RegisterPoolRequest(sequence=sequence).SerializeToString()


def json_registration(index: int, lease_id: str) -> dict[str, object]:
    """The same registration as a relay of a legacy caller writes it."""
    told = registration(index)
    location = told.location
    return {
        "cluster_id": told.key.cluster_id,
        "namespace": told.key.namespace,
        "dgd_name": told.key.dgd_name,
        "model": told.model,
        "location": {
            "region": location.region,
            "availability_zone": location.availability_zone,
            "datacenter": location.datacenter,
        },
        "capabilities": list(told.capabilities),
        "capacity": [{"gpu_sku": c.gpu_sku, "gpu_count": c.gpu_count} for c in told.capacity],
        "frontends": list(told.frontends),
        "relays": list(told.relays),
        "relay_id": f"relay-{index:06d}",
        "lease_id": lease_id,
    }


def listed_pool(index: int, change: int = 0) -> bytes:
    """The same pool as a listed one: what a key-value store would keep under its key."""
    told = registration(index, change)
    return pool_pb2.Pool(
        key=told.key,
        model=told.model,
        location=told.location,
        capabilities=told.capabilities,
        capacity=told.capacity,
        frontends=told.frontends,
        relays=told.relays,
    ).SerializeToString()


def change_of(pool: pool_pb2.Pool) -> int:
    """The number of the change that made a pool what it is."""
    return int(pool.location.datacenter.removeprefix("change-"))


@lru_cache(maxsize=16_384)
def changes_in(message: bytes) -> tuple[int, ...]:
    """The numbers of the changes that a WatchPoolsResponse carries.

    Watchers of one place receive equal bytes, so that this is parsed once for
    all of them, and costs the load a hash for each.
    """
    return tuple(map(change_of, pb.WatchPoolsResponse.FromString(message).changes.pools))


def ends_snapshot(message: bytes) -> bool:
    """Whether this is the last message of a snapshot."""
    response = pb.WatchPoolsResponse.FromString(message)
    return response.HasField("snapshot") and bool(response.position)
