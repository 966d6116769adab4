"""The parts of a request that have a grammar of their own: targets, types, codings, tags.

Every function is total: it gives a value or raises Problem, whatever was sent.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote_to_bytes

from global_discovery.serving.rest.problem import Problem, malformed

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ENTITY_TAG = re.compile(r'(?:W/)?("[^"]*")')
_LEASE_ID = re.compile(r'[ \t]*(?:W/)?(?:"([^"]*)"|([^\s",]+))[ \t]*(?:,|$)')
_MAX_PARAMETERS = 4_096


class Target(NamedTuple):
    """What a request is about."""

    path: str
    """As it was sent, nothing decoded."""
    query: str


def parse_target(text: str) -> Target:
    """Splits a request target in origin or absolute form (RFC 9112, 3.2)."""
    if not text.startswith("/"):
        _, scheme_end, rest = text.partition("://")
        if scheme_end:
            authority = re.split(r"[/?]", rest, maxsplit=1)[0]
            text = rest[len(authority) :]
    if not text.isascii():
        raise malformed("the request target has a byte that must be percent-encoded")
    path, _, query = text.partition("?")
    return Target(path, query)


def query_parameters(query: str, known: Iterable[str]) -> dict[str, list[str]]:
    """The values of each parameter, in their order. An unknown name is a Problem (400)."""
    values: dict[str, list[str]] = {name: [] for name in known}
    if not query:
        return values
    if _BAD_ESCAPE.search(query):
        raise malformed("the query has a '%' that is not followed by two hexadecimal digits")
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, errors="strict", max_num_fields=_MAX_PARAMETERS
        )
    except ValueError:
        raise malformed("the query is not percent-encoded UTF-8, or has too many fields") from None
    for name, value in pairs:
        if name not in values:
            names = ", ".join(values) or "none"
            message = f"unknown query parameter; known here: {names}"
            raise Problem(400, "UNKNOWN_PARAMETER", message)
        values[name].append(value)
    return values


def key_part(segment: str) -> str:
    """A path segment decoded once. What is not ASCII then is for the rules to refuse."""
    if _BAD_ESCAPE.search(segment):
        raise malformed("the path has a '%' that is not followed by two hexadecimal digits")
    return unquote_to_bytes(segment).decode(errors="replace")


@lru_cache(maxsize=256)
def is_json(content_type: str) -> bool:
    """Whether a Content-Type is application/json in UTF-8."""
    media_type, *parameters = content_type.split(";")
    if media_type.strip().lower() != "application/json":
        return False
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            value = value.strip().lower()
            if value not in {"utf-8", '"utf-8"'}:
                return False
    return True


@lru_cache(maxsize=256)
def takes_gzip(accept_encoding: str) -> bool:
    """Whether gzip is accepted and not less welcome than no coding (RFC 9110, 12.5.3)."""
    weights: dict[str, float] = {}
    for entry in accept_encoding.lower().split(","):
        coding, *parameters = entry.split(";")
        weights[coding.strip()] = _weight(parameters)
    gzip = weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0)))
    return gzip > 0 and gzip >= weights.get("identity", 0.0)


@lru_cache(maxsize=256)
def wants_openmetrics(accept: str) -> bool:
    """Whether OpenMetrics 1.0 is asked for by name, and not less welcome than the older text.

    Ranges with `*` are no request for it: who knows neither format gets the text
    that everyone reads.
    """
    weights = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for entry in accept.lower().split(","):
        media_type, *parameters = entry.split(";")
        name = media_type.strip()
        if name in weights and _readable(name, parameters):
            weights[name] = max(weights[name], _weight(parameters))
    wanted = weights["application/openmetrics-text"]
    return wanted > 0 and wanted >= weights["text/plain"]


def _readable(media_type: str, parameters: list[str]) -> bool:
    """Whether the version that is asked for, if one is, is the one that is written."""
    written = {"application/openmetrics-text": "1.0.0", "text/plain": "0.0.4"}[media_type]
    asked = [
        value
        for name, _, value in (p.partition("=") for p in parameters)
        if name.strip() == "version"
    ]
    return all(value.strip() == written for value in asked)


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            match = re.fullmatch(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", value.strip())
            return float(match[0]) if match else 0.0
    return 1.0


def tag_matches(if_none_match: str, etag: str) -> bool:
    """The weak comparison of If-None-Match (RFC 9110, 13.1.2); `etag` has its quotes."""
    if if_none_match == etag or if_none_match.strip() == "*":
        return True
    return etag in _ENTITY_TAG.findall(if_none_match)


def lease_ids(if_match: str) -> tuple[str, ...]:
    """The lease ids of If-Match, quoted or bare; `*` names none."""
    ids: list[str] = []
    end = 0
    while end < len(if_match):
        match = _LEASE_ID.match(if_match, end)
        if match is None:
            break
        quoted, bare = match.groups()
        if bare != "*":
            ids.append(bare if quoted is None else quoted)
        end = match.end()
    if end < len(if_match) or not if_match.strip() or if_match.rstrip().endswith(","):
        raise malformed("If-Match is not a list of lease ids")
    return tuple(ids)
