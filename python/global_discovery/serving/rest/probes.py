"""Health, metrics and the document of this contract."""

from prometheus_client import CollectorRegistry

from global_discovery.serving.core import Core
from global_discovery.serving.readiness import Readiness
from global_discovery.serving.rest.answer import JSON, Answer, headers, json_answer
from global_discovery.serving.rest.list_body import reason_codes
from global_discovery.serving.rest.openapi import document_json
from global_discovery.serving.rest.problem import Problem
from global_discovery.serving.rest.request_parts import takes_gzip, wants_openmetrics
from global_discovery.serving.rest.route import Call, Route
from global_discovery.serving.rest.scrapes import Form, Scrapes
from global_discovery.serving.turns import SCRAPE


class ProbeHandlers:
    """What machines ask about the instance itself. A query is ignored, as probes send some."""

    def __init__(self, core: Core, registry: CollectorRegistry, readiness: Readiness) -> None:
        """Reads only."""
        self._core = core
        self._scrapes = Scrapes(registry)
        self._readiness = readiness
        self._document = Answer(200, headers(JSON), document_json())

    def routes(self) -> list[Route]:
        """What is served on the REST port and, when there is one, on the health port."""
        return [
            Route("/healthz", {"GET": self.healthz}, counts=False),
            Route("/readyz", {"GET": self.readyz}, counts=False),
            Route("/livez", {"GET": self.livez}, counts=False),
            Route("/metrics", {"GET": self.metrics}, counts=False),
        ]

    def document_route(self) -> Route:
        """`GET /openapi.json`."""
        return Route("/openapi.json", {"GET": self.openapi})

    async def healthz(self, call: Call) -> Answer:
        """For people and dashboards: how good the list is."""
        del call
        if not self._readiness.was_read():
            raise _later("NOT_READY", "the store and the sources were not read yet")
        self._core.pools.refresh()
        self._core.routers.refresh()
        mark = self._core.mark
        well = mark.exact and not self._core.store_state().failing
        status = "ok" if well else "degraded"
        return json_answer(
            {"status": status, "complete": mark.exact, "reasons": reason_codes(mark)}
        )

    async def readyz(self, call: Call) -> Answer:
        """For load balancers: whether registrations can be sent here."""
        del call
        if not self._readiness.ready():
            raise _later("NOT_READY", "registrations cannot be taken")
        return json_answer({"status": "ready"})

    async def livez(self, call: Call) -> Answer:
        """For supervisors: whether a restart is needed."""
        del call
        if not self._readiness.live():
            raise _later("DEAD", "a task that must run for ever has ended")
        return json_answer({"status": "live"})

    async def metrics(self, call: Call) -> Answer:
        """In the Prometheus text format, or as OpenMetrics for those who ask for that."""
        asked = call.request.headers
        fields = {"Vary": "Accept, Accept-Encoding"}
        zipped = takes_gzip(",".join(asked.getall("Accept-Encoding", ())))
        if zipped:
            fields["Content-Encoding"] = "gzip"
        form = Form(wants_openmetrics(",".join(asked.getall("Accept", ()))), zipped)
        body = await self._scrapes.scrape(form)
        return Answer(200, headers(form.content_type, fields), body, cost=SCRAPE)

    async def openapi(self, call: Call) -> Answer:
        """The OpenAPI document."""
        del call
        return self._document


def _later(code: str, detail: str) -> Problem:
    return Problem(503, code, detail, header_fields={"Retry-After": "1"})
