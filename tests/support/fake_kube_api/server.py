"""The HTTP side: paths, paging, watches, and the faults in their stead."""

import asyncio
import contextlib
import json
import secrets
import ssl
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from aiohttp import web

from support.fake_kube_api.faults import (
    Answer,
    Drop,
    Fault,
    Hang,
    Stream,
    gone,
    status,
    too_large_version,
    unauthorized,
)
from support.fake_kube_api.selectors import selects
from support.fake_kube_api.store import SLICES, Change, Collection, Matches, Object, Store, line

Verb = Literal["list", "continue", "watch", "get"]
PATIENCE_SECONDS = 30
_CLOSE, _RESET = "close", "reset"


@dataclass(frozen=True)
class Asked:
    """One request. `continue` is a further page of a list."""

    verb: Verb
    path: str
    namespace: str | None
    params: Mapping[str, str]
    headers: Mapping[str, str]


@dataclass(eq=False)
class _Watch:
    collection: Collection
    matches: Matches
    bookmarks: bool
    after: int
    """A version; one of the future is waited for, as the real server does."""
    queue: asyncio.Queue[bytes | str] = field(default_factory=asyncio.Queue)

    def show(self, change: Change) -> None:
        if change.collection != self.collection or change.version <= self.after:
            return
        if seen := change.seen_by(self.matches):
            self.queue.put_nowait(line(*seen))


class FakeKubeApi:
    """See the package."""

    def __init__(self) -> None:
        self.store = Store()
        self.asked: list[Asked] = []
        self.bearer: str | None = None
        """When set, requests without it get 401."""
        self.tokens: dict[str, str] = {}
        """Users by the tokens that a TokenReview calls good, for whatever audience it asks."""
        self.port = 0
        self.scheme = "http"
        self.hung_up = asyncio.Event()
        """Set when a caller left a watch or a request that hangs."""
        self._faults: deque[tuple[str | None, Fault]] = deque()
        self._always: list[tuple[str | None, Fault]] = []
        self._watches: list[_Watch] = []
        self._pages: dict[str, tuple[int, list[Object]]] = {}
        self._moved = asyncio.Condition()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    # -- objects -------------------------------------------------------------

    def put(self, item: Object) -> None:
        """Creates or replaces it; `kind` EndpointSlice unless it says otherwise."""
        self._show(self.store.put(item))

    def delete(self, namespace: str, name: str, *, collection: Collection = SLICES) -> None:
        """Deletes it. KeyError when it is not there."""
        self._show(self.store.delete(collection, (namespace, name)))

    def serves(self, collection: Collection) -> None:
        """Knows a kind of which there is no object yet."""
        self.store.collections.setdefault(collection, {})

    def compact(self) -> None:
        """Versions before now, and places in lists, expire."""
        self.store.compact()

    def restore(self, earlier: Store) -> None:
        """As when etcd is restored: objects and versions go back, open watches show nothing."""
        self.store = earlier.snapshot()

    # -- faults --------------------------------------------------------------

    def fail_next(self, *faults: Fault, verb: Verb | None = None) -> None:
        """One request each, in order; of this kind only, when one is given."""
        self._faults.extend((verb, fault) for fault in faults)

    def fail_always(self, fault: Fault, *, verb: Verb | None = None) -> None:
        """Every request, of this kind, until `heal`."""
        self._always.append((verb, fault))

    def heal(self) -> None:
        """No more faults."""
        self._always.clear()
        self._faults.clear()

    def bookmark(self) -> None:
        """To every open watch that asked for them."""
        meta = {"resourceVersion": str(self.store.version), "creationTimestamp": None}
        for watch in self._watches:
            if watch.bookmarks:
                watch.queue.put_nowait(line("BOOKMARK", {"metadata": meta}))

    def inject(self, data: bytes) -> None:
        """These bytes into every open watch."""
        for watch in self._watches:
            watch.queue.put_nowait(data)

    def end_watches(self) -> None:
        """As at the end of their time."""
        for watch in self._watches:
            watch.queue.put_nowait(_CLOSE)

    def reset_watches(self) -> None:
        """As when a load balancer forgets them."""
        for watch in self._watches:
            watch.queue.put_nowait(_RESET)

    # -- what was asked ------------------------------------------------------

    def count(self, *verbs: Verb) -> int:
        """How many requests of these kinds came; of all kinds when none is given."""
        return sum(not verbs or asked.verb in verbs for asked in self.asked)

    @property
    def open_watches(self) -> int:
        return len(self._watches)

    async def watching(self, watches: int = 1) -> None:
        """Returns once exactly so many watches are open."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._moved:
            await self._moved.wait_for(lambda: len(self._watches) == watches)

    async def asked_for(self, requests: int, *verbs: Verb) -> None:
        """Returns once at least so many requests of these kinds have come."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._moved:
            await self._moved.wait_for(lambda: self.count(*verbs) >= requests)

    def kubeconfig(self, folder: Path, **user: Any) -> Path:
        """A kubeconfig of this server in `folder`; `user` holds its credentials."""
        cluster: dict[str, str] = {"server": self.url}
        if (folder / "ca.crt").exists():
            cluster["certificate-authority"] = "ca.crt"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "clusters": [{"name": "fake", "cluster": cluster}],
            "users": [{"name": "fake", "user": user}],
        }
        path = folder / "kubeconfig"
        path.write_text(json.dumps(document))
        return path

    # -- the server ----------------------------------------------------------

    async def answer(self, request: web.Request) -> web.StreamResponse:
        asked = await self._note(request)
        if (fault := self._fault(asked.verb)) is not None:
            return await self._misbehave(request, fault)
        if self.bearer and request.headers.get("Authorization") != f"Bearer {self.bearer}":
            return _plain(unauthorized())
        found = request.match_info
        collection = Collection(found["group"], found["version"], found["plural"])
        if collection not in self.store.collections:
            return _plain(Answer(404, b"404 page not found\n", {}, "text/plain"))
        matches = selects(asked.params.get("labelSelector", ""))
        if asked.namespace is not None:
            matches = _within(asked.namespace, matches)
        if asked.verb == "get":
            return self._get(collection, asked.namespace or "", found["name"])
        if asked.verb == "watch":
            return await self._watch(request, asked, collection, matches)
        return self._list(asked, collection, matches)

    async def review(self, request: web.Request) -> web.StreamResponse:
        """TokenReview (authentication.k8s.io/v1)."""
        if self.bearer and request.headers.get("Authorization") != f"Bearer {self.bearer}":
            return _plain(unauthorized())
        spec = (await request.json())["spec"]
        user = self.tokens.get(spec["token"])
        told: dict[str, Any] = {"authenticated": user is not None}
        if user is not None:
            told |= {"user": {"username": user}, "audiences": spec["audiences"]}
        return web.json_response({"kind": "TokenReview", "status": told}, status=201)

    async def _note(self, request: web.Request) -> Asked:
        params = dict(request.query)
        verb: Verb = "continue" if "continue" in params else "list"
        if request.match_info.get("name"):
            verb = "get"
        elif params.get("watch") in ("true", "1"):
            verb = "watch"
        namespace = request.match_info.get("namespace")
        asked = Asked(verb, request.path, namespace, params, request.headers)
        self.asked.append(asked)
        await self._move()
        return asked

    def _fault(self, verb: Verb) -> Fault | None:
        for entry in self._faults:
            if entry[0] in (None, verb):
                self._faults.remove(entry)
                return entry[1]
        return next((fault for for_verb, fault in self._always if for_verb in (None, verb)), None)

    async def _misbehave(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if isinstance(fault, Answer):
            return _plain(fault)
        try:
            if isinstance(fault, Stream):
                response = web.StreamResponse(headers={"Content-Type": "application/json"})
                await response.prepare(request)
                await response.write(fault.data)
                if fault.end == "close":
                    return response
                if fault.end == "hang":
                    await asyncio.Event().wait()
            elif isinstance(fault, Hang):
                await asyncio.Event().wait()
        finally:
            self.hung_up.set()
        assert isinstance(fault, Stream | Drop)
        _abort(request)
        return web.Response()

    def _get(self, collection: Collection, namespace: str, name: str) -> web.Response:
        item = self.store.collections[collection].get((namespace, name))
        if item is None:
            return _plain(status(404, "NotFound", f'{collection.plural} "{name}" not found'))
        return web.json_response(item)

    def _list(self, asked: Asked, collection: Collection, matches: Matches) -> web.Response:
        if int(asked.params.get("resourceVersion") or 0) > self.store.version:
            return _plain(too_large_version())
        if asked.verb == "continue":
            version, items = self._pages.get(asked.params["continue"], (0, []))
            if version < self.store.oldest:
                return _plain(gone())
        else:
            version, items = self.store.version, self.store.listed(collection, matches)
        limit = int(asked.params.get("limit") or 0) or len(items)
        meta: dict[str, Any] = {"resourceVersion": str(version)}
        if rest := items[limit:]:
            token = meta["continue"] = secrets.token_hex(8)
            meta["remainingItemCount"] = len(rest)
            self._pages[token] = (version, rest)
        document = {
            "kind": collection.list_kind,
            "apiVersion": f"{collection.group}/{collection.version}",
            "metadata": meta,
            "items": items[:limit],
        }
        return web.json_response(document)

    async def _watch(
        self, request: web.Request, asked: Asked, collection: Collection, matches: Matches
    ) -> web.StreamResponse:
        version = int(asked.params.get("resourceVersion") or 0)
        if version and version < self.store.oldest:
            return _plain(gone())
        bookmarks = asked.params.get("allowWatchBookmarks") == "true"
        watch = _Watch(collection, matches, bookmarks, version)
        if version:
            for change in self.store.since(version, collection):
                watch.show(change)
        else:
            for item in self.store.listed(collection, matches):
                watch.queue.put_nowait(line("ADDED", item))
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        self._watches.append(watch)
        try:
            await self._move()
            async with asyncio.timeout(int(asked.params.get("timeoutSeconds") or 1800)):
                await _pour(request, response, watch)
        except TimeoutError:
            pass
        finally:
            self._watches.remove(watch)
            self.hung_up.set()
            await asyncio.shield(self._move())
        return response

    def _show(self, change: Change) -> None:
        for watch in self._watches:
            watch.show(change)

    async def _move(self) -> None:
        async with self._moved:
            self._moved.notify_all()


async def _pour(request: web.Request, response: web.StreamResponse, watch: _Watch) -> None:
    while True:
        data = await watch.queue.get()
        if data == _CLOSE:
            return
        if isinstance(data, str):
            _abort(request)
            return
        await response.write(data)


def _within(namespace: str, matches: Matches) -> Matches:
    return lambda item: item["metadata"].get("namespace") == namespace and matches(item)


def _plain(answer: Answer) -> web.Response:
    return web.Response(
        status=answer.status,
        body=answer.body,
        headers=answer.headers,
        content_type=answer.content_type,
    )


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


@contextlib.asynccontextmanager
async def fake_kube_api(
    port: int = 0, *, api: FakeKubeApi | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[FakeKubeApi]:
    """Listens on loopback until the end. `api` is one that listened before."""
    fake = api or FakeKubeApi()
    app = web.Application()
    base = "/apis/{group}/{version}"
    for path in ("/{plural}", "/{plural}/{name}"):
        app.router.add_get(base + path, fake.answer)
        app.router.add_get(base + "/namespaces/{namespace}" + path, fake.answer)
    app.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", fake.review)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
        fake.port = int(runner.addresses[0][1])
        fake.scheme = "https" if tls else "http"
        yield fake
    finally:
        await runner.cleanup()
