"""Whoever looks at a system: lists and a stream of each slot, and routers.

Lists and streams go over links that nothing is done to, so that what they show was so
when they were asked. The stream is folded by the rules of the protocol alone, not by the
client library, and is left and taken up again at its position now and then. Every list
must be what the fold was at the same position.
"""

import asyncio
import contextlib
import random
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import aiohttp
import grpc

from chaos.history import History, Listing, Offer, Restart, Told, now
from chaos.relays import FAULTS, shown_version
from chaos.slots import Slot
from chaos.trust import rest_trust
from global_discovery.client import CallFailed, PoolCache, TlsSettings, list_pools
from global_discovery.client.servers import open_channel, open_stub
from global_discovery.client.tls import ClientTls
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from support.fold import FoldingClient

LIST_SECONDS = 0.3
SAMPLE_SECONDS = 0.25
POSITIONS = 4_000


class Positions:
    """What was seen at each position of a slot; two that differ are a breach."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._seen: OrderedDict[tuple[str, str, str], tuple[str, Any]] = OrderedDict()
        self.compared = 0

    def saw(self, slot: str, kind: str, position: str, face: str, content: Any) -> None:
        key = (slot, kind, position)
        before = self._seen.setdefault(key, (face, content))
        if before[0] != face:
            self.compared += 1
        if before[1] != content:
            self._history.broken.append(
                f"{slot}: {face} and {before[0]} differ at one position: "
                f"{sorted(set(content) ^ set(before[1]))}"
            )
        if len(self._seen) > POSITIONS:
            self._seen.popitem(last=False)


def _contents(pools: Iterable[pool_pb2.Pool]) -> frozenset[tuple[str, bytes]]:
    return frozenset(
        (pool.key.dgd_name, pool.SerializeToString(deterministic=True)) for pool in pools
    )


class SlotObserver:
    """Looks at one slot all the while."""

    def __init__(
        self, slot: Slot, history: History, positions: Positions, tls: TlsSettings | None, seed: str
    ) -> None:
        self._slot = slot
        self._history = history
        self._positions = positions
        self._tls = tls
        self._chance = random.Random(f"{seed}/{slot.name}")
        self._fold = FoldingClient()

    async def look(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._list_over_grpc())
            group.create_task(self._list_over_rest())
            group.create_task(self._watch())

    # -- lists -------------------------------------------------------------------

    async def _list_over_grpc(self) -> None:
        while True:
            sent = now()
            try:
                listing = await list_pools(
                    [f"127.0.0.1:{self._slot.grpc_port}"], tls=self._tls, page_size=10
                )
            except CallFailed as failure:
                self._failed("a list", failure.code, str(failure))
            else:
                mark = listing.mark
                self._history.slices_bound = max(self._history.slices_bound, mark.slices_bound_secs)
                pools = {pool.key.dgd_name: shown_version(pool) for pool in listing.entries}
                exact = mark.completeness == pool_pb2.COMPLETENESS_EXACT
                self._history.listings.append(
                    Listing(self._slot.name, "grpc", sent, now(), exact, mark.bound_secs, pools)
                )
                if listing.position:
                    content = _contents(listing.entries)
                    self._saw("content", listing.position, "list", content)
                    self._saw("names", listing.position, "list", frozenset(pools))
            await asyncio.sleep(LIST_SECONDS)

    async def _list_over_rest(self) -> None:
        scheme, trust = rest_trust(self._tls)
        while True:
            sent = now()
            url = f"{scheme}://127.0.0.1:{self._slot.rest_port}/pools"
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
                async with (
                    aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(10)) as session,
                    session.get(url, ssl=trust) as answer,
                ):
                    await self._take_rest(answer, sent)
            await asyncio.sleep(LIST_SECONDS)

    async def _take_rest(self, answer: aiohttp.ClientResponse, sent: float) -> None:
        if answer.status not in {200, 503}:
            self._history.broken.append(f"{self._slot.name}: GET /pools is {answer.status}")
        if answer.status != 200:
            return
        body = await answer.json()
        pools = {
            pool["dgd_name"]: int(pool["model"].rpartition("-")[2])
            if pool["capabilities"] == [f"v{pool['model'].rpartition('-')[2]}"]
            else -1
            for pool in body["pools"]
        }
        self._history.listings.append(
            Listing(
                self._slot.name, "rest", sent, now(), body["complete"], body["bound_secs"], pools
            )
        )
        position = answer.headers.get("X-Global-Discovery-Position", "")
        if position:
            self._saw("names", position, "rest", frozenset(pools))

    # -- the stream --------------------------------------------------------------

    async def _watch(self) -> None:
        tls = None if self._tls is None else ClientTls(self._tls)
        while True:
            target = f"127.0.0.1:{self._slot.grpc_port}"
            try:
                async with open_channel(target, tls) as channel:
                    request = pb.WatchPoolsRequest(
                        position=self._fold.position, idle_interval_secs=1
                    )
                    call = open_stub(channel).WatchPools(request)
                    try:
                        await self._read(call, self._chance.randint(5, 60))
                    finally:
                        call.cancel()
            except grpc.aio.AioRpcError as error:
                self._failed("a stream", error.code(), str(error.details()))
            except AssertionError as error:
                self._history.broken.append(
                    f"{self._slot.name}: a stream breaks its rules: {error}"
                )
            await asyncio.sleep(0.2)

    async def _read(self, call: Any, messages: int) -> None:
        self._fold.begin_stream()
        for _ in range(messages):
            async with asyncio.timeout(None):
                message = await call.read()
            if message is grpc.aio.EOF:
                return
            if closed := self._fold.take(message):
                self._told(closed, message.position)
            self._fold.messages.clear()

    def _told(self, closed: list[pb.WatchPoolsResponse], position: str) -> None:
        fold = self._fold
        if not position or fold.mark is None:
            return
        pools = {key[2]: shown_version(pool) for key, pool in fold.fold.items()}
        removed = tuple(key.dgd_name for part in closed for key in part.changes.removed)
        bound = fold.mark.bound_secs
        self._history.told.append(Told(self._slot.name, now(), fold.exact, bound, pools, removed))
        self._saw("content", position, "stream", _contents(fold.fold.values()))
        self._saw("names", position, "stream", frozenset(pools))

    def _saw(self, kind: str, position: str, face: str, content: Any) -> None:
        self._positions.saw(self._slot.name, kind, position, face, content)

    def _failed(self, what: str, code: grpc.StatusCode, words: str) -> None:
        if code.name in FAULTS:
            told = f"{self._slot.name}: {what} ended with {code.name}: {words}"
            self._history.broken.append(told)


class RouterObserver:
    """One router: the client library's cache over links of its own, and with a file of its own."""

    def __init__(self, name: str, make: Callable[[], PoolCache], history: History) -> None:
        """`make` gives a cache that was not entered yet, always with the same file."""
        self.name = name
        self.cache = make()
        self._make = make
        self._history = history
        self._looks: list[asyncio.Task[None]] = []

    def offered(self) -> frozenset[str]:
        return frozenset(pool.key.dgd_name for pool in self.cache.pools())

    async def start(self) -> None:
        """It begins, and is looked at all the while."""
        await self.cache.__aenter__()
        self._looks = [
            asyncio.create_task(self._at_each_change()),
            asyncio.create_task(self._now_and_then()),
        ]

    async def stop(self) -> None:
        """It ends in order. What an observer died of is raised: it saw nothing any more."""
        looks, self._looks = self._looks, []
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)
        await self.cache.__aexit__(None, None, None)
        for look in looks:
            if not look.cancelled():
                look.result()

    async def begin_anew(self) -> None:
        """After a stop: another one in its place, with nothing but its file."""
        before, self.cache = self.offered(), self._make()
        await self.start()
        restart = Restart(self.name, now(), self.cache.state.exact, before, self.offered())
        self._history.restarts.append(restart)

    async def _at_each_change(self) -> None:
        async for _ in self.cache.changes():
            self._note()

    async def _now_and_then(self) -> None:
        while True:
            self._note()
            await asyncio.sleep(SAMPLE_SECONDS)

    def _note(self) -> None:
        offer = Offer(self.name, now(), self.cache.state.exact, self.offered())
        self._history.offers.append(offer)
