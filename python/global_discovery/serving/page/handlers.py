"""The paths of the status page, and who may see what on them.

`reads` is where a caller's right to read comes in: everything that any of these
pages shows is looked at through the scope that it gives for a request. Lists that
concern the instance as a whole are shown to those who may read everything.
"""

from collections.abc import Callable

from aiohttp import web

from global_discovery.domain import rules
from global_discovery.domain.access import EVERY_KEY, Scope
from global_discovery.domain.errors import DiscoveryError, InvalidInput
from global_discovery.domain.explanation import MayRead, everything
from global_discovery.domain.pool import PoolKey
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

Reads = Callable[[web.BaseRequest], Scope]
_KEY_PARTS = 3


def reads_everything(request: web.BaseRequest) -> Scope:
    """Where callers are not told apart."""
    del request
    return EVERY_KEY


class PageHandlers:
    """`/`, `/why`, `/events` and the files that the pages need."""

    def __init__(
        self, core: Core, *, tls: TlsKeeper | None = None, reads: Reads = reads_everything
    ) -> None:
        """Reads the package's files, and of the core only what is there."""
        self.events = EventStreams(core)
        self._core = core
        self._reads = reads
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
        page = await self._status.page(parse(call.query), self._may_read(call))
        return await page.answer_to(call.request.headers)

    async def why(self, call: Call) -> Answer:
        """`GET /why?pool=<cluster_id>/<namespace>/<dgd_name>`: what `ExplainPool` answers."""
        asked = query_parameters(call.query, ("pool",))["pool"]
        if len(asked) > 1:
            raise Problem(400, "BAD_PARAMETER", "pool may be given once")
        may_read = self._may_read(call)
        async with self._pace.turn():
            if asked:
                body = await self._explain(asked[0], may_read)
            else:
                body = await self._explain_nothing()
        return await Representation(body, HTML, SECURITY).answer_to(call.request.headers)

    async def follow(self, call: Call) -> Answer | Streamed:
        """`GET /events`."""
        query_parameters(call.query, ())
        if call.request.method == "HEAD":
            return Answer(200, HEADERS)
        return self.events.answer(call.request, self._may_read(call))

    def _may_read(self, call: Call) -> MayRead:
        """`everything` itself for whoever may read that: what the instance shows depends on it."""
        scope = self._reads(call.request)
        return everything if scope.unlimited else scope.holds

    async def _explain(self, asked: str, may_read: MayRead) -> bytes:
        key = _key(asked)
        if not may_read(key):
            raise Problem(403, "PERMISSION_DENIED", "this pool is not among those you may read")
        explained = self._core.explain(key, may_read)
        terms = self._core.settings.terms
        return await self._rendering.render(
            "why.html",
            **self._status.about(),
            self_link=why_link(key),
            asked=str(key),
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
                found = problem.of(error)
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
        return Answer(self.status, fields, self._page)


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
