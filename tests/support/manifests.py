"""The manifests in deploy/, rendered as `kubectl apply -k` would."""

import functools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from support.kube_assets import needed
from support.kube_objects import Object

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
OVERLAYS = ["registrations", "mcs", "karmada"]
FOLDERS = [*(f"overlays/{name}" for name in OVERLAYS), "karmada-hub", "relay"]


def rendered(folder: str | Path) -> list[Object]:
    """All objects of a kustomization, which is named by its path, in deploy/ or in full.

    Skips the test where there is no kubectl.
    """
    return [item for item in yaml.safe_load_all(_text(folder)) if item]


def a_kustomization(folder: Path, text: str) -> Path:
    """One of a user's own, in an empty folder."""
    (folder / "kustomization.yaml").write_text(text)
    return folder


def from_there(folder: Path) -> str:
    """This repository as a path that a kustomization in the folder may name."""
    return os.path.relpath(ROOT, folder)


def relay_with_about(folder: Path) -> str:
    """A kustomization in the folder: the relay, which may read its cluster's name."""
    there = f"{from_there(folder)}/deploy"
    return f"resources: [{there}/relay]\ncomponents: [{there}/components/relay-about]\n"


@functools.cache
def _text(folder: str | Path) -> str:
    run = subprocess.run(
        [needed("kubectl"), "kustomize", DEPLOY / folder],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def only(items: list[Object], kind: str, name: str | None = None) -> Object:
    """The one object of a kind."""
    (found,) = [
        item for item in items if item["kind"] == kind and name in (None, item["metadata"]["name"])
    ]
    return found


def pod_of(deployment: Object) -> Object:
    template: Object = deployment["spec"]["template"]
    return template


def containers_of(items: list[Object]) -> Iterator[dict[str, Any]]:
    """Of all Deployments."""
    for item in items:
        if item["kind"] == "Deployment":
            yield from pod_of(item)["spec"]["containers"]
