"""The paths of the status page, and who may see what on them.

Everything that any of these pages shows is looked at through what its caller may
read. Lists that concern the instance as a whole are shown to those who may read
everything. The style, script and picture are for everybody: they say nothing.
"""

from aiohttp import web

from global_discovery.domain import rules
from global_discovery.domain.errors import DiscoveryError, InvalidInput
from global_discovery.domain.explanation import Explanation, MayRead, everything
from global_discovery.domain.pool import PoolKey
from global_discovery.serving.access.guard import Visit
from global_discovery.serving.core import Core
from global_discovery.serving.page.assets import load_assets
from global_discovery.serving.page.events import HEADERS, EventStreams
from global_discovery.serving.page.pace import Pace
from global_discovery.serving.page.query import parse
from global_discovery.serving.page.rendering import HTML, SECURITY, Rendering, why_link
from global_discovery.serving.page.rows import lease_bar
from global_discovery.serving.page.status import StatusPages
from global_discovery.serving.rest import problem
from global_discovery.serving.rest.answer import Answer, Streamed, headers
from global_discovery.serving.rest.problem import Problem
from global_discovery.serving.rest.representation import Representation
from global_discovery.serving.rest.request_parts import query_parameters
from global_discovery.serving.rest.route import Call, Handler, Route
from global_discovery.serving.tls.keeper import TlsKeeper

_KEY_PARTS = 3


class PageHandlers:
    """`/`, `/why`, `/events` and the files that the pages need."""

    def __init__(self, core: Core, *, tls: TlsKeeper | None = None) -> None:
        """Reads the package's files, and of the core only what is there."""
        self.events = EventStreams(core)
        self._core = core
        self._rendering = Rendering()
        self._pace = Pace()
        self._status = StatusPages(
            core, self._rendering, self._pace, tls=tls, pages_open=self.events.__len__
        )
        self._assets = load_assets()

    def routes(self) -> list[Route]:
        """What is served on the REST port, and on no other one."""
        assets = [Route(path, {"GET": _serve(file)}) for path, file in self._assets.items()]
        return [
            Route("/", {"GET": self._for_people(self.status)}),
            Route("/why", {"GET": self._for_people(self.why)}),
            Route("/events", {"GET": self.follow}),
            *assets,
        ]

    async def status(self, call: Call) -> Answer:
        """`GET /`."""
        visit = await call.visit()
        page = await self._status.page(parse(call.query), _may_read(visit), call.account)
        return await page.answer_to(call.request.headers)

    async def why(self, call: Call) -> Answer:
        """`GET /why?pool=<cluster_id>/<namespace>/<dgd_name>`: what `ExplainPool` answers."""
        visit = await call.visit()
        visit.read()
        asked = query_parameters(call.query, ("pool",))["pool"]
        if len(asked) > 1:
            raise Problem(400, "BAD_PARAMETER", "pool may be given once")
        key = _key(asked[0]) if asked else None
        if key is not None:
            visit.read_key(key)
        explained = None
        if key is not None:
            explained = await self._core.explain(key, call.account, _may_read(visit))
        async with self._pace.turn(call.account):
            if explained is not None:
                body = await self._explain(explained)
            else:
                body = await self._explain_nothing()
        return await Representation(body, HTML, SECURITY).answer_to(call.request.headers)

    async def follow(self, call: Call) -> Answer | Streamed:
        """`GET /events`."""
        visit = await call.visit()
        may_read = _may_read(visit)
        query_parameters(call.query, ())
        if call.request.method == "HEAD":
            return Answer(200, HEADERS)
        return self.events.answer(call.request, visit, may_read)

    async def _explain(self, explained: Explanation) -> bytes:
        terms = self._core.settings.terms
        return await self._rendering.render(
            "why.html",
            **self._status.about(),
            self_link=why_link(explained.key),
            asked=str(explained.key),
            explained=explained,
            mark=explained.mark,
            shares=[(share, lease_bar(share, terms)) for share in explained.registration.shares],
        )

    async def _explain_nothing(self) -> bytes:
        about = self._status.about()
        return await self._rendering.render(
            "why.html", **about, self_link="/why", asked="", explained=None
        )

    def _for_people(self, handler: Handler) -> Handler:
        """The same, with errors as pages for callers who take HTML."""

        async def handle(call: Call) -> Answer | Streamed:
            try:
                return await handler(call)
            except Problem as error:
                found = error
            except DiscoveryError as error:
                found = problem.of(self._core.limits.judged(error, call.account))
            if not _takes_html(call.request):
                raise found
            raise _PageProblem(found, await self._error_page(found))

        return handle

    async def _error_page(self, error: Problem) -> bytes:
        return await self._rendering.render(
            "error.html",
            **self._status.about(),
            self_link="/",
            title=problem.TITLES[error.status],
            status=str(error.status),
            detail=str(error),
            violations=error.violations,
        )


class _PageProblem(Problem):
    """A problem that is told as a page."""

    def __init__(self, error: Problem, page: bytes) -> None:
        super().__init__(error.status, error.code, str(error), header_fields=error.header_fields)
        self._page = page

    def answer(self) -> Answer:
        """The page in place of the document."""
        fields = headers(HTML, SECURITY | dict(self.header_fields) | {"Vary": "Accept"})
        return super().answer()._replace(headers=fields, body=self._page)


def _may_read(visit: Visit) -> MayRead:
    """Raises the refusal for a caller who may read nothing."""
    scope = visit.read()
    return everything if scope.unlimited else scope.holds


def _serve(file: Representation) -> Handler:
    async def handle(call: Call) -> Answer:
        return await file.answer_to(call.request.headers)

    return handle


def _key(text: str) -> PoolKey:
    parts = text.strip().split("/")
    if len(parts) != _KEY_PARTS:
        detail = "pool must be <cluster_id>/<namespace>/<dgd_name>"
        raise Problem(400, "BAD_PARAMETER", detail)
    try:
        return rules.check_key(*parts)
    except InvalidInput as error:
        raise problem.of(error, status=400) from None


def _takes_html(request: web.BaseRequest) -> bool:
    accepted = ",".join(request.headers.getall("Accept", ()))
    types = (entry.partition(";")[0].strip().lower() for entry in accepted.split(","))
    return "text/html" in types
