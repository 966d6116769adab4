"""TOML that is almost the policy that was expected."""

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from support.hostile_json import damaged
from support.hostile_protobuf import damaged as damaged_bytes

RULES = {
    "rule": [
        {
            "identities": ["sa:east/dynamo/relay", "spiffe://east.example/ns/*"],
            "may": ["register"],
            "clusters": ["east"],
            "namespaces": ["models-*"],
        },
        {"identities": ["dns:*.routers.example"], "may": ["read"], "clusters": ["*"]},
    ]
}
ODD = {
    "empty": b"",
    "a byte order mark": b"\xef\xbb\xbf",
    "nul": b"\0",
    "a number of 5,000 digits": b"rule = " + b"9" * 5_000,
    "a hexadecimal number": b"rule = 0x" + b"f" * 100_000,
    "a float beyond all": b"rule = 1e999999",
    "lists without an end": b"rule = " + b"[" * 50_000,
    "tables without an end": b"rule = " + b"{a=" * 50_000,
    "a name of 300,000 parts": b".".join([b"a"] * 300_000) + b" = 1",
    "parts behind a string of four quotes": b'x = ["""a"""", {'
    + b".".join([b'"a"'] * 200_000)
    + b" = 1}]",
    "parts behind a literal of four quotes": b"x = ['''a'''', {"
    + b".".join([b"'#'"] * 200_000)
    + b" = 1}]",
    "the year 0": b"rule = 0000-01-01",
    "a fraction of 5,000 digits": b"rule = 1979-05-27T07:32:00." + b"9" * 5_000,
    "20,000 empty rules": b"[[rule]]\n" * 20_000,
    "a table twice": b"[rule]\n[rule]",
    "a table of a long name twice": b"[[" + b"x" * 100_000 + b"]]\n[" + b"x" * 100_000 + b"]",
    "a field of a long name": b'rule = [{"' + b"y" * 100_000 + b'" = 1}]',
    "many quotes": b'"""' * 100_001,
    "a string of escaped ends": b'"""\\' * 100_000,
    "many apostrophes": b"'" * 100_001,
}


def damaged_toml(good: Mapping[str, Any]) -> st.SearchStrategy[bytes]:
    """As a file: damaged as a value, as bytes, or something else altogether."""
    whole = as_toml(good).encode()
    values = damaged(good).map(lambda value: as_toml(value).encode(errors="surrogatepass"))
    return st.one_of(
        values, values, damaged_bytes(whole), st.sampled_from(sorted(ODD)).map(ODD.__getitem__)
    )


def as_toml(document: Any) -> str:
    """The document, if it is a table, in TOML; what TOML has not is written in JSON."""
    if not isinstance(document, dict):
        return _value(document)
    lines = []
    for name, value in document.items():
        if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            for table in value:
                lines += [f"[[{_name(name)}]]", as_toml(table)]
        else:
            lines.insert(0, f"{_name(name)} = {_value(value)}")
    return "\n".join(lines)


def _name(name: Any) -> str:
    text = str(name)
    return text if text.isidentifier() and text.isascii() else _value(text)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_name(n)} = {_value(each)}" for n, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if value is None:
        return dt.date(2026, 1, 1).isoformat()
    return json.dumps(value, ensure_ascii=isinstance(value, bool)).replace("NaN", "nan")
