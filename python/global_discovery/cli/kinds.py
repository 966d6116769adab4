"""What the commands `pools` and `routers` show of an entry: cells, one line, one document."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from global_discovery.cli.text import mark_sentence, number, reason_codes, rfc3339
from global_discovery.client.fold import PoolKey, is_exact
from global_discovery.v1 import pool_pb2

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """Pools or routers. The texts are raw: escape them before they reach a terminal."""

    noun: str
    columns: tuple[str, ...]
    cells: Callable[[Any], tuple[str, ...]]
    """One text a column."""
    line: Callable[[Any], str]
    """The whole entry in one line."""
    key: Callable[[Any], Any]
    document: Callable[[Any], Document]
    """As the REST gateway shows it."""
    key_document: Callable[[Any], Document]
    tells_bound: bool
    """Whether the mark's bound means anything: configured routers have none."""

    @property
    def plural(self) -> str:
        """The member of a document that holds the entries."""
        return f"{self.noun}s"

    def mark_sentence(self, mark: pool_pb2.Mark | None) -> str:
        """The mark in one line."""
        return mark_sentence(mark, with_bound=self.tells_bound)

    def mark_document(self, mark: pool_pb2.Mark) -> Document:
        """The members that tell a mark."""
        document: Document = {"complete": is_exact(mark), "reasons": reason_codes(mark)}
        if self.tells_bound:
            document["bound_secs"] = number(mark.bound_secs)
            if mark.HasField("slices_bound_secs"):
                document["slices_bound_secs"] = number(mark.slices_bound_secs)
        return document


def _pool_cells(pool: pool_pb2.Pool) -> tuple[str, ...]:
    return (
        _pool_name(pool),
        pool.model,
        _place(pool.location),
        _gpus(pool),
        ", ".join(pool.capabilities),
        ", ".join(pool.frontends) or "none",
    )


def _pool_line(pool: pool_pb2.Pool) -> str:
    parts = [
        ("model", pool.model),
        ("location", _place(pool.location)),
        ("gpus", _gpus(pool)),
        ("capabilities", ",".join(pool.capabilities)),
        ("frontends", ",".join(pool.frontends)),
    ]
    told = " ".join(f"{name}={value}" for name, value in parts if value)
    return f"{_pool_name(pool)} {told}"


def _pool_name(pool: pool_pb2.Pool) -> str:
    return str(PoolKey.of(pool.key))


def _place(location: pool_pb2.Location) -> str:
    places = (location.region, location.availability_zone, location.datacenter)
    return "/".join(place for place in places if place)


def _gpus(pool: pool_pb2.Pool) -> str:
    return ", ".join(f"{entry.gpu_count} x {entry.gpu_sku}" for entry in pool.capacity)


def _pool_document(pool: pool_pb2.Pool) -> Document:
    location = pool.location
    places = {
        "region": location.region,
        "availability_zone": location.availability_zone,
        "datacenter": location.datacenter,
    }
    return _key_document(PoolKey.of(pool.key)) | {
        "model": pool.model,
        "location": {name: value for name, value in places.items() if value},
        "capabilities": list(pool.capabilities),
        "capacity": [
            {"gpu_sku": entry.gpu_sku, "gpu_count": entry.gpu_count} for entry in pool.capacity
        ],
        "frontends": list(pool.frontends),
        "relays": list(pool.relays),
        "registered_time": rfc3339(pool.registered_time),
        "changed_time": rfc3339(pool.changed_time),
    }


def _key_document(key: PoolKey) -> Document:
    return key._asdict()


POOLS = Kind(
    noun="pool",
    columns=("POOL", "MODEL", "LOCATION", "GPUS", "CAPABILITIES", "FRONTENDS"),
    cells=_pool_cells,
    line=_pool_line,
    key=lambda pool: PoolKey.of(pool.key),
    document=_pool_document,
    key_document=_key_document,
    tells_bound=True,
)

ROUTERS = Kind(
    noun="router",
    columns=("ROUTER", "URL"),
    cells=lambda router: (router.id, router.url),
    line=lambda router: f"{router.id} {router.url}",
    key=lambda router: router.id,
    document=lambda router: {"id": router.id, "url": router.url},
    key_document=lambda router_id: {"id": router_id},
    tells_bound=False,
)
