"""The policy: which identities may read and register which pools.

It is a list of rules in TOML, and whatever no rule allows is denied:

    [[rule]]
    identities = ["sa:east/dynamo/pool-relay"]
    may = ["register"]
    clusters = ["east"]
    namespaces = ["models-*"]    # left out: all of these clusters

An identity is meant exactly. `<begin>/*` means all that begin with `<begin>/`,
`dns:*.<domain>` those with exactly one label before the domain, and `*` all.
Clusters and namespaces are as `access.Grant` has them. What several rules allow
adds up. The reading is strict: what is not understood refuses the whole policy,
since a rule that is passed over may be the one that somebody counts on.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from global_discovery.domain.access import ANY, NO_KEY, Grant, Rights, Scope

READ, REGISTER = "read", "register"
MAX_BYTES = 1024 * 1024
MAX_RULES = 10_000
MAX_VALUES = 1_000
"""In one field of one rule."""
_FIELDS = {"identities", "may", "clusters", "namespaces"}
_REQUIRED = ("identities", "may", "clusters")
_IDENTITY = re.compile(
    r"""\*
    | [a-z][a-z0-9+.-]*://[^/*\s]+(?:/[^*\s]*)?(?:(?<=/)\*)?
    | dns:(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*
    | sa:[^/*\s]+/(?:\*|[^/*\s]+/(?:\*|[^/*\s]+))""",
    re.VERBOSE,
)
_NAME = re.compile(r"[!-)+-.0-~]{1,253}|[!-)+-.0-~]{0,252}\*")
"""What may stand in a key, and perhaps a `*` at its end."""
_NO_RIGHTS = Rights(NO_KEY, NO_KEY)
_MAX_PARTS = 8
_TEXT = re.compile(
    r'"""(?:[^"\\]+|\\.|"(?!""))*+"{0,5}'
    r"|'''(?:[^']+|'(?!''))*+'{0,5}"
    r'|"(?:[^"\\\n]+|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
"""The strings and comments of TOML, also those without an end."""
_NAME_ENDS = re.compile(r"[\n=,\[\]{}]")


class BadPolicy(ValueError):
    """The policy cannot be used; says which entry of it, fit for the log."""


class Rule(NamedTuple):
    """One rule, as it was read."""

    identities: tuple[str, ...]
    may: frozenset[str]
    grant: Grant


@dataclass(frozen=True, slots=True)
class Policy:
    """All rules. Immutable."""

    rules: tuple[Rule, ...]

    def rights(self, identity: str) -> Rights:
        """What the rules allow; looks at each of them."""
        grants: dict[str, set[Grant]] = {READ: set(), REGISTER: set()}
        for rule in self.rules:
            if any(matches(pattern, identity) for pattern in rule.identities):
                for right in rule.may:
                    grants[right].add(rule.grant)
        if not any(grants.values()):
            return _NO_RIGHTS
        return Rights(*(Scope(frozenset(grants[right])) for right in (READ, REGISTER)))


def matches(pattern: str, identity: str) -> bool:
    """Whether a pattern of a rule means this identity."""
    if pattern.endswith("/" + ANY):
        begin = pattern[:-1]
        return identity.startswith(begin) and identity != begin
    if pattern.startswith("dns:*."):
        label, _, domain = identity.removeprefix("dns:").partition(".")
        # A URI name may begin with `dns://`, and is no DNS name for that.
        is_name = identity.startswith("dns:") and bool(label) and "/" not in label
        return is_name and domain == pattern[6:]
    return pattern in (ANY, identity)


def parse(content: bytes) -> Policy:
    """The policy that a file holds. Raises BadPolicy, which names the first bad entry."""
    if len(content) > MAX_BYTES:
        raise BadPolicy(f"is longer than {MAX_BYTES} bytes")
    try:
        document = tomllib.loads(_without_long_names(content.decode()))
    except UnicodeDecodeError:
        raise BadPolicy("is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        # A ValueError that is no TOMLDecodeError: a number of more digits than Python reads.
        raise BadPolicy(f"is no TOML: {str(error)[:200]}") from None
    unknown = sorted(document.keys() - {"rule"})
    if unknown:
        raise BadPolicy(f"{unknown[0][:100]!a}: is no entry of a policy; rules are [[rule]]")
    rules = document.get("rule")
    if not isinstance(rules, list) or not rules:
        # A file that is being written may be empty for a moment: nobody means that.
        raise BadPolicy("has no [[rule]]")
    if len(rules) > MAX_RULES:
        raise BadPolicy(f"has more than {MAX_RULES} rules")
    return Policy(tuple(_rule(f"rule {number}", rule) for number, rule in enumerate(rules, 1)))


def _without_long_names(text: str) -> str:
    """The text. The parser takes memory by the square of the parts of a dotted name."""
    for part in _NAME_ENDS.split(_TEXT.sub("", text)):
        if part.count(".") >= _MAX_PARTS:
            raise BadPolicy(f"has a name of more than {_MAX_PARTS} parts")
    return text


def _rule(where: str, rule: Any) -> Rule:
    if not isinstance(rule, Mapping):
        raise BadPolicy(f"{where}: is no table; write [[rule]]")
    for name in rule:
        if name not in _FIELDS:
            known = ", ".join(sorted(_FIELDS))
            raise BadPolicy(f"{where}: {name[:100]!a}: is no field of a rule; known are {known}")
    for name in _REQUIRED:
        if name not in rule:
            raise BadPolicy(f"{where}: {name}: is missing")
    identities = _strings(where, "identities", rule["identities"])
    may = _strings(where, "may", rule["may"])
    clusters = _strings(where, "clusters", rule["clusters"])
    namespaces = _strings(where, "namespaces", rule.get("namespaces", [ANY]))
    _check(where, "identities", identities, _is_identity, "is no identity and no pattern of some")
    _check(where, "may", may, {READ, REGISTER}.__contains__, 'must be "read" or "register"')
    for name, values in (("clusters", clusters), ("namespaces", namespaces)):
        _check(where, name, values, _is_name, "is no name; a * may only stand at its end")
    return Rule(identities, frozenset(may), Grant(clusters, namespaces))


def _strings(where: str, name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise BadPolicy(f"{where}: {name}: must be a list with at least one string")
    if len(value) > MAX_VALUES:
        raise BadPolicy(f"{where}: {name}: has more than {MAX_VALUES} entries")
    for index, each in enumerate(value):
        if not isinstance(each, str):
            raise BadPolicy(f"{where}: {name}[{index}]: must be a string")
    return tuple(value)


def _check(where: str, name: str, values: Iterable[str], good: Any, why: str) -> None:
    for index, value in enumerate(values):
        if not good(value):
            raise BadPolicy(f"{where}: {name}[{index}] {value[:100]!a}: {why}")


def _is_identity(text: str) -> bool:
    return text.isascii() and text.isprintable() and _IDENTITY.fullmatch(text) is not None


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None
