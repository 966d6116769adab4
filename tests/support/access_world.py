"""A service with a policy, and callers of both faces that prove who they are by certificates.

A call is made the same way over either face, and answered with its gRPC code and
reason, so that one test holds both of them to the same rules.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import grpc
import trustme

from global_discovery.domain.events import Event
from global_discovery.serving.access.reviews import TokenCluster
from global_discovery.serving.service import Service
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.access import certificate_of, in_file
from support.certificates import HOST, Pair, a_pair, client_context, in_files
from support.clock import FakeClock
from support.grpc_calls import Stub, refusal
from support.pools import a_registration
from support.rest import Reply
from support.running import a_service

FACES = ("grpc", "rest")

_CODES = {
    200: "OK",
    204: "OK",
    304: "OK",
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "FAILED_PRECONDITION",
    422: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


class Told(NamedTuple):
    """What a call was answered with."""

    code: str
    reason: str = ""
    value: Any = None
    """Of a good answer: the lease id, or the keys that are named."""
    text: str = ""
    """All that was said."""


@dataclass
class AccessCaller:
    """One caller of one face."""

    face: str
    service: Service
    stub: Stub = field(repr=False)
    session: aiohttp.ClientSession = field(repr=False)
    scheme: str
    metadata: Sequence[tuple[str, str]] = ()

    async def register(self, cluster: str, number: int = 0, *, lease_id: str = "") -> Told:
        """Registers a pool of a cluster, or renews it by a lease id."""
        registration = a_registration(number, cluster=cluster)
        if self.face == "grpc":
            request = pb.RegisterPoolRequest(
                registration=registration, relay_id="relay", lease_id=lease_id
            )
            return await self._grpc(self.stub.RegisterPool, request, lambda a: a.lease_id)
        document = {
            "cluster_id": cluster,
            "namespace": "ns",
            "dgd_name": registration.key.dgd_name,
            "model": "m",
            "location": {"region": "r1"},
            "relay_id": "relay",
            **({"lease_id": lease_id} if lease_id else {}),
        }
        return await self._rest("POST", "/pools", lambda b: b["lease_id"], json=document)

    async def withdraw(
        self, cluster: str, number: int = 0, *, lease_id: str = "", all_shares: bool = False
    ) -> Told:
        """Withdraws by the relay's id, by a lease id, or all."""
        name = f"pool-{number:05}"
        if self.face == "grpc":
            request = pb.DeregisterPoolRequest(
                key=pool_pb2.PoolKey(cluster_id=cluster, namespace="ns", dgd_name=name),
                lease_id=lease_id,
                relay_id="relay",
                all_shares=all_shares,
            )
            return await self._grpc(self.stub.DeregisterPool, request, lambda _: None)
        headers = {"If-Match": f'"{lease_id}"'} if lease_id else {}
        query = "?all=true" if all_shares else "?relay_id=relay"
        path = f"/pools/{cluster}/ns/{name}{query}"
        return await self._rest("DELETE", path, lambda _: None, headers=headers)

    async def listed(self, cluster: str = "") -> Told:
        """The keys of the list, of one cluster or of all."""
        if self.face == "grpc":
            request = pb.ListPoolsRequest()
            if cluster:
                request.filter.cluster_ids.append(cluster)
            return await self._grpc(
                self.stub.ListPools, request, lambda a: [_key(pool.key) for pool in a.pools]
            )
        path = "/pools" + (f"?cluster_id={cluster}" if cluster else "")
        return await self._rest("GET", path, lambda b: [_json_key(each) for each in b["pools"]])

    async def routers(self) -> Told:
        """The ids of the routers."""
        if self.face == "grpc":
            request = pb.ListRoutersRequest()
            return await self._grpc(
                self.stub.ListRouters, request, lambda a: [each.id for each in a.routers]
            )
        return await self._rest("GET", "/routers", lambda b: [each["id"] for each in b["routers"]])

    async def _grpc(self, call: Any, request: Any, value: Any) -> Told:
        try:
            answer = await call(request, metadata=self.metadata, timeout=30)
        except grpc.aio.AioRpcError as error:
            said = refusal(error)
            told = said.code.name, said.reason
            return Told(*told, text=f"{said} {error.trailing_metadata()}")
        return Told("OK", value=value(answer), text=str(answer))

    async def _rest(self, method: str, path: str, value: Any, **what: Any) -> Told:
        reply = await self.reply(method, path, **what)
        code = _CODES[reply.status]
        text = f"{reply.headers} {reply.body.decode()}"
        if code != "OK":
            return Told(code, reply.json["code"], text=text)
        return Told(code, value=value(reply.json if reply.body else None), text=text)

    async def reply(self, method: str, path: str, **what: Any) -> Reply:
        """One HTTP call, as it was answered."""
        headers = what.pop("headers", {}) | dict(self.metadata)
        url = f"{self.scheme}://{HOST}:{self.service.rest.port}{path}"
        async with self.session.request(method, url, headers=headers, **what) as answer:
            fields = {name.lower(): each for name, each in answer.headers.items()}
            return Reply(answer.status, fields, await answer.read())


def _key(key: pool_pb2.PoolKey) -> str:
    return f"{key.cluster_id}/{key.namespace}/{key.dgd_name}"


def _json_key(told: Any) -> str:
    return "/".join(told[name] for name in ("cluster_id", "namespace", "dgd_name"))


@dataclass
class AccessWorld:
    """The service, and whoever calls it."""

    service: Service
    ca: trustme.CA | None
    clock: FakeClock
    events: list[tuple[Event, dict[str, Any]]]
    _open: contextlib.AsyncExitStack

    async def caller(
        self, face: str, identity: str | Pair = "", *, metadata: Sequence[tuple[str, str]] = ()
    ) -> AccessCaller:
        """Proves an identity by a certificate, where TLS is served; a Pair is shown as it is."""
        target, options = (
            f"{HOST}:{self.service.grpc.port}",
            [("grpc.use_local_subchannel_pool", 1)],
        )
        if self.ca is None:
            channel = grpc.aio.insecure_channel(target, options=options)
            connector = aiohttp.TCPConnector()
        else:
            pair = identity if isinstance(identity, Pair) else None
            pair = pair or (certificate_of(self.ca, str(identity)) if identity else None)
            key, cert = (pair.key, pair.cert) if pair else (None, None)
            credentials = grpc.ssl_channel_credentials(self.ca.cert_pem.bytes(), key, cert)
            channel = grpc.aio.secure_channel(target, credentials, options=options)
            context = client_context(self.ca, _Shown(pair) if pair else None)
            connector = aiohttp.TCPConnector(ssl=context)
        await self._open.enter_async_context(channel)
        session = await self._open.enter_async_context(aiohttp.ClientSession(connector=connector))
        stub = PoolDiscoveryServiceStub(channel)
        scheme = "http" if self.ca is None else "https"
        return AccessCaller(face, self.service, stub, session, scheme, metadata)

    async def change_policy(self, folder: Path, text: str) -> None:
        """Writes another policy into its file; it is in force when this returns."""
        in_file(folder, text)
        keeper = self.service.guard.policy
        assert keeper is not None
        taken = keeper.taken
        while keeper.taken == taken:
            await keeper.look()

    def denials(self) -> list[dict[str, Any]]:
        """The fields of the audit of denied calls."""
        return [fields for event, fields in self.events if event is Event.ACCESS_DENIED]


class _Shown:
    """A Pair as trustme's leaf is used here."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair

    def configure_cert(self, context: Any) -> None:
        with trustme.Blob(self._pair.key + self._pair.cert).tempfile() as path:
            context.load_cert_chain(path)


@contextlib.asynccontextmanager
async def an_access_world(
    folder: Path | None = None,
    ca: trustme.CA | None = None,
    *,
    token_clusters: Sequence[TokenCluster] = (),
    token_audience: str = "",
    **options: Any,
) -> AsyncIterator[AccessWorld]:
    """With a CA callers are asked for certificates; its files are kept in `folder`."""
    tls = None
    if ca is not None:
        assert folder is not None
        tls = in_files(folder, a_pair(ca), ca.cert_pem.bytes())
    clock = FakeClock()
    events: list[tuple[Event, dict[str, Any]]] = []
    async with (
        contextlib.AsyncExitStack() as opened,
        a_service(
            clock=clock,
            tls=tls,
            token_clusters=token_clusters,
            token_audience=token_audience,
            report=lambda event, **fields: events.append((event, fields)),
            **options,
        ) as service,
    ):
        try:
            yield AccessWorld(service, ca, clock, events, opened)
        finally:
            await opened.aclose()
