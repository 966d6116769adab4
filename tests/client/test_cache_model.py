"""`PoolCache` through whatever may happen to two servers, the ways to them, and the relays.

Time is one clock for everybody and moved by hand. The servers are real ones, watched
over gRPC or polled over REST, behind proxies that cut, delay and swallow. The router
itself is restarted, and begins with what it saved. What is checked:

* at each message: the cache offers exactly what the rule says (a naive reading of
  it gets the same messages), and no pool that lives and was known is missing;
* in the end, when everything is well again: it offers exactly what lives.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from global_discovery.client import PoolCache
from global_discovery.client.carrying import CarryingFold
from global_discovery.domain.lease import Withdrawal
from global_discovery.serving.service import Service
from support.carrying_reference import NaiveRouter
from support.clock import FakeClock
from support.pools import a_heartbeat, pool_key
from support.running import a_service
from support.tcp_proxy import TcpProxy, tcp_proxy
from support.timer import MovedTimer

PATIENCE = 60
POOLS = 16
MASS = 12
STEPS = 40
HEARTBEAT = 5
POLL = 5
DELAYS = (0.5, 1.0, 3.0)
LATEST = 3 * max(DELAYS)
"""After that everything that was under way has come: there and back, and the bound."""
GRPC, REST = "gRPC", "REST"


class Place:
    """One server behind a proxy; the proxy outlives it."""

    def __init__(self, clock: FakeClock, wire: str) -> None:
        self._clock = clock
        self._wire = wire
        self._stack = contextlib.AsyncExitStack()
        self.service: Service | None = None
        self.proxy: TcpProxy
        self._grpc_port = self._rest_port = 0

    @property
    def port(self) -> int:
        """Of the wire that is used."""
        return self._rest_port if self._wire == REST else self._grpc_port

    @property
    def server(self) -> str:
        """What the router knows it by."""
        address = f"127.0.0.1:{self.proxy.port}"
        return f"http://{address}" if self._wire == REST else address

    async def start(self) -> None:
        service = await self._stack.enter_async_context(
            a_service(port=self._grpc_port, rest_port=self._rest_port, clock=self._clock)
        )
        self.service = service
        self._grpc_port, self._rest_port = service.grpc.port, service.rest.port

    async def stop(self) -> None:
        self.service = None
        await self._stack.aclose()


class CheckedFold(CarryingFold):
    """Tells each message to the world before anybody sees what it did."""

    def __init__(self, check: Callable[[Any, float], None]) -> None:
        super().__init__()
        self.check = check

    def apply(self, message: Any, *, now: float) -> Any:
        update = super().apply(message, now=now)
        self.check(message, now)
        return update


class World:
    def __init__(self, seed: int, wires: Sequence[str], saved_view: Path) -> None:
        self.random = random.Random(seed)
        self.clock, self.timer = FakeClock(), MovedTimer()
        self.places = [Place(self.clock, wire) for wire in wires]
        self.saved_view = saved_view
        self.models: dict[int, str] = {}
        """The pools that live, with their models."""
        self.known: set[int] = set()
        """Those of them that the cache has offered."""
        self.returned: dict[int, float] = {}
        """Those that returned while their earlier life was still offered, and when.

        That the cache offers such a pool does not say that it knows of its return: what
        comes late may tell of the time between.
        """
        self.lagging: dict[int, tuple[Place, ...]] = {}
        """The pools that not every server knows, with those that do."""
        self.rule = NaiveRouter()
        self.failures: list[AssertionError] = []
        self.servers_seen: set[str] = set()
        self.seconds = 0
        self.cache: PoolCache

    # -- what is checked ----------------------------------------------------------

    def take(self, message: Any, now: float) -> None:
        """The cache survives whatever is raised in here, so it is kept for the test."""
        try:
            self.check(message, now)
        except AssertionError as failure:
            self.failures.append(failure)
            raise

    def check(self, message: Any, now: float) -> None:
        self.rule.take(message, now)
        self.servers_seen.add(self.rule.process)
        offered = {pool.key.dgd_name for pool in self.cache._fold.offered()}
        assert offered == self.rule.offered
        for number, since in list(self.returned.items()):
            if name(number) not in offered or now - since > LATEST:
                del self.returned[number]
        alive = set(self.models) - set(self.returned)
        self.known |= {number for number in alive if name(number) in offered}
        assert {name(number) for number in self.known} <= offered

    def check_index(self) -> None:
        fold = self.cache._fold
        by_key = {pool.key: pool for pool in self.cache.pools()}
        assert set(by_key) == {*fold.listed, *fold.carried}
        assert {key for key, pool in by_key.items() if pool.carried} == set(fold.carried)
        by_model = {m: {p.key for p in self.cache.pools(m)} for m in self.cache.models()}
        assert by_model == {
            model: {key for key, pool in by_key.items() if pool.pool.model == model}
            for model in {pool.pool.model for pool in by_key.values()}
        }

    # -- what happens -------------------------------------------------------------

    async def second(self) -> None:
        """A second passes for everybody, and relays do what is due."""
        self.seconds += 1
        if self.seconds % HEARTBEAT == 0:
            for number in self.models:
                await self.renew(number, *self.lagging.get(number, ()))
        self.clock.advance(1)
        for place in self.places:
            if place.service is not None:
                place.service.core.tick()
        self.timer.advance(1)
        await asyncio.sleep(0.005)

    async def renew(self, number: int, *places: Place) -> None:
        for place in places or self.places:
            if place.service is not None:
                heartbeat = a_heartbeat(pool_key(number), model=self.models[number])
                await place.service.core.registrar.register(heartbeat)

    async def register(self) -> None:
        number = self.random.randrange(POOLS)
        self.lives(number, self.random.choice("mno"))
        await self.renew(number)

    async def register_many(self) -> None:
        for number in range(POOLS):
            self.lives(number, self.models.get(number, "m"))
            await self.renew(number)

    def lives(self, number: int, model: str) -> None:
        if number not in self.models and name(number) in self.rule.offered:
            self.returned[number] = self.timer.now()
        self.models[number] = model

    async def withdraw(self) -> None:
        if not self.models:
            return
        number = self.random.choice(sorted(self.models))
        self.forget(number)
        withdrawal = Withdrawal(key=pool_key(number), caller="10.1.1.1", all_shares=True)
        for place in self.places:
            if place.service is not None:
                with contextlib.suppress(Exception):  # a restarted server may not know it
                    await place.service.core.registrar.withdraw(withdrawal)

    async def relay_dies(self) -> None:
        if self.models:
            self.forget(self.random.choice(sorted(self.models)))

    async def many_relays_die(self) -> None:
        for number in self.random.sample(sorted(self.models), min(MASS, len(self.models))):
            self.forget(number)

    def forget(self, number: int) -> None:
        del self.models[number]
        self.returned.pop(number, None)
        self.known.discard(number)

    async def server_goes_or_comes(self) -> None:
        place = self.random.choice(self.places)
        if place.service is None:
            await place.start()
        else:
            await place.stop()

    async def server_restarts(self) -> None:
        place = self.random.choice(self.places)
        if place.service is not None:
            place.proxy.cut()
            await place.stop()
        await place.start()

    async def cut(self) -> None:
        for place in self.places:
            place.proxy.cut()

    async def swallow(self) -> None:
        self.random.choice(self.places).proxy.swallow()

    async def delay(self) -> None:
        self.random.choice(self.places).proxy.delay_seconds = self.random.choice(DELAYS)

    async def pass_on(self) -> None:
        for place in self.places:
            place.proxy.pass_on()
            place.proxy.delay_seconds = 0

    async def router_restarts(self) -> None:
        await self.cache.__aexit__(None, None, None)
        self.rule.restart()
        await self.begin()

    async def begin(self) -> None:
        """A router, with what an earlier one has saved."""
        self.cache = PoolCache(
            [place.server for place in self.places],
            saved_view=self.saved_view,
            idle_seconds=5,
            timer=self.timer,
            wall=lambda: self.timer.now() + 1e9,
        )
        self.cache._fold = CheckedFold(self.take)
        await self.cache.__aenter__()
        assert {pool.key.dgd_name for pool in self.cache.pools()} == self.rule.offered

    async def time_passes(self) -> None:
        for _ in range(self.random.choice([1, 3, 7, 20])):
            await self.second()

    async def the_other_server_lags(self) -> None:
        """A pool is told by one server; the way there is cut before the other one has it.

        Without delays: a view counts as of when it came, so that one which is under way
        for longer than its bound may end what is younger.
        """
        await self.pass_on()
        for _ in range(PATIENCE):
            if any(map(self.follows, self.places)):
                break
            await self.second()
        here = next((place for place in self.places if self.follows(place)), None)
        there = next((p for p in self.places if p is not here and p.service is not None), None)
        free = sorted(set(range(POOLS)) - set(self.models))
        if here is None or there is None or not free:
            return
        number = self.random.choice(free)
        self.lives(number, "m")
        await self.renew(number, here)
        self.lagging = {number: (here,)}
        await self.comes_to_know(number, here)
        self.lagging = {}
        here.proxy.cut()
        await asyncio.sleep(0.02)
        await self.renew(number)

    async def comes_to_know(self, number: int, here: Place) -> None:
        """Waits for that; no time passes for one who watches, and a poll's for one who polls."""
        for _ in range(POLL + 1):
            for _ in range(20):
                if number in self.known or not self.follows(here):
                    return
                await asyncio.sleep(0.005)
            await self.second()

    def follows(self, place: Place) -> bool:
        info = self.cache.state.info
        service = place.service
        return info is not None and service is not None and _id(service) == info.instance_id

    async def all_is_well(self) -> None:
        await self.pass_on()
        for place in self.places:
            if place.service is None:
                await place.start()
        async with asyncio.timeout(PATIENCE):
            while not self.agrees() and not self.failures:
                await self.second()

    def agrees(self) -> bool:
        state = self.cache.state
        offered = {pool.key.dgd_name for pool in self.cache.pools()}
        return state.exact and not state.carried and offered == set(map(name, self.models))


def name(number: int) -> str:
    return pool_key(number).dgd_name


def _id(service: Service) -> str:
    return service.core.settings.instance_id


@contextlib.asynccontextmanager
async def a_world(seed: int, wires: Sequence[str], folder: Path) -> AsyncIterator[World]:
    world = World(seed, wires, folder / "view")
    async with contextlib.AsyncExitStack() as stack:
        for place in world.places:
            await place.start()
            stack.push_async_callback(place.stop)
            place.proxy = await stack.enter_async_context(tcp_proxy(place.port, world.timer))
        await world.begin()
        try:
            yield world
        finally:
            await world.cache.__aexit__(None, None, None)


@pytest.mark.parametrize("wires", [(GRPC, GRPC), (REST, REST), (GRPC, REST)], ids="+".join)
@pytest.mark.parametrize("seed", range(3))
async def test_the_cache_keeps_to_the_rule_and_to_the_truth_whatever_happens(
    seed: int, wires: Sequence[str], tmp_path: Path
) -> None:
    async with a_world(seed, wires, tmp_path) as world:
        what_happens = [
            world.register,
            world.register,
            world.register_many,
            world.withdraw,
            world.relay_dies,
            world.many_relays_die,
            world.server_goes_or_comes,
            world.server_restarts,
            world.cut,
            world.swallow,
            world.delay,
            world.router_restarts,
            world.pass_on,
            *[world.the_other_server_lags] * 2,
            *[world.time_passes] * 6,
        ]
        await world.register_many()
        for _ in range(STEPS):
            await world.random.choice(what_happens)()
            world.check_index()
            assert not world.failures, world.failures[0]
        await world.all_is_well()
        world.check_index()
        assert not world.failures, world.failures[0]
        assert len(world.servers_seen) > 1
