"""What the documents say is so."""

import re
from pathlib import Path

import pytest

from global_discovery.domain import errors
from global_discovery.domain.events import Event
from global_discovery.domain.explanation import Code

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "SECURITY.md", *ROOT.glob("docs/**/*.md")])
OPERATING = (ROOT / "docs/operating.md").read_text()
FENCED = re.MULTILINE | re.DOTALL
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
NOT_ABOUT_STATE = {
    "cannot_start",
    "configured",
    "failed",
    "internal_error",
    "library",
    "log_lines_lost",
    "stopped",
    "nobody_can_register",
    "tokens_in_plain_text",
    "unprotected",
}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    missing = [
        link for link in LINK.findall(document.read_text()) if not (document.parent / link).exists()
    ]
    assert not missing


def test_every_place_within_a_document_that_a_link_names_is_there() -> None:
    missing = []
    for document in DOCUMENTS:
        for path, place in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", document.read_text()):
            target = (document.parent / path).resolve() if path else document
            if place not in places_of(target.read_text()):
                missing.append((document.name, f"{path}#{place}"))
    assert not missing


def places_of(text: str) -> set[str]:
    """The names that headings get on GitHub."""
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=FENCED), re.MULTILINE
    )
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.lower()) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def test_every_document_can_be_reached_from_the_readme() -> None:
    reached = {ROOT / "README.md"}
    waiting = list(reached)
    while waiting:
        document = waiting.pop()
        for link in LINK.findall(document.read_text()):
            found = (document.parent / link).resolve()
            if found.suffix == ".md" and found not in reached:
                reached.add(found)
                waiting.append(found)
    assert set(DOCUMENTS) <= reached


def test_every_event_is_explained_to_operators_and_no_other_one() -> None:
    table = OPERATING.partition("## Log events")[2].partition("\n## ")[0]
    explained = set(re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE))
    assert {event.value for event in Event} <= explained
    assert explained - {event.value for event in Event} == NOT_ABOUT_STATE


def test_every_code_of_an_explanation_is_explained_to_operators_and_no_other_one() -> None:
    text = OPERATING.partition("## Why is my pool not listed?")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`([A-Z_]+)`", row)) == sorted(
        code.value for code in Code
    )


def test_every_error_of_the_http_face_is_explained_and_no_other_reason() -> None:
    table = (ROOT / "docs/http.md").read_text().partition("## Errors")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| \d+ \| (`.*?) \|", table, re.MULTILINE)
    explained = {name for row in rows for name in re.findall(r"`([A-Z_]+)`", row)}
    reasons = {error.reason for error in vars(errors).values() if hasattr(error, "reason")}
    assert reasons - explained == {"POSITION_GONE", "SLOW_WATCHER"}, "which only gRPC has"
