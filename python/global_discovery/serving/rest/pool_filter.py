"""The filters of `GET /pools`, and of whatever takes the same ones."""

from collections.abc import Iterable, Mapping

from global_discovery.domain.access import EVERY_KEY, Scope
from global_discovery.domain.errors import InvalidInput, Violation
from global_discovery.view.filters import MAX_VALUES, PoolFilter

FILTERS = ("model", "region", "cluster_id", "namespace")
"""The names of their query parameters."""


def pool_filter(parameters: Mapping[str, Iterable[str]], scope: Scope = EVERY_KEY) -> PoolFilter:
    """The filter of a query, which has all of FILTERS, within a scope. Raises InvalidInput."""
    values = {name: frozenset(parameters[name]) for name in FILTERS}
    too_many = [
        Violation(name, f"must have at most {MAX_VALUES} different values")
        for name, given in values.items()
        if len(given) > MAX_VALUES
    ]
    if too_many:
        raise InvalidInput(too_many)
    return PoolFilter(
        models=values["model"],
        regions=values["region"],
        cluster_ids=values["cluster_id"],
        namespaces=values["namespace"],
        scope=scope,
    )
