"""The programs of a Kubernetes control plane, where they are on this machine."""

import os
import shutil
from pathlib import Path

import pytest

HOW_TO_GET_THEM = (
    "set KUBEBUILDER_ASSETS to a folder with kube-apiserver and etcd in it: "
    "`setup-envtest use -p path` downloads one, `.ci/build-kube-apiserver` builds one with Go"
)


def program(name: str) -> str | None:
    """From KUBEBUILDER_ASSETS, else from PATH; None when it is in neither."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and (found := shutil.which(name, path=str(Path(assets).resolve()))):
        return found
    return shutil.which(name)


def needed(name: str) -> str:
    """The program's path. Skips the test where there is none."""
    found = program(name)
    if found is None:
        pytest.skip(f"there is no {name}: {HOW_TO_GET_THEM}")
    return found
