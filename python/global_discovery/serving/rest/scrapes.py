"""The metrics as text, made in one piece of some milliseconds, and so not too often.

For each time the loop is left to others for two hundred times as long as that took, of
which up to `CREDIT_SECONDS` may lie before it. Scrapes that come meanwhile wait, and
those of one form share what is made next: what a scrape is given was never made before
it came. Prometheus scrapes every few seconds and does not notice, nor does who asks a
few times in a row; a program that scrapes in a loop is slowed down to that pace.
"""

import asyncio
import gzip
from typing import NamedTuple

from prometheus_client import CollectorRegistry, exposition
from prometheus_client.openmetrics import exposition as openmetrics

REST_FACTOR = 200
LONGEST_REST_SECONDS = 2.0
"""Far below the ten seconds that Prometheus waits for a scrape."""
CREDIT_SECONDS = 5.0
_GZIP_LEVEL = 1


class Form(NamedTuple):
    """How a scrape wants them."""

    as_openmetrics: bool
    """OpenMetrics, or else the Prometheus text format."""
    zipped: bool

    @property
    def content_type(self) -> str:
        """As both formats prescribe it."""
        if self.as_openmetrics:
            return openmetrics.CONTENT_TYPE_LATEST
        return exposition.CONTENT_TYPE_PLAIN_0_0_4


class Scrapes:
    """Of one registry. Belongs to one loop."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Reads the registry only."""
        self._registry = registry
        self._next: dict[Form, asyncio.Task[bytes]] = {}
        """By form, what those wait for who came since that was made last."""
        self._lane = asyncio.Lock()
        self._even_at = float("-inf")
        """When the others will have had the loop for as long as they should."""

    async def scrape(self, form: Form) -> bytes:
        """The metrics as they are from now on."""
        task = self._next.get(form)
        if task is None:
            task = self._next[form] = asyncio.create_task(self._make_in_time(form))
        return await asyncio.shield(task)

    async def _make_in_time(self, form: Form) -> bytes:
        loop = asyncio.get_running_loop()
        async with self._lane:
            await asyncio.sleep(self._even_at - loop.time())
            del self._next[form]
            began = loop.time()
            try:
                return self._make(form)
            finally:
                ended = loop.time()
                rest = min(REST_FACTOR * (ended - began), LONGEST_REST_SECONDS)
                self._even_at = max(self._even_at, ended - CREDIT_SECONDS) + rest

    def _make(self, form: Form) -> bytes:
        if form.as_openmetrics:
            text = openmetrics.generate_latest(self._registry)  # type: ignore[no-untyped-call]
        else:
            text = exposition.generate_latest(self._registry)
        # Some 50 KiB for two milliseconds of the loop, less than making them takes.
        return gzip.compress(text, _GZIP_LEVEL, mtime=0) if form.zipped else text
