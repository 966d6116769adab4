"""The dashboard asks for what is served, and Grafana can lay it out."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.promql import faults
from support.promtool import needs_promtool, promtool
from support.scrapes import Scrape

FILE = Path(__file__).parents[2] / "deploy/components/monitoring/dashboard.json"
DASHBOARD: dict[str, Any] = json.loads(FILE.read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
SHOWN = [panel for panel in PANELS if panel["type"] != "row"]
TYPES = {"timeseries", "stat", "state-timeline", "table"}
GRAFANA_S_OWN = {"$__rate_interval": "5m", "$__range": "3h"}
each_panel = pytest.mark.parametrize("panel", SHOWN, ids=lambda panel: panel["title"])


def expressions() -> list[str]:
    """Of panels and annotations, as Grafana would send them."""
    own = [one["expr"] for one in DASHBOARD["annotations"]["list"] if "expr" in one]
    found = [target["expr"] for panel in SHOWN for target in panel["targets"]] + own
    for name, value in GRAFANA_S_OWN.items():
        found = [expression.replace(name, value) for expression in found]
    return found


def test_every_panel_asks_for_what_is_served(scraped: dict[str, Scrape]) -> None:
    series: dict[str, list[dict[str, str]]] = {}
    for scrape in scraped.values():
        for name, labels in scrape.series.items():
            series.setdefault(name, []).extend(labels)
    assert [fault for expression in expressions() for fault in faults(expression, series)] == []


@needs_promtool
def test_prometheus_reads_every_expression(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": expression}
        for number, expression in enumerate(expressions())
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", file)


def test_every_expression_keeps_to_the_chosen_instances() -> None:
    chosen = 'namespace=~"$namespace", job=~"$job", instance=~"$instance"'
    for expression in expressions():
        for part in re.findall(r"(?:global_discovery|process)_\w+(\{[^}]*\})?", expression):
            assert chosen in part or not part


def test_the_variables_are_those_that_the_expressions_use() -> None:
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(?!__)(\w+)\}?", FILE.read_text()))
    assert used == variables == {"datasource", "namespace", "job", "instance"}


def test_ids_are_unique_and_no_two_panels_overlap() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    for one, other in itertools.combinations([panel["gridPos"] for panel in PANELS], 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in PANELS)


def test_the_rows_go_from_the_list_to_the_process() -> None:
    assert [panel["title"] for panel in PANELS if panel["type"] == "row"] == [
        "Is the list right?",
        "Who registers",
        "Who watches",
        "Sources",
        "Store",
        "Calls",
        "Process",
    ]


@each_panel
def test_a_panel_says_what_it_shows_in_which_unit_and_is_of_a_kind_that_is_kept(
    panel: dict[str, Any],
) -> None:
    assert panel["type"] in TYPES
    assert panel["description"].endswith((".", "?"))
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    references = [target["refId"] for target in panel["targets"]]
    assert len(set(references)) == len(references) > 0


def test_grafana_finds_it_again_after_an_update() -> None:
    assert DASHBOARD["uid"] == "global-discovery"
    assert DASHBOARD["schemaVersion"] >= 39
    assert "id" not in DASHBOARD
