"""What is asked of the status page: which pools, in which groups, which page of them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any
from urllib.parse import urlencode

from global_discovery.serving.rest.pool_filter import FILTERS, pool_filter
from global_discovery.serving.rest.problem import Problem
from global_discovery.serving.rest.request_parts import query_parameters
from global_discovery.view.filters import EVERYTHING, PoolFilter

MAX_SEARCH = 256
MAX_PAGE = 1_000_000
FIELDS = {
    "model": "models",
    "region": "regions",
    "cluster_id": "cluster_ids",
    "namespace": "namespaces",
}
"""The filters' fields by the names of their parameters."""


class Group(Enum):
    """By what the pools stand together. The values are those of the parameter."""

    MODEL = "model"
    REGION = "region"
    CLUSTER = "cluster"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class PageQuery:
    """One valid query of `GET /`."""

    wanted: PoolFilter = EVERYTHING
    search: str = ""
    """Searched for in key, model and region, whatever the case."""
    group: Group = Group.MODEL
    page: int = 1

    @property
    def narrows(self) -> bool:
        """Whether it asks for less than everything."""
        return bool(self.search) or not self.wanted.matches_all

    def filters(self) -> Iterator[tuple[str, str]]:
        """The filters as parameters, sorted."""
        for name in FILTERS:
            for value in sorted(getattr(self.wanted, FIELDS[name])):
                yield name, value

    def link(self, **changes: Any) -> str:
        """The path and query of the same with changes; on its first page unless that is one."""
        asked = replace(self, **({"page": 1} | changes))
        parameters = list(asked.filters())
        if asked.search:
            parameters.append(("q", asked.search))
        if asked.group is not Group.MODEL:
            parameters.append(("group", asked.group.value))
        if asked.page > 1:
            parameters.append(("page", str(asked.page)))
        return f"/?{urlencode(parameters)}" if parameters else "/"

    def only(self, name: str, value: str) -> str:
        """A link to the pools with one value of a filter, among those of the other ones."""
        narrower: dict[str, Any] = {FIELDS[name]: frozenset({value})}
        return self.link(wanted=replace(self.wanted, **narrower))

    def without(self, name: str, value: str) -> str:
        """A link to the same with one value of a filter less."""
        field = FIELDS[name]
        wider: dict[str, Any] = {field: getattr(self.wanted, field) - {value}}
        return self.link(wanted=replace(self.wanted, **wider))


def parse(query: str) -> PageQuery:
    """Raises Problem (400), and InvalidInput for a filter with too many values."""
    given = query_parameters(query, (*FILTERS, "q", "group", "page"))
    for name in ("q", "group", "page"):
        if len(given[name]) > 1:
            raise _bad(f"{name} may be given once")
    search = given["q"][0].strip() if given["q"] else ""
    if len(search) > MAX_SEARCH:
        raise _bad(f"q may have at most {MAX_SEARCH} characters")
    return PageQuery(pool_filter(given), search, _group(given["group"]), _page(given["page"]))


def _group(given: list[str]) -> Group:
    try:
        return Group(given[0]) if given else Group.MODEL
    except ValueError:
        names = ", ".join(group.value for group in Group)
        raise _bad(f"group must be one of {names}") from None


def _page(given: list[str]) -> int:
    text = given[0] if given else "1"
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_PAGE))
    if not digits or not 1 <= int(text) <= MAX_PAGE:
        raise _bad(f"page must be a number from 1 to {MAX_PAGE}")
    return int(text)


def _bad(detail: str) -> Problem:
    return Problem(400, "BAD_PARAMETER", detail)
