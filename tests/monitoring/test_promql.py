"""The reading of expressions, on which the tests of alerts and dashboard rest."""

import pytest

from support.promql import Selector, faults, spoken_of

SERIES = {
    "calls_total": [{"face": "rest", "code": "200"}, {"face": "grpc", "code": "OK"}],
    "ready": [{}],
}


def test_selectors_and_labels_are_found_and_nothing_else_is() -> None:
    spoken = spoken_of(
        'histogram_quantile(0.99, sum by (le, job) (rate(calls_bucket{face="a", code!~"2.."}[5m])))'
        " > 0.5 * max(ready offset 15m) and on (job) group by (job) (last_over_time(ready[1h]))"
        " unless 3 > bool up"
    )
    assert spoken.selectors == [
        Selector("calls_bucket", [("face", "=", "a"), ("code", "!~", "2..")]),
        Selector("ready", []),
        Selector("ready", []),
        Selector("up", []),
    ]
    assert spoken.grouped == {"le", "job"}


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("lost_total > 0", "lost_total is not served"),
        ("rate(calls[5m])", "calls is not served"),
        ('calls_total{method="x"}', "calls_total has no label method"),
        ('calls_total{code="500"}', "calls_total: code is never ['500']"),
        ('calls_total{code=~"200|500"}', "calls_total: code is never ['500']"),
        ("sum by (reason) (calls_total)", "no metric has the label reason"),
        ("1 + 1", "no metric in 1 + 1"),
    ],
)
def test_what_is_not_there_is_found(expression: str, fault: str) -> None:
    assert faults(expression, SERIES) == [fault]


@pytest.mark.parametrize(
    "expression",
    [
        'sum by (job, face) (rate(calls_total{code!~"2..", job=~"$job"}[5m])) > 0',
        "up == 0 and on (job) ready",
        'calls_total{code=~"200|OK"}',
    ],
)
def test_what_is_there_is_no_fault(expression: str) -> None:
    assert faults(expression, SERIES) == []
