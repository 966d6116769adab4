"""The components render with every overlay, and carry the files as they are."""

from pathlib import Path

import pytest
import yaml

from support.manifests import DEPLOY, OVERLAYS, composed, containers_of, only, pod_of

FILES = DEPLOY / "components/monitoring"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_rule_file_and_the_dashboard_are_mounted_from_config_maps(
    overlay: str, tmp_path: Path
) -> None:
    items = composed(tmp_path, f"overlays/{overlay}", "monitoring")
    alerts = only(items, "ConfigMap", "global-discovery-alerts")
    assert alerts["data"] == {"alerts.yaml": (FILES / "alerts.yaml").read_text()}
    dashboard = only(items, "ConfigMap", "global-discovery-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    shown = (FILES / "dashboard.json").read_text()
    assert dashboard["data"] == {"global-discovery.json": shown}
    assert len(shown) < 256 * 1024  # what an annotation of kubectl apply may hold


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_operator_is_told_of_a_port_that_the_pods_have(overlay: str, tmp_path: Path) -> None:
    items = composed(tmp_path, f"overlays/{overlay}", "prometheus-operator")
    monitor = only(items, "PodMonitor")
    template = pod_of(only(items, "Deployment"))
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= template["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    ports = [port["name"] for each in containers_of(items) for port in each["ports"]]
    assert endpoint["port"] in ports
    rule = only(items, "PrometheusRule")
    assert rule["metadata"]["namespace"] == monitor["metadata"]["namespace"]
    groups = yaml.safe_load((FILES / "alerts.yaml").read_text())["groups"]
    assert rule["spec"] == {"groups": groups}
