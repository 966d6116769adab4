"""Compares the relay's cluster_id with what the cluster itself says that it is called.

The ClusterProperty `cluster.clusterset.k8s.io` holds the name that an MCS
implementation knows the cluster by. A pool that is registered under another one is
never joined with its imported slices, and nothing else tells the relay so.

This is a help and nothing more: without the extra `kubernetes`, a kubeconfig or
service account, the API, the property or the permission nothing is known, which
is no error. Whatever happens here, the pool stays registered.
"""

import asyncio
import importlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import structlog

from global_discovery.domain.timer import Timer

if TYPE_CHECKING:
    from global_discovery.relay.cluster_property import ClusterProperty

CHECK_SECONDS = 300.0
MISMATCH = "ClusterIDMismatch"
MAX_SHOWN = 253
"""Characters of the property: no cluster_id has more."""
_READER = "global_discovery.relay.cluster_property"
_SIGNS_OF_AN_API = ("KUBECONFIG", "KUBERNETES_SERVICE_HOST")


class ClusterIdCheck:
    """What the cluster says of itself. `run` it once."""

    def __init__(
        self, cluster_id: str, *, timer: Timer, environ: Mapping[str, str] = os.environ
    ) -> None:
        """Asks nothing yet. `environ` tells where an API server may be."""
        self._cluster_id = cluster_id
        self._timer = timer
        self._environ = environ
        self._reader: ClusterProperty | None = None
        self._told: str | None = None
        self.property: str | None = None
        """The cluster's own name for itself; None while that is not known."""

    @property
    def mismatch(self) -> bool:
        """Whether it is known to be another one than the relay's."""
        return self.property is not None and self.property != self._cluster_id

    async def run(self) -> None:
        """Asks now and every five minutes, for ever; nothing that goes wrong ends it."""
        try:
            while True:
                await self.check()
                await self._timer.sleep(CHECK_SECONDS)
        finally:
            if self._reader is not None:
                await self._reader.close()

    async def check(self) -> None:
        """Asks once. What was known stays known while nobody answers."""
        if not any(map(self._environ.get, _SIGNS_OF_AN_API)):
            return
        logger = structlog.get_logger()
        try:
            if self._reader is None:
                self._reader = await self._load()
            found = await self._reader.read()
        except Exception as error:  # noqa: BLE001 - no extra, no API, no permission: no error
            logger.debug("cluster_property_unknown", message=str(error)[:MAX_SHOWN])
            return
        self.property = None if found is None else found[:MAX_SHOWN]
        self._tell()

    async def _load(self) -> "ClusterProperty":
        """Raises ImportError without the extra."""
        # It takes a second, in which the pool is registered already.
        reader = await asyncio.to_thread(importlib.import_module, _READER)
        made: ClusterProperty = reader.ClusterProperty(timer=self._timer, environ=self._environ)
        return made

    def _tell(self) -> None:
        wrong = self.property if self.mismatch else None
        if wrong == self._told:
            return
        self._told = wrong
        logger = structlog.get_logger()
        if wrong is None:
            logger.info("cluster_id_matches", cluster_id=self._cluster_id)
        else:
            logger.warning(
                "cluster_id_mismatch",
                reason=MISMATCH,
                cluster_id=self._cluster_id,
                cluster_property=wrong,
            )
