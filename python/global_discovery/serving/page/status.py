"""The status page itself: what it shows, and for how long one rendering of it is good.

Whoever asks for the same thing within a second, while nothing moved, is given the
same bytes. What was found in the whole list is kept until the view moves. Both
hold for callers who may read everything; for the others all is made anew.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from global_discovery.domain.explanation import MayRead, everything
from global_discovery.serving.core import Core
from global_discovery.serving.page import rows
from global_discovery.serving.page.health import health
from global_discovery.serving.page.pace import Pace
from global_discovery.serving.page.query import Group, PageQuery
from global_discovery.serving.page.rendering import HTML, SECURITY, Rendering
from global_discovery.serving.page.survey import (
    PAGE_SIZE,
    Arrangement,
    Survey,
    arrange,
    survey,
)
from global_discovery.serving.page.troubles import troubles
from global_discovery.serving.page.words import said
from global_discovery.serving.rest.representation import Representation
from global_discovery.serving.tls.keeper import TlsKeeper
from global_discovery.view.filters import EVERYTHING

GOOD_FOR = 1.0
"""Seconds."""
KEPT = 64
FACETS = 12
ROUTERS = 100
_FACETS = {Group.MODEL: "model", Group.REGION: "region", Group.CLUSTER: "cluster_id"}
_FACET_TITLES = {"model": "Models", "region": "Regions", "cluster_id": "Clusters"}


class _Kept(NamedTuple):
    at: tuple[int, float]
    """The view's position, and the monotonic clock."""
    page: Representation


class StatusPages:
    """Renders `GET /` of one instance."""

    def __init__(
        self,
        core: Core,
        rendering: Rendering,
        pace: Pace,
        *,
        tls: TlsKeeper | None,
        pages_open: Callable[[], int],
    ) -> None:
        """`pages_open` counts the event streams."""
        self._core = core
        self._rendering = rendering
        self._pace = pace
        self._tls = tls
        self._pages_open = pages_open
        self._began = core.clock.monotonic()
        self._pages: OrderedDict[str, _Kept] = OrderedDict()
        self._survey: tuple[int, Survey] | None = None
        self._arranged: OrderedDict[str, tuple[int, Arrangement]] = OrderedDict()

    async def page(self, query: PageQuery, may_read: MayRead, account: str) -> Representation:
        """What a query shows a caller now. Raises Problem (503) when too many are asked for."""
        self._core.pools.refresh()
        self._core.routers.refresh()
        whole, name = may_read is everything, query.link(page=query.page)
        kept = self._fresh(name) if whole else None
        if kept is not None:
            return kept
        async with self._pace.turn(account):
            kept = self._fresh(name) if whole else None
            if kept is not None:
                return kept
            at = (self._core.pools.sequence, self._core.clock.monotonic())
            body = await self._render(query, may_read)
            page = Representation(body, HTML, SECURITY)
            if whole:
                _keep(self._pages, name, _Kept(at, page))
        return page

    def about(self) -> dict[str, Any]:
        """What every page of the instance says."""
        core = self._core
        return {
            "now": core.clock.wall(),
            "settings": core.settings,
            "storage": core.storage,
            "uptime": core.clock.monotonic() - self._began,
        }

    def _fresh(self, name: str) -> Representation | None:
        kept = self._pages.get(name)
        if kept is None:
            return None
        sequence, made = kept.at
        old = self._core.clock.monotonic() - made >= GOOD_FOR
        return None if old or sequence != self._core.pools.sequence else kept.page

    async def _render(self, query: PageQuery, may_read: MayRead) -> bytes:
        found = await self._found(may_read)
        arranged = await self._arrange(query, may_read)
        query = replace(query, page=min(query.page, arranged.pages))
        core, whole = self._core, may_read is everything
        values = self.about() | {
            "self_link": query.link(page=query.page),
            "query": query,
            "groups": list(Group),
            "mark": core.pools.mark,
            "said": said(core.pools.mark.reasons),
            "found": found,
            "troubles": list(troubles(core, found, may_read, self._tls)),
            "changes": rows.changes(core, may_read),
            "whole": whole,
            "watching": self._watching() if whole else None,
            "watchers": rows.watchers(core) if whole else [],
            "health": list(health(core, self._tls)) if whole else [],
            "routers": [
                entry.value for entry in core.routers.snapshot(EVERYTHING).entries[:ROUTERS]
            ],
            "router_count": len(core.routers),
        }
        return await self._rendering.render(
            "status.html", **values, **_facets(query, found), **self._listing(query, arranged)
        )

    def _watching(self) -> dict[str, int]:
        pools, routers = self._core.pool_watchers, self._core.router_watchers
        return {
            "pools": len(pools),
            "routers": len(routers),
            "pages": self._pages_open(),
            "behind": max(pools.furthest_behind, routers.furthest_behind),
        }

    def _listing(self, query: PageQuery, arranged: Arrangement) -> dict[str, Any]:
        sections = [
            section._asdict()
            | {
                "id": rows.group_id(section.name),
                "rows": [rows.pool_row(self._core, one) for one in section.pools],
            }
            for section in arranged.sections(query.page)
        ]
        shown = sum(len(section["rows"]) for section in sections)
        first = (query.page - 1) * PAGE_SIZE + 1
        without = {Group.MODEL: 7, Group.REGION: 7}
        return {
            "listing": arranged,
            "sections": sections,
            "columns": without.get(query.group, 8),
            "first": first,
            "last": first + shown - 1,
        }

    async def _found(self, may_read: MayRead) -> Survey:
        snapshot = self._core.pools.snapshot(EVERYTHING)
        if may_read is not everything:
            return await survey(snapshot.entries, may_read)
        if self._survey is None or self._survey[0] != snapshot.sequence:
            self._survey = snapshot.sequence, await survey(snapshot.entries, may_read)
        return self._survey[1]

    async def _arrange(self, query: PageQuery, may_read: MayRead) -> Arrangement:
        snapshot = self._core.pools.snapshot(EVERYTHING)
        if may_read is not everything:
            return await arrange(snapshot.entries, query, may_read)
        name = query.link()
        kept = self._arranged.get(name)
        if kept is None or kept[0] != snapshot.sequence:
            kept = snapshot.sequence, await arrange(snapshot.entries, query, may_read)
            _keep(self._arranged, name, kept)
        return kept[1]


def _facets(query: PageQuery, found: Survey) -> dict[str, Any]:
    """The largest groups, each a link to its pools alone."""
    facet = _FACETS.get(query.group)
    if facet is None or query.narrows:
        return {"facets": [], "facets_more": 0, "facet": "", "facet_title": ""}
    counted = {"model": found.models, "region": found.regions, "cluster_id": found.clusters}[facet]
    largest = sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:FACETS]
    return {
        "facets": largest if len(counted) > 1 else [],
        "facets_more": max(len(counted) - FACETS, 0),
        "facet": facet,
        "facet_title": _FACET_TITLES[facet],
    }


def _keep(kept: "OrderedDict[str, Any]", name: str, value: Any) -> None:
    kept[name] = value
    kept.move_to_end(name)
    if len(kept) > KEPT:
        kept.popitem(last=False)
