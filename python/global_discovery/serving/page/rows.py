"""The lines of the page: a pool with what is left of its lease, a watcher, a change."""

import hashlib
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from global_discovery.domain.explanation import MayRead, ShareState
from global_discovery.domain.lease import LeaseTerms
from global_discovery.domain.pool import Pool, PoolKey
from global_discovery.serving.core import Core
from global_discovery.serving.page.query import FIELDS
from global_discovery.serving.page.survey import gpus_of
from global_discovery.view.fanout import WatcherState
from global_discovery.view.filters import PoolFilter
from global_discovery.view.recent import RecentChange
from global_discovery.view.view import Filter

CHANGES = 50
WATCHERS = 50
FILTER_VALUES = 4


class LeaseBar(NamedTuple):
    """What is left of a lease, and from where on that is little. Seconds."""

    remaining: float
    granted: float
    low: float
    """Less than this is left once a heartbeat was missed."""
    high: float
    """More than this is left while heartbeats come as they should."""


class PoolRow(NamedTuple):
    """One pool."""

    id: str
    pool: Pool
    gpus: int
    lease: LeaseBar | None
    """Of its share that lasts longest; None for one whose share just ended."""
    shares: int
    notes: tuple[str, ...]
    """What is odd about it, in a word or two each."""


class WatcherRow(NamedTuple):
    """One open stream."""

    view: str
    state: WatcherState
    wanted: str
    """Its filter."""


def lease_bar(share: ShareState, terms: LeaseTerms) -> LeaseBar:
    """By the heartbeat interval of this instance."""
    low = max(share.granted - terms.overdue_after, 0.0)
    high = max(share.granted - 1.2 * terms.heartbeat_interval, low)
    return LeaseBar(min(share.remaining, share.granted), share.granted, low, high)


def pool_row(core: Core, pool: Pool) -> PoolRow:
    """Costs a look at each of its shares."""
    side = core.registrations.explain(pool.key)
    terms = core.settings.terms
    longest = max(side.shares, key=lambda share: share.remaining, default=None)
    notes = []
    if not pool.content.frontends:
        notes.append("no frontend")
    if longest is not None and (longest.since_renewal or 0.0) > terms.overdue_after:
        notes.append("heartbeat missed")
    if side.disagreeing:
        notes.append("relays disagree")
    if core.joined is not None and core.joined.explain(pool.key).held:
        notes.append("keeps lost addresses")
    bar = None if longest is None else lease_bar(longest, terms)
    return PoolRow(row_id(pool.key), pool, gpus_of(pool), bar, len(side.shares), tuple(notes))


def row_id(key: PoolKey) -> str:
    """The same for the same pool, and safe wherever an id may stand."""
    return f"p-{_digest(str(key))}"


def group_id(name: str) -> str:
    """As `row_id`, of a group."""
    return f"g-{_digest(name)}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def changes(core: Core, may_read: MayRead) -> list[RecentChange]:
    """The newest ones, of keys that may be read."""
    readable = (change for change in core.recent if may_read(change.key))
    return list(islice(readable, CHANGES))


def watchers(core: Core) -> list[WatcherRow]:
    """Those furthest behind, of both views."""
    views = (("pools", core.pool_watchers), ("routers", core.router_watchers))
    rows = [
        WatcherRow(name, state, filter_text(state.wanted))
        for name, streams in views
        for state in streams.furthest(WATCHERS)
    ]
    rows.sort(key=lambda row: (-row.state.behind, -row.state.open_for))
    return rows[:WATCHERS]


def filter_text(wanted: Filter) -> str:
    """What a watcher wants, in a few words."""
    return "; ".join(_filter_parts(wanted)) or "everything"


def _filter_parts(wanted: Filter) -> Iterator[str]:
    if not isinstance(wanted, PoolFilter):
        return
    for name, field in FIELDS.items():
        values = sorted(getattr(wanted, field))
        if values:
            more = len(values) - FILTER_VALUES
            shown = ", ".join(value[:80] for value in values[:FILTER_VALUES])
            yield f"{name}: {shown}" + (f" and {more} more" if more > 0 else "")
    if not wanted.scope.unlimited:
        yield "what it may read"
