"""Which paths there are, and what may be done with each.

A path is compared literally, as it was sent: one spelling a resource. Only the
three parts of a key are decoded, once, by whoever handles them.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping

from aiohttp import web

from global_discovery.serving.access.guard import Guard, Visit
from global_discovery.serving.limits import counted
from global_discovery.serving.rest.answer import Answer, Streamed
from global_discovery.serving.rest.peer import RestPeer

KEY_PATH = "/pools/{cluster_id}/{namespace}/{dgd_name}"
_BEFORE_KEY = "/pools/"
_KEY_PARTS = 3


OTHER = "other"
"""The name of every call that is not to a documented path and method."""


class Call:
    """One request, as a handler sees it."""

    __slots__ = ("_guard", "account", "key", "label", "query", "request")

    def __init__(self, request: web.BaseRequest, guard: Guard) -> None:
        """The gateway fills in the rest as it finds its way."""
        self.request = request
        self.query = ""
        self.key: tuple[str, ...] = ()
        """The three segments of a key path, not decoded; empty on other paths."""
        self.label = OTHER
        """Its name in metrics, log and audit."""
        self.account = ""
        """Under what name its caller is counted: an address, until it has proven an identity."""
        self._guard = guard

    async def visit(self) -> Visit:
        """Who calls. Raises the refusal for a caller whose token is not accepted."""
        visit = await self._guard.visit(RestPeer(self.request), self.label)
        self.account = counted(visit.caller)
        return visit


Handler = Callable[[Call], Awaitable[Answer | Streamed]]


class Route:
    """One path and its methods. GET brings HEAD with it, and every path has OPTIONS."""

    def __init__(
        self, template: str, handlers: Mapping[str, Handler], *, counts: bool = True
    ) -> None:
        """`handlers` by method, without HEAD and OPTIONS."""
        self.template = template
        self.counts = counts
        """Whether who calls it is one for whom others have to leave room: no probe is."""
        self.methods = tuple(handlers)
        self.handlers = dict(handlers)
        allowed = list(handlers)
        if "GET" in handlers:
            self.handlers["HEAD"] = handlers["GET"]
            allowed.insert(allowed.index("GET") + 1, "HEAD")
        self.allow = ", ".join([*allowed, "OPTIONS"])
        self.labels = {
            method: f"{'GET' if method == 'HEAD' else method} {template}"
            for method in self.handlers
        }
        """The names of its calls in the metrics."""


class Routes:
    """All routes of one port."""

    def __init__(self, routes: Iterable[Route]) -> None:
        """Templates are distinct; KEY_PATH is the only one with parameters."""
        self.all = tuple(routes)
        self._by_path = {route.template: route for route in self.all}
        self._of_keys = self._by_path.pop(KEY_PATH, None)

    @property
    def allow(self) -> str:
        """What the server as a whole can do, for `OPTIONS *`."""
        methods = dict.fromkeys(", ".join(route.allow for route in self.all).split(", "))
        return ", ".join(methods)

    def find(self, path: str) -> tuple[Route, tuple[str, ...]] | None:
        """The route of a path, and the segments of its key."""
        route = self._by_path.get(path)
        if route is not None:
            return route, ()
        if self._of_keys is not None and path.startswith(_BEFORE_KEY):
            key = tuple(path[len(_BEFORE_KEY) :].split("/"))
            if len(key) == _KEY_PARTS and all(key):
                return self._of_keys, key
        return None
