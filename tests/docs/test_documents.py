"""What the documents say is so."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from global_discovery.domain.events import Event
from global_discovery.domain.explanation import Code

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
OPERATING = (ROOT / "docs/operating.md").read_text()
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
NOT_ABOUT_STATE = {
    "cannot_start",
    "configured",
    "failed",
    "internal_error",
    "library",
    "log_lines_lost",
    "stopped",
    "unprotected",
}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    missing = [
        link for link in LINK.findall(document.read_text()) if not (document.parent / link).exists()
    ]
    assert not missing


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


def test_the_demo_tells_its_whole_story() -> None:
    demo = subprocess.run(
        [sys.executable, str(ROOT / "examples/demo.py"), "--once"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert demo.returncode == 0, demo.stderr
    for text in (
        "router | changed   eu-1/llm/qwen",
        "router | changed   us-1/llm/llama",
        "router | removed   us-1/llm/llama",
        "relay | withdrew eu-1/llm/qwen",
    ):
        assert text in demo.stdout
