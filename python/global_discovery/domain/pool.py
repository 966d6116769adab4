"""What a pool is: its key, its content, what a relay says of it, what is listed.

Values of these types are already valid and normalised (`rules` makes them so):
sets are sorted tuples without duplicates, and equality is equality of content.
"""

from dataclasses import dataclass
from typing import NamedTuple


class PoolKey(NamedTuple):
    """Names one pool. Sorts as lists are sorted."""

    cluster_id: str
    namespace: str
    dgd_name: str

    def __str__(self) -> str:
        """As people and logs write it."""
        return f"{self.cluster_id}/{self.namespace}/{self.dgd_name}"


@dataclass(frozen=True, slots=True)
class Location:
    """Where a pool runs; only the region is always there."""

    region: str
    availability_zone: str = ""
    datacenter: str = ""


@dataclass(frozen=True, slots=True)
class Content:
    """What a registration says of a pool, apart from its relays."""

    model: str
    location: Location
    capabilities: tuple[str, ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()
    """Pairs of gpu_sku and gpu_count, one a sku."""
    frontends: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Registration:
    """One whole registration, as `rules.check_registration` accepts it."""

    key: PoolKey
    content: Content
    relays: tuple[str, ...] = ()
    """As the call gave them; empty when it gave none."""


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool as it is listed."""

    key: PoolKey
    content: Content
    relays: tuple[str, ...]
    registered_time: float
    """When it last entered the list; seconds since the epoch, for people."""
    changed_time: float
    """When what is listed of it last changed; seconds since the epoch, for people."""

    @property
    def weight(self) -> int:
        """About how many bytes it takes in memory; good enough to bound what is kept."""
        content = self.content
        strings = (*content.frontends, *self.relays, *content.capabilities, content.model)
        characters = sum(map(len, strings))
        return 1024 + characters + 64 * len(strings) + 160 * len(content.capacity)


class Router(NamedTuple):
    """One Global Router as it is listed."""

    id: str
    url: str

    @property
    def key(self) -> str:
        """What names it within a list."""
        return self.id
