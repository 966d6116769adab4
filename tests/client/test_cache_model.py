"""`PoolCache` through whatever may happen to two servers, the ways to them, and the relays.

Time is one clock for everybody and moved by hand. The servers are real ones behind
proxies that cut and swallow. What is checked:

* at each message: the cache offers exactly what the rule says (a naive reading of
  it gets the same messages), and no pool that lives and was known is missing;
* in the end, when everything is well again: it offers exactly what lives.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
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


class Place:
    """One server behind a proxy; the proxy outlives it."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._stack = contextlib.AsyncExitStack()
        self.service: Service | None = None
        self.proxy: TcpProxy
        self.port = 0

    async def start(self) -> None:
        service = await self._stack.enter_async_context(
            a_service(port=self.port, clock=self._clock)
        )
        self.service, self.port = service, service.grpc.port

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
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock, self.timer = FakeClock(), MovedTimer()
        self.places = [Place(self.clock), Place(self.clock)]
        self.models: dict[int, str] = {}
        """The pools that live, with their models."""
        self.known: set[int] = set()
        """Those of them that the cache has offered."""
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
        self.known |= {number for number in self.models if name(number) in offered}
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
        self.clock.advance(1)
        for place in self.places:
            if place.service is not None:
                place.service.core.tick()
        if self.seconds % HEARTBEAT == 0:
            for number in self.models:
                await self.renew(number)
        self.timer.advance(1)
        await asyncio.sleep(0.005)

    async def renew(self, number: int, *places: Place) -> None:
        for place in places or self.places:
            if place.service is not None:
                heartbeat = a_heartbeat(pool_key(number), model=self.models[number])
                await place.service.core.registrar.register(heartbeat)

    async def register(self) -> None:
        number = self.random.randrange(POOLS)
        self.models[number] = self.random.choice("mno")
        await self.renew(number)

    async def register_many(self) -> None:
        for number in range(POOLS):
            self.models.setdefault(number, "m")
            await self.renew(number)

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

    async def pass_on(self) -> None:
        for place in self.places:
            place.proxy.pass_on()

    async def time_passes(self) -> None:
        for _ in range(self.random.choice([1, 3, 7, 20])):
            await self.second()

    async def the_other_server_lags(self) -> None:
        """A pool is told by one server; the way there is cut before the other one has it."""
        here = next((place for place in self.places if self.follows(place)), None)
        there = next((p for p in self.places if p is not here and p.service is not None), None)
        free = sorted(set(range(POOLS)) - set(self.models))
        if here is None or there is None or not free:
            return
        number = self.random.choice(free)
        self.models[number] = "m"
        await self.renew(number, here)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                while number not in self.known and self.follows(here):  # noqa: ASYNC110 - polls
                    await asyncio.sleep(0.005)
        here.proxy.cut()
        await asyncio.sleep(0.02)
        await self.renew(number)

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
async def a_world(seed: int) -> AsyncIterator[World]:
    world = World(seed)
    async with contextlib.AsyncExitStack() as stack:
        for place in world.places:
            await place.start()
            stack.push_async_callback(place.stop)
            place.proxy = await stack.enter_async_context(tcp_proxy(place.port))
        servers = [f"127.0.0.1:{place.proxy.port}" for place in world.places]
        world.cache = PoolCache(servers, idle_seconds=5, timer=world.timer)
        world.cache._fold = CheckedFold(world.take)
        await stack.enter_async_context(world.cache)
        yield world


@pytest.mark.parametrize("seed", range(6))
async def test_the_cache_keeps_to_the_rule_and_to_the_truth_whatever_happens(seed: int) -> None:
    async with a_world(seed) as world:
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
            world.pass_on,
            world.the_other_server_lags,
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
