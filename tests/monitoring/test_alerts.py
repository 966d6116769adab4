"""The alerts ask for what is served, say what to do, and fire when they should."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.alert_cases import CASES, promtool_tests
from support.promql import faults
from support.promtool import needs_promtool, promtool
from support.scrapes import Scrape

ROOT = Path(__file__).parents[2]
COMPONENTS = ROOT / "deploy/components"
ALERTS = COMPONENTS / "monitoring/alerts.yaml"
GROUPS = yaml.safe_load(ALERTS.read_text())["groups"]
RULES: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
OPERATING = (ROOT / "docs/operating.md").read_text()
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])


def everything(scraped: dict[str, Scrape]) -> dict[str, list[dict[str, str]]]:
    """The series of all modes."""
    found: dict[str, list[dict[str, str]]] = {}
    for scrape in scraped.values():
        for name, labels in scrape.series.items():
            found.setdefault(name, []).extend(labels)
    return found


def test_every_alert_asks_for_what_is_served(scraped: dict[str, Scrape]) -> None:
    series = everything(scraped)
    assert [fault for rule in RULES for fault in faults(rule["expr"], series)] == []


@each_rule
def test_an_alert_says_how_bad_it_is_what_happened_and_where_to_read_on(
    rule: dict[str, Any],
) -> None:
    assert rule["alert"].startswith("GlobalDiscovery")
    assert rule["labels"]["severity"] in {"critical", "warning"}
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "runbook_url"}
    assert notes["summary"].endswith(".")
    assert notes["description"].endswith(".")
    assert notes["runbook_url"] == f"docs/operating.md#{rule['alert'].lower()}"


def test_every_alert_is_explained_to_operators_and_no_other_one() -> None:
    section = OPERATING.partition("\n## Alerts\n")[2].partition("\n## ")[0]
    parts = re.split(r"^### ", section, flags=re.MULTILINE)[1:]
    explained = {title: text for title, _, text in (part.partition("\n") for part in parts)}
    assert sorted(explained) == sorted(rule["alert"] for rule in RULES)
    assert [title for title, text in explained.items() if len(text.split()) < 12] == []


def test_the_operator_s_form_has_the_same_rules() -> None:
    rule = yaml.safe_load((COMPONENTS / "prometheus-operator/prometheus-rule.yaml").read_text())
    assert rule["kind"] == "PrometheusRule"
    assert rule["spec"] == {"groups": GROUPS}


@needs_promtool
def test_prometheus_reads_the_rules() -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", ALERTS)


@needs_promtool
def test_each_alert_fires_when_it_should_and_not_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(yaml.safe_dump(promtool_tests(str(ALERTS))))
    promtool("test", "rules", file)


def test_each_alert_is_tried() -> None:
    assert list(CASES) == [rule["alert"] for rule in RULES]
