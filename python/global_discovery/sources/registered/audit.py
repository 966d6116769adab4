"""What the audit lines say of a change: which relay, and the fields before and after.

Bounded, whatever was registered: a line names the fields that changed and cuts
long sets. No lease id is in it.
"""

from collections.abc import Sequence

from global_discovery.domain.pool import Content
from global_discovery.sources.registered.shares import Identity, PoolShares, Share

SHOWN_ENTRIES = 8
SHOWN_CHARACTERS = 200

Listed = tuple[Content, tuple[str, ...]]
"""What is listed of a pool: content and relays."""


def listed(pool: PoolShares) -> Listed:
    """As it is now."""
    return pool.listed_content(), pool.listed_relays()


def relay_name(identity: Identity) -> str:
    """What tells the share from others of its pool, such as `relay_id relay-0`."""
    return _short(" ".join(identity))


def new_fields(after: Listed) -> dict[str, dict[str, object]]:
    """`after` of a pool that was not there before: the fields that are not empty."""
    return {"after": _all_shown(after)}


def last_fields(share: Share) -> dict[str, dict[str, object]]:
    """`before` of a pool that left with this share: the fields that are not empty."""
    return {"before": _all_shown((share.content, share.relays))}


def changed_fields(before: Listed, after: Listed) -> dict[str, dict[str, object]]:
    """`before` and `after`, each with the fields that differ; empty when none does."""
    old, new = _fields(before), _fields(after)
    names = [name for name in old if old[name] != new[name]]
    if not names:
        return {}
    return {
        "before": {name: _shown(old[name]) for name in names},
        "after": {name: _shown(new[name]) for name in names},
    }


def _fields(of: Listed) -> dict[str, object]:
    content, relays = of
    where = content.location
    return {
        "model": content.model,
        "region": where.region,
        "availability_zone": where.availability_zone,
        "datacenter": where.datacenter,
        "capabilities": content.capabilities,
        "capacity": tuple(f"{count} {sku}" for sku, count in content.capacity),
        "frontends": content.frontends,
        "relays": relays,
    }


def _all_shown(of: Listed) -> dict[str, object]:
    return {name: _shown(value) for name, value in _fields(of).items() if value}


def _shown(value: object) -> object:
    if isinstance(value, str):
        return _short(value)
    if isinstance(value, Sequence):
        more = len(value) - SHOWN_ENTRIES
        first = [_short(str(entry)) for entry in value[:SHOWN_ENTRIES]]
        return [*first, f"and {more} more"] if more > 0 else first
    return value


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."
