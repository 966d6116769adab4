"""Lists pools or routers once, all pages, from the first server that answers.

Explains one pool in the same way.

All pages of a list are of one position. A list that the server no longer has is
begun again; one that another server answers is begun there.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import grpc

from global_discovery.client.errors import CallFailed, answer
from global_discovery.client.servers import Servers, checked_servers, open_channel, open_stub
from global_discovery.client.tls import ClientTls, TlsSettings
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2

if TYPE_CHECKING:
    from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceAsyncStub

E = TypeVar("E", pool_pb2.Pool, pool_pb2.Router)
T = TypeVar("T")

CALL_SECONDS = 10.0
MAX_ENTRIES = 1_000_000
"""More than any list has. A page that brings nothing is never followed by another one."""
MAX_RESTARTS = 5
"""How often a list is begun again before that is an error."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[E]):
    """A whole list at one position."""

    entries: tuple[E, ...]
    """Sorted by key, or by id."""
    position: str
    """Where a watch with the same filter can go on from."""
    mark: pool_pb2.Mark
    """How far the list can be trusted."""


async def list_pools(
    servers: Sequence[str],
    *,
    wanted: pb.PoolFilter | None = None,
    page_size: int = 0,
    call_seconds: float = CALL_SECONDS,
    tls: TlsSettings | None = None,
) -> Listing[pool_pb2.Pool]:
    """The pools that match `wanted`, or all. Raises CallFailed with the last server's error.

    `page_size` 0 leaves it to the server; `call_seconds` is the deadline of one page.
    Without `tls` gRPC is in plain text.
    """

    async def page(
        stub: "PoolDiscoveryServiceAsyncStub", token: str
    ) -> tuple[Sequence[pool_pb2.Pool], pb.ListPoolsResponse]:
        request = pb.ListPoolsRequest(filter=wanted, page_size=page_size, page_token=token)
        response = await stub.ListPools(request, timeout=call_seconds)
        return response.pools, response

    return await _list(servers, page, tls)


async def list_routers(
    servers: Sequence[str],
    *,
    page_size: int = 0,
    call_seconds: float = CALL_SECONDS,
    tls: TlsSettings | None = None,
) -> Listing[pool_pb2.Router]:
    """The routers; everything is as in `list_pools`."""

    async def page(
        stub: "PoolDiscoveryServiceAsyncStub", token: str
    ) -> tuple[Sequence[pool_pb2.Router], pb.ListRoutersResponse]:
        request = pb.ListRoutersRequest(page_size=page_size, page_token=token)
        response = await stub.ListRouters(request, timeout=call_seconds)
        return response.routers, response

    return await _list(servers, page, tls)


_Page = Callable[["PoolDiscoveryServiceAsyncStub", str], Awaitable[tuple[Sequence[E], Any]]]


async def explain_pool(
    servers: Sequence[str],
    key: pool_pb2.PoolKey,
    *,
    call_seconds: float = CALL_SECONDS,
    tls: TlsSettings | None = None,
) -> tuple[str, pb.ExplainPoolResponse]:
    """The server that answered ExplainPool, and what it said; everything is as in `list_pools`."""

    async def explain(server: str, own_tls: ClientTls | None) -> tuple[str, pb.ExplainPoolResponse]:
        async with open_channel(server, own_tls) as channel:
            request = pb.ExplainPoolRequest(key=key)
            call = open_stub(channel).ExplainPool(request, timeout=call_seconds)
            return server, await answer(server, call)

    return await _first_answer(servers, explain, tls)


async def _list(servers: Sequence[str], page: _Page[E], tls: TlsSettings | None) -> Listing[E]:
    return await _first_answer(
        servers, lambda server, own_tls: _list_at(server, page, own_tls), tls
    )


async def _first_answer(
    servers: Sequence[str],
    ask: Callable[[str, ClientTls | None], Awaitable[T]],
    tls: TlsSettings | None,
) -> T:
    """Tries each server at once, and a single one a second time, over a new connection."""
    checked = checked_servers(servers)
    order, own_tls = Servers(checked), ClientTls.of(tls, checked)
    while True:
        try:
            return await ask(order.current, own_tls)
        except CallFailed as error:
            elsewhere = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
            if error.code not in elsewhere or not order.repeat_at_once():
                raise
            order.move_on()


async def _list_at(server: str, page: _Page[E], tls: ClientTls | None) -> Listing[E]:
    async with open_channel(server, tls) as channel:
        stub = open_stub(channel)
        for _ in range(MAX_RESTARTS):
            try:
                return await _pages(server, stub, page)
            except CallFailed as error:
                if error.code is not grpc.StatusCode.ABORTED:
                    raise
        return await _pages(server, stub, page)


async def _pages(server: str, stub: "PoolDiscoveryServiceAsyncStub", page: _Page[E]) -> Listing[E]:
    entries: list[E] = []
    token = ""
    while True:
        more, response = await answer(server, page(stub, token))
        entries.extend(more)
        token = response.next_page_token
        if not token:
            return Listing(tuple(entries), response.position, response.mark)
        if not more or len(entries) > MAX_ENTRIES:
            told = "its list does not come to an end"
            raise CallFailed(server, grpc.StatusCode.INTERNAL, told)
