"""The clusters that the documents speak of, as far as an API server without nodes is one.

Their readers have a cluster of their own, which `kubectl` reaches without a word and
which imports the pool `models/qwen` of the cluster `rome`, and Karmada's hub.
"""

import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from support.kube_apiserver import ControlPlane, a_control_plane
from support.kube_assets import needed
from support.kube_objects import a_namespace
from support.slices_of import mcs_slice

HUB = "karmada-apiserver.config"
"""The name of the hub's kubeconfig in the documents."""
OF_THE_POOL = (("qwen-pool-relay", ("health", 8082)), ("qwen-frontend", ("http", 8000)))


@contextlib.asynccontextmanager
async def clusters_of(text: str, folder: Path) -> AsyncIterator["Clusters"]:
    """Those that a document needs, with what is in them before a reader does anything."""
    folders = [folder / "own", *([folder / "hub"] if HUB in text else [])]
    async with contextlib.AsyncExitStack() as running:
        for each in folders:
            each.mkdir()
        own, *others = [
            await running.enter_async_context(a_control_plane(each)) for each in folders
        ]
        await own.create(a_namespace("models"))
        for service, port in OF_THE_POOL:
            imported = mcs_slice(cluster="rome", service=service, addresses=["10.0.3.8"], port=port)
            imported["metadata"]["namespace"] = "models"
            await own.create(imported)
        yield Clusters(own, others[0] if others else None)


class Clusters(NamedTuple):
    """Made by `clusters_of`."""

    own: ControlPlane
    hub: ControlPlane | None

    def furnish(self, folder: Path) -> None:
        """Makes the folder, with kubeconfigs where the documents have them."""
        folder.mkdir()
        if self.hub is not None:
            (folder / HUB).symlink_to(self.hub.kubeconfig("hub"))
        (folder / "clusters").mkdir()
        for name in ("east", "west"):
            (folder / "clusters" / f"{name}.yaml").symlink_to(self.own.kubeconfig(name))

    def variables(self, folder: Path) -> dict[str, str]:
        """With these, commands find kubectl, and kubectl finds the own cluster."""
        programs = [Path(sys.executable).parent, Path(needed("kubectl")).parent, os.environ["PATH"]]
        return {
            "PATH": ":".join(map(str, programs)),
            "KUBECONFIG": str(self.own.kubeconfig("own")),
            "KUBECACHEDIR": str(folder / ".kubectl"),
        }
