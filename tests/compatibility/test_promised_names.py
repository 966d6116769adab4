"""Names that others rely on stay: docs/compatibility.md promises it.

`promised.json` has the names of the last release. More of them may exist; one
that is missing here breaks somebody's script, alert or program. When a release
may break (docs/compatibility.md says when), the name leaves the file in the same
change as the code, and the changelog tells it.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import global_discovery.client
from global_discovery.cli.serve_flags import FLAGS
from global_discovery.domain import errors
from global_discovery.domain.completeness import Reason
from global_discovery.domain.events import Event
from global_discovery.domain.explanation import Code
from global_discovery.serving.rest.openapi import document
from support.program_flags import flags_of, subcommands

ROOT = Path(__file__).resolve().parents[2]
PROMISED: dict[str, list[str]] = json.loads(Path(__file__).with_name("promised.json").read_text())


def metrics() -> set[str]:
    """Those of the table for operators, which another test compares with what is served."""
    text = (ROOT / "docs/operating.md").read_text()
    table = text.partition("## Metrics")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([a-z_0-9]+)`", row)}


def problem_codes() -> set[str]:
    text = (ROOT / "docs/http.md").read_text().partition("## Errors")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| \d+ \| (`.*?) \|", text, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([A-Z_]+)`", row)}


def http_calls() -> set[str]:
    found = set()
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            call = f"{method.upper()} {path}"
            found.add(call)
            found |= {f"{call} {each['name']}" for each in operation.get("parameters", ())}
    return found


def http_fields() -> set[str]:
    return {
        f"{name}.{field}"
        for name, schema in document()["components"]["schemas"].items()
        for field in fields_in(schema)
    }


def fields_in(schema: dict[str, Any]) -> set[str]:
    found = set()
    for name, each in schema.get("properties", {}).items():
        found |= {name, *(f"{name}.{inner}" for inner in fields_in(each))}
        found |= {f"{name}[].{inner}" for inner in fields_in(each.get("items", {}))}
    return found


NOW = {
    "client library": set(global_discovery.client.__all__),
    "command line": {f"{name} {flag}" for name in subcommands() for flag in flags_of(name)},
    "environment of serve": {flag.variable for flag in FLAGS.flags},
    "explanation codes": {code.value for code in Code},
    "gRPC error reasons": {
        error.reason for error in vars(errors).values() if hasattr(error, "reason")
    },
    "HTTP calls": http_calls(),
    "HTTP fields": http_fields(),
    "HTTP problem codes": problem_codes(),
    "log events": {event.value for event in Event},
    "mark reasons": {reason.value for reason in Reason},
    "metrics": metrics(),
}


@pytest.mark.parametrize("kind", NOW)
def test_no_name_that_others_rely_on_is_gone(kind: str) -> None:
    assert set(PROMISED[kind]) <= NOW[kind]


def test_every_kind_of_name_is_promised() -> None:
    assert set(PROMISED) == set(NOW)
    assert all(PROMISED.values())
