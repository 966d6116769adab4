"""Scopes: which keys they hold, and when two of them are the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.domain.access import EVERY_KEY, NO_KEY, Grant, Scope
from global_discovery.domain.pool import PoolKey

NAMES = st.sampled_from(["east", "east-1", "west", "e", "*"])
PATTERNS = st.lists(st.sampled_from(["east", "east*", "west", "*", "e*"]), min_size=1).map(tuple)
GRANTS = st.builds(Grant, PATTERNS, PATTERNS)
SCOPES = st.frozensets(GRANTS, max_size=3).map(Scope)
KEYS = st.builds(PoolKey, NAMES, NAMES, st.just("pool"))


def scope(*grants: Grant) -> Scope:
    return Scope(frozenset(grants))


def test_a_name_is_meant_exactly_and_a_star_at_its_end_means_all_that_begin_so() -> None:
    exact, begins = scope(Grant(("east",))), scope(Grant(("east-*",)))
    assert exact.holds(PoolKey("east", "models", "qwen"))
    assert not exact.holds(PoolKey("east-1", "models", "qwen"))
    assert begins.holds(PoolKey("east-1", "models", "qwen"))
    assert not begins.holds(PoolKey("east", "models", "qwen"))


def test_cluster_and_namespace_must_be_of_one_grant() -> None:
    two = scope(Grant(("east",), ("models",)), Grant(("west",), ("other",)))
    assert two.holds(PoolKey("west", "other", "qwen"))
    assert not two.holds(PoolKey("east", "other", "qwen"))


def test_every_key_and_no_key_are_what_they_say() -> None:
    assert (EVERY_KEY.unlimited, EVERY_KEY.empty) == (True, False)
    assert (NO_KEY.unlimited, NO_KEY.empty) == (False, True)
    assert not NO_KEY.holds(PoolKey("east", "models", "qwen"))


@given(SCOPES, KEYS)
def test_a_scope_holds_what_one_of_its_grants_holds(tried: Scope, key: PoolKey) -> None:
    def means(patterns: tuple[str, ...], name: str) -> bool:
        return any(
            name.startswith(each[:-1]) if each.endswith("*") else name == each for each in patterns
        )

    assert tried.holds(key) is any(
        means(grant.clusters, key.cluster_id) and means(grant.namespaces, key.namespace)
        for grant in tried.grants
    )
    assert not tried.unlimited or tried.holds(key)


class Looked(str):
    """A name that counts how often it was compared."""

    __slots__ = ()
    times = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Looked.times += 1
        return str.__eq__(self, other)

    def startswith(self, *begins: Any) -> bool:
        Looked.times += 1
        return str.startswith(self, *begins)


@pytest.mark.parametrize("cluster", ["east-999", "west"])
def test_a_scope_of_a_thousand_clusters_is_as_quick_as_one_of_one(cluster: str) -> None:
    names = tuple(f"east-{number}" for number in range(1_000))
    at_once = scope(Grant(names, ("models-*",)))
    one_by_one = scope(*(Grant((name,), ("models-*",)) for name in names))
    for tried in (at_once, one_by_one):
        Looked.times = 0
        assert tried.holds(PoolKey(Looked(cluster), "models-a", "qwen")) is (cluster != "west")
        assert Looked.times <= 3


@given(SCOPES, SCOPES, KEYS)
def test_scopes_of_equal_fingerprints_hold_the_same_keys(a: Scope, b: Scope, key: PoolKey) -> None:
    if a == b or (a.unlimited and b.unlimited):
        assert a.fingerprint == b.fingerprint
    if a.fingerprint == b.fingerprint:
        assert a.holds(key) is b.holds(key)


@given(SCOPES)
def test_a_fingerprint_does_not_follow_the_order_of_names(tried: Scope) -> None:
    turned = Scope(frozenset(Grant(g.clusters[::-1], g.namespaces[::-1]) for g in tried.grants))
    assert turned.fingerprint == tried.fingerprint
