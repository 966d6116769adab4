"""Label selectors, as far as Kubernetes' grammar goes: =, ==, !=, in, notin, exists, !exists."""

import re
from collections.abc import Callable, Mapping
from typing import Any

_SET = re.compile(r"^\s*(\S+)\s+(in|notin)\s+\(([^)]*)\)\s*$")
_EQUAL = re.compile(r"^\s*([^=!\s]+)\s*(==|=|!=)\s*(\S*)\s*$")
_COMMA = re.compile(r",(?![^(]*\))")


def selects(selector: str) -> Callable[[Mapping[str, Any]], bool]:
    """Whether an object's labels match all requirements."""
    requirements = [_requirement(part) for part in _COMMA.split(selector) if part.strip()]

    def matches(item: Mapping[str, Any]) -> bool:
        labels = (item.get("metadata") or {}).get("labels") or {}
        return all(requirement(labels) for requirement in requirements)

    return matches


def _requirement(text: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _SET.match(text):
        key, how, listed = found.groups()
        values = {value.strip() for value in listed.split(",")}
        if how == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.match(text):
        key, how, value = found.groups()
        if how == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    key = text.strip()
    if key.startswith("!"):
        return lambda labels: key[1:].strip() not in labels
    return lambda labels: key in labels
