"""Which pools a filter wants, and what ties a position to it."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.domain.errors import InvalidInput
from global_discovery.domain.pool import PoolKey
from global_discovery.view.filters import EVERYTHING, NoFilter, PoolFilter
from support.hand_source import a_pool

POOL = a_pool(PoolKey("c1", "ns1", "d1"), model="m1", region="r1")
FIELDS = ("models", "regions", "cluster_ids", "namespaces")
RIGHT = {"models": "m1", "regions": "r1", "cluster_ids": "c1", "namespaces": "ns1"}

values = st.frozensets(st.text(max_size=3), max_size=3)
filters = st.builds(
    PoolFilter, models=values, regions=values, cluster_ids=values, namespaces=values
)


def test_an_empty_filter_matches_all() -> None:
    assert EVERYTHING.matches_all
    assert EVERYTHING.matches(POOL)
    assert NoFilter().matches(POOL)


@pytest.mark.parametrize("field", FIELDS)
def test_values_within_one_field_are_alternatives(field: str) -> None:
    assert PoolFilter(**{field: frozenset({"other", RIGHT[field]})}).matches(POOL)
    assert not PoolFilter(**{field: frozenset({"other", "another"})}).matches(POOL)


@pytest.mark.parametrize("field", FIELDS)
def test_fields_combine_with_and(field: str) -> None:
    right = {name: frozenset({value}) for name, value in RIGHT.items()}
    assert PoolFilter(**right).matches(POOL)
    assert not PoolFilter(**(right | {field: frozenset({"other"})})).matches(POOL)


@pytest.mark.parametrize("value", ["M1", "m1 ", "m", "m11", ""])
def test_comparison_is_exact(value: str) -> None:
    assert not PoolFilter(models=frozenset({value})).matches(POOL)


def test_a_field_takes_256_values_and_no_more() -> None:
    PoolFilter(models=frozenset(map(str, range(256))))
    too_many = frozenset(map(str, range(257)))
    with pytest.raises(InvalidInput) as refused:
        PoolFilter(models=too_many, namespaces=too_many)
    fields = [violation.field for violation in refused.value.violations]
    assert fields == ["filter.models", "filter.namespaces"]


@given(filters, filters)
def test_fingerprints_are_equal_exactly_for_equal_filters(a: PoolFilter, b: PoolFilter) -> None:
    assert (a.fingerprint == b.fingerprint) == (a == b)


def test_a_value_in_another_field_is_another_filter() -> None:
    prints = {PoolFilter(**{field: frozenset({"x"})}).fingerprint for field in FIELDS}
    assert len(prints) == len(FIELDS)


def test_nobody_can_compute_the_fingerprint_of_another_filter() -> None:
    tell = "from global_discovery.view.filters import EVERYTHING as f; print(f.fingerprint.hex())"
    told = {subprocess.check_output([sys.executable, "-c", tell]) for _ in range(2)}
    assert len(told) == 2
