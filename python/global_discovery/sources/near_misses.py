"""What exists and resembles a key that is not listed: mostly a key typed in two ways.

Bounded: of each kind of thing the first ten thousand are looked at, and ten near
misses are told. Where there is more than that, the clusters that were seen are
still asked for the same namespace and name. Nothing is told that the caller may
not read.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from global_discovery.domain.explanation import MayRead, NearMiss, NearMissKind
from global_discovery.domain.pool import PoolKey

if TYPE_CHECKING:  # at run time it needs the extra `kubernetes`, which not every mode has
    from global_discovery.sources.imported.explained_slices import ExplainedSlices

LOOKED_AT = 10_000
SHOWN = 10
_DIFFERING = 2
"""Names that differ in no more characters than these, side by side, are alike."""
_ORDER = {kind: place for place, kind in enumerate(NearMissKind)}


class NearMisses(NamedTuple):
    """The most telling first."""

    found: tuple[NearMiss, ...]
    cut: bool
    """Whether something was not looked at, or not told."""


def near_misses(
    key: PoolKey,
    *,
    registered: Collection[PoolKey],
    imported: Collection[PoolKey],
    slices: "ExplainedSlices | None",
    may_read: MayRead,
) -> NearMisses:
    """Those of a key. `registered` and `imported` are the pools that each side knows."""
    suffixes = () if slices is None else (slices.naming.relay_suffix, slices.naming.frontend_suffix)
    kinds: dict[PoolKey, NearMissKind] = {}
    clusters: set[str] = set()
    _, namespace, name = key
    for keys in (registered, imported):
        for other in islice(keys, LOOKED_AT):
            cluster, its_namespace, its_name = other
            clusters.add(cluster)
            if its_namespace != namespace and its_name != name:
                continue  # most of them; the loop does nothing else meanwhile
            kind = _kind(key, other, suffixes)
            if kind is not None:
                kinds[other] = kind
    cut = max(len(registered), len(imported)) > LOOKED_AT
    if cut:
        same = (key._replace(cluster_id=cluster) for cluster in clusters - {key.cluster_id})
        there = (other for other in same if other in registered or other in imported)
        kinds.update(dict.fromkeys(there, NearMissKind.OTHER_CLUSTER))
    found = [
        NearMiss(kind, other, other in registered, other in imported, "")
        for other, kind in kinds.items()
        if may_read(other)
    ]
    if slices is not None:
        found += _other_suffixes(key, slices, may_read)
        cut = cut or len(slices.services()) > LOOKED_AT
    found.sort(key=lambda miss: (_ORDER[miss.kind], miss.key))
    return NearMisses(tuple(found[:SHOWN]), cut or len(found) > SHOWN)


def _kind(key: PoolKey, other: PoolKey, suffixes: Iterable[str]) -> NearMissKind | None:
    same_cluster = other.cluster_id == key.cluster_id
    same_namespace = other.namespace == key.namespace
    name, asked = other.dgd_name, key.dgd_name
    if name == asked:
        if same_namespace:
            return None if same_cluster else NearMissKind.OTHER_CLUSTER
        return NearMissKind.OTHER_NAMESPACE if same_cluster else None
    if not same_namespace:
        return None
    for suffix in suffixes:
        if name + suffix == asked or asked + suffix == name:
            return NearMissKind.NAME_WITH_SUFFIX
    return NearMissKind.SIMILAR_NAME if same_cluster and alike(name, asked) else None


def alike(one: str, other: str) -> bool:
    """Whether two names differ in case, or in one or two characters side by side."""
    one, other = one.casefold(), other.casefold()
    longer = len(other) - len(one)
    if abs(longer) > _DIFFERING:
        return False
    if one == other:
        return True
    same = 0
    for character, its in zip(one, other, strict=False):
        if character != its:
            break
        same += 1
    for skipped in range(max(0, -longer), min(_DIFFERING, _DIFFERING - longer) + 1):
        rest = one[same + skipped :]
        if rest == other[same + skipped + longer :] and (same or rest):
            return True
    return False


def _other_suffixes(
    key: PoolKey, slices: "ExplainedSlices", may_read: MayRead
) -> Iterator[NearMiss]:
    """Services of the pool's name that are neither of its two."""
    for service in islice(slices.services(), LOOKED_AT):
        name = service.name
        if service.namespace != key.namespace or not name.startswith(key.dgd_name):
            continue
        rest = name.removeprefix(key.dgd_name)
        if (rest and rest[0] not in "-.") or slices.naming.pool_of(service) is not None:
            continue
        if may_read(PoolKey(*service)):
            ports = ", ".join(slices.ports(service)) or "none"
            detail = (
                f"an imported Service without the suffix {slices.naming.relay_suffix} or "
                f"{slices.naming.frontend_suffix}; its ports: {ports}"
            )
            yield NearMiss(
                NearMissKind.OTHER_SUFFIX,
                PoolKey(*service),
                registered=False,
                imported=True,
                detail=detail,
            )
