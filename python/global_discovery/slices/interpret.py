"""What the imported slices of one pool, or of the router Service, say.

Pure functions of a set of slices: the order in which slices are given changes
nothing, and no slice of another pool or cluster is ever looked at, since
clusters may share address ranges.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from global_discovery.domain.events import Event
from global_discovery.domain.pool import PoolKey, Router
from global_discovery.domain.rules import MAX_FRONTENDS, MAX_RELAYS
from global_discovery.slices.endpoints import Found, Listing, list_endpoints, port_of, preference
from global_discovery.slices.imported import ImportedPool
from global_discovery.slices.model import EndpointSlice
from global_discovery.slices.naming import Naming


class Notice(NamedTuple):
    """Something that an operator should know for as long as it is so."""

    event: Event
    about: str
    """With the event what makes it the same notice, whatever its fields say."""
    fields: dict[str, Any]


class Interpretation(NamedTuple):
    """A pool as slices show it, and what is odd about them."""

    pool: ImportedPool
    notices: tuple[Notice, ...]
    pods: frozenset[str]
    """The uids of the pods behind it, where they are told."""


def interpret_pool(
    naming: Naming,
    key: PoolKey,
    relay_slices: Sequence[EndpointSlice],
    frontend_slices: Sequence[EndpointSlice],
) -> Interpretation:
    """The pool that all slices of its two Services make."""
    relays = list_endpoints(relay_slices)
    frontends = list_endpoints(frontend_slices, naming.frontend_port)
    addresses = sorted({f"ip:{found.address}" for found in relays.endpoints if found.ready})
    urls = sorted({found.url for found in frontends.endpoints if found.ready})
    without = [one for one in frontend_slices if port_of(one, naming.frontend_port) is None]
    pool = ImportedPool(
        key,
        relays=tuple(addresses[:MAX_RELAYS]),
        frontends=tuple(urls[:MAX_FRONTENDS]),
        frontend_slices=len(frontend_slices),
        frontend_port_seen=len(without) < len(frontend_slices),
    )
    notices = [
        *_limits(key, addresses, urls),
        *_without_port(key, naming.frontend_port, without),
        *_damages(relays, frontends),
    ]
    return Interpretation(
        pool,
        tuple(sorted(notices, key=lambda notice: (notice.about, notice.event.value))),
        frozenset(found.uid for found in (*relays.endpoints, *frontends.endpoints) if found.uid),
    )


def interpret_routers(
    cluster_id: str, slices: Sequence[EndpointSlice], port: str
) -> tuple[tuple[Router, ...], tuple[Notice, ...]]:
    """The routers of one cluster, sorted by id: all that are not on their way out.

    One that is not ready is listed too, since a pool must reach a router before
    either of them is.
    """
    listing = list_endpoints(slices, port)
    staying = sorted((one for one in listing.endpoints if not one.terminating), key=preference)
    by_url: dict[str, Found] = {}
    for found in staying:
        by_url.setdefault(found.url, found)
    routers: dict[str, Router] = {}
    for found in by_url.values():
        router_id = f"{cluster_id}/{found.name}"
        routers.setdefault(router_id, Router(router_id, found.url))
    return tuple(sorted(routers.values())), tuple(_damages(listing))


def _limits(key: PoolKey, relays: list[str], frontends: list[str]) -> Iterable[Notice]:
    for what, found, limit in (
        ("relays", relays, MAX_RELAYS),
        ("frontends", frontends, MAX_FRONTENDS),
    ):
        if len(found) > limit:
            fields = {"pool": str(key), "of": what, "found": len(found), "listed": limit}
            yield Notice(Event.TOO_MANY_ENDPOINTS, what, fields)


def _without_port(key: PoolKey, port: str, slices: list[EndpointSlice]) -> Iterable[Notice]:
    """An empty slice has no ports either: that is a Service scaled to zero, and no mistake."""
    for one in slices:
        if one.endpoints:
            fields = {
                "pool": str(key),
                "slice": slice_name(one),
                "port": port,
                "ports": sorted({of.name or "" for of in one.ports or () if of is not None}),
            }
            yield Notice(Event.FRONTEND_PORT_MISSING, slice_name(one), fields)


def _damages(*listings: Listing) -> Iterable[Notice]:
    for listing in listings:
        for one, endpoints in listing.damaged:
            fields = {"slice": slice_name(one), "endpoints": endpoints}
            yield Notice(Event.SLICE_DAMAGED, slice_name(one), fields)


def slice_name(endpoint_slice: EndpointSlice) -> str:
    """As people and logs write it."""
    return "/".join(endpoint_slice.key)
