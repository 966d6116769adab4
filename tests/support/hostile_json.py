"""JSON that is almost what was expected."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from support.hostile_protobuf import odd_text

DEEP = "[" * 5_000
ODD = [
    None,
    True,
    False,
    0,
    -1,
    1.5,
    2**31,
    2**63,
    2**64,
    10**30,
    1e308,
    "",
    [],
    {},
    [[]],
    [None],
    {"": {}},
]


def any_json() -> st.SearchStrategy[Any]:
    """Any value."""
    leaf = st.one_of(st.sampled_from(ODD), odd_text(), st.integers(), st.floats())
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)
        ),
        max_leaves=6,
    )


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value within, the outermost first."""
    yield path
    inner: Any = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        inner = enumerate(value)
    for name, each in inner:
        yield from places(each, (*path, name))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with another value at the end of the way; one that has gone changes nothing."""
    if not path:
        return new
    changed = copy.deepcopy(value)
    at = changed
    try:
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = new
    except (TypeError, KeyError, IndexError):
        return value
    return changed


def damaged(good: Any) -> st.SearchStrategy[Any]:
    """The value with a few others put into it."""
    change = st.tuples(st.sampled_from(list(places(good))), any_json())
    return st.lists(change, min_size=1, max_size=3).map(lambda changes: _apply(good, changes))


def damaged_json(good: Any) -> st.SearchStrategy[str]:
    """As text: damaged as a value, or as a text."""
    whole = json.dumps(good)
    cut = st.integers(0, len(whole)).map(lambda length: whole[:length])
    return st.one_of(
        damaged(good).map(json.dumps),
        damaged(good).map(json.dumps),
        cut,
        st.sampled_from([DEEP, '{"model":' * 2000, "", "null", "\ud800", '"\\ud800"']),
    )


def _apply(good: Any, changes: list[tuple[tuple[Any, ...], Any]]) -> Any:
    for path, new in changes:
        good = replaced(good, path, new)
    return good
