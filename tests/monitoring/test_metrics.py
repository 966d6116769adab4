"""What the metrics promise to whoever reads them: names, labels, types, and a page on each."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.scrapes import MODES, Scrape

OPERATING = (Path(__file__).parents[2] / "docs/operating.md").read_text()
ENDINGS = {"counter": "_total", "info": "_info"}


def explained() -> set[str]:
    table = OPERATING.partition("## Metrics")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([a-z_0-9]+)`", row)}


def served(scraped: dict[str, Scrape]) -> set[str]:
    return {
        name.removeprefix("global_discovery_") + ENDINGS.get(kind, "")
        for scrape in scraped.values()
        for name, kind in scrape.families.items()
    }


def test_every_metric_of_every_mode_is_explained_to_operators_and_no_other_one(
    scraped: dict[str, Scrape],
) -> None:
    assert served(scraped) == explained()


def test_no_label_but_those_with_fixed_values_is_used(scraped: dict[str, Scrape]) -> None:
    """A new label must be thought about: this list is where that is seen."""
    labels = {
        label
        for scrape in scraped.values()
        for name, all_of_it in scrape.series.items()
        for series in all_of_it
        for label in series
    }
    assert labels == {
        *("face", "method", "code", "le"),  # routes and codes, not paths
        *(
            "reason",
            "view",
            "state",
            "side",
            "warning",
            "outcome",
            "certificate",
            "limit",
        ),  # enumerations
        *("operation",),  # of the store's interface and of DynamoDB's
        *("version", "pool_discovery", "registration_storage"),  # one series each
    }


def test_a_histogram_s_buckets_end_with_everything(scraped: dict[str, Scrape]) -> None:
    series = scraped["dynamodb"].series
    for name in [name for name in series if name.endswith("_bucket")]:
        assert any(labels["le"] == "+Inf" for labels in series[name])
        assert len({labels["le"] for labels in series[name]}) == 14


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (prometheus)")
@pytest.mark.parametrize("mode", MODES)
def test_prometheus_own_linter_finds_nothing(scraped: dict[str, Scrape], mode: str) -> None:
    run = subprocess.run(
        ["promtool", "check", "metrics"],
        input=scraped[mode].text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
