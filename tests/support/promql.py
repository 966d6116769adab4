"""Which metrics and labels a PromQL expression speaks of. That it parses is for promtool to say."""

import re
from typing import NamedTuple

GROUPING = re.compile(r"\b(by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")
RANGE = re.compile(r"\[[^\]]*\]|\boffset\s+\w+")
SELECTOR = re.compile(r"(?<![\w$.])([a-zA-Z_:][\w:]*)\s*(\{[^{}]*\})?(?!\s*\()(?![\w:])")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')
FUNCTION = re.compile(r"\b([a-z_0-9]+)\s*(?=\()")
WORDS = frozenset({"and", "or", "unless", "offset", "bool"})
TARGET_LABELS = frozenset({"job", "instance", "namespace"})
"""Which a scraper adds."""
SCRAPER_S_OWN = frozenset({"up"})


class Selector(NamedTuple):
    """One vector of an expression."""

    metric: str
    matchers: list[tuple[str, str, str]]
    """Label, operator, value."""

    @property
    def words(self) -> dict[str, set[str]]:
        """Values that a label must be able to have for the selector to find anything."""
        return {
            label: set(value.split("|"))
            for label, operator, value in self.matchers
            if operator in {"=", "=~"} and re.fullmatch(r"[\w|]+", value)
        }


class Spoken(NamedTuple):
    """What an expression speaks of."""

    selectors: list[Selector]
    grouped: set[str]
    """Labels in `by`, `on` and the like."""


def spoken_of(expression: str) -> Spoken:
    """Every selector and every label."""
    grouped = {
        label.strip()
        for _, labels in GROUPING.findall(expression)
        for label in labels.split(",")
        if label.strip()
    }
    rest = RANGE.sub("", GROUPING.sub(" ", expression))
    functions = set(FUNCTION.findall(rest))
    selectors = [
        Selector(name, [tuple(one) for one in MATCHER.findall(braces)])
        for name, braces in SELECTOR.findall(rest)
        if name not in WORDS and name not in functions
    ]
    return Spoken(selectors, grouped)


def faults(expression: str, series: dict[str, list[dict[str, str]]]) -> list[str]:
    """What the expression asks for that is not in `series`, labels by name of the sample."""
    spoken = spoken_of(expression)
    found = [] if spoken.selectors else [f"no metric in {expression}"]
    known = set(TARGET_LABELS)
    for selector in spoken.selectors:
        if selector.metric in SCRAPER_S_OWN:
            continue
        all_of_it = series.get(selector.metric)
        if all_of_it is None:
            found.append(f"{selector.metric} is not served")
            continue
        values = {label: {one.get(label) for one in all_of_it} for label in all_of_it[0]}
        known |= set(values)
        for label, _, _ in selector.matchers:
            if label not in values and label not in TARGET_LABELS:
                found.append(f"{selector.metric} has no label {label}")
        for label, words in selector.words.items():
            if missing := words - values.get(label, words):
                found.append(f"{selector.metric}: {label} is never {sorted(missing)}")
    return found + [f"no metric has the label {label}" for label in spoken.grouped - known]
