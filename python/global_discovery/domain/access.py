"""Who may do what: the keys that a caller may read, and those that it may register.

A scope is a set of keys, written as grants of clusters and namespaces. It is a
value: equal scopes have equal fingerprints, so that what is made for one caller
serves every other one of the same scope. Nothing here knows who a caller is or
where its rights are written down.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from global_discovery.domain.pool import PoolKey

ANY = "*"


class Grant(NamedTuple):
    """The pools of some namespaces of some clusters.

    A name is meant exactly, one that ends in `*` means all that begin so, and `*`
    alone means all. No cluster and no namespace has a `*` in its name by Kubernetes'
    rules; one that has it all the same is only reached by such a pattern.
    """

    clusters: tuple[str, ...]
    namespaces: tuple[str, ...] = (ANY,)

    @property
    def unlimited(self) -> bool:
        """Whether every pool is among them."""
        return ANY in self.clusters and ANY in self.namespaces


@dataclass(frozen=True)
class Scope:
    """A set of pool keys, whether or not there are such pools."""

    grants: frozenset[Grant] = frozenset()

    @cached_property
    def unlimited(self) -> bool:
        """Whether it holds every key."""
        return any(grant.unlimited for grant in self.grants)

    @property
    def empty(self) -> bool:
        """Whether it holds none."""
        return not self.grants

    def holds(self, key: PoolKey) -> bool:
        """Whether it holds this key. Fits wherever an `explanation.MayRead` is asked for."""
        return self.unlimited or any(
            key.namespace in namespaces for namespaces in self._of_cluster(key.cluster_id)
        )

    def _of_cluster(self, cluster: str) -> Iterator["_Names"]:
        """The namespaces of each grant that has the cluster; as quick for one as for a thousand."""
        named, begun, begins = self._index
        if cluster in named:
            yield named[cluster]
        if cluster.startswith(begins):
            yield from (names for begin, names in begun.items() if cluster.startswith(begin))

    @cached_property
    def _index(self) -> tuple[dict[str, "_Names"], dict[str, "_Names"], tuple[str, ...]]:
        """By clusters that are meant exactly, by how others begin, and all of these."""
        found: dict[str, set[str]] = {}
        for grant in self.grants:
            for cluster in grant.clusters:
                found.setdefault(cluster, set()).update(grant.namespaces)
        names = {cluster: _Names(namespaces) for cluster, namespaces in found.items()}
        begun = {name[:-1]: each for name, each in names.items() if name.endswith(ANY)}
        named = {name: each for name, each in names.items() if not name.endswith(ANY)}
        return named, begun, tuple(begun)

    @cached_property
    def fingerprint(self) -> bytes:
        """Eight bytes; equal for equal grants, and for all scopes that hold every key."""
        grants = EVERY_KEY.grants if self.unlimited else self.grants
        parts = sorted(b"".join(map(_encoded, grant)) for grant in grants)
        return hashlib.blake2b(b"".join(parts), digest_size=8).digest()


EVERY_KEY = Scope(frozenset({Grant((ANY,))}))
NO_KEY = Scope()


class Rights(NamedTuple):
    """What one caller may do."""

    read: Scope
    register: Scope
    """Renew, replace and withdraw too."""


ALL_RIGHTS = Rights(EVERY_KEY, EVERY_KEY)


class _Names:
    """Names and patterns of some."""

    def __init__(self, patterns: Iterable[str]) -> None:
        ends = {pattern: pattern.endswith(ANY) for pattern in patterns}
        self._exact = frozenset(name for name, open_end in ends.items() if not open_end)
        self._begins = tuple(name[:-1] for name, open_end in ends.items() if open_end)

    def __contains__(self, name: str) -> bool:
        return name in self._exact or name.startswith(self._begins)


def _encoded(names: tuple[str, ...]) -> bytes:
    """The same bytes for the same names in any order; begins with how many there are."""
    parts = [name.encode() for name in sorted(set(names))]
    counted = (len(part).to_bytes(4, "big") + part for part in parts)
    return len(parts).to_bytes(4, "big") + b"".join(counted)
