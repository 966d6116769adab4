"""Several replicas, their relays and a bad network, and what must hold of them at every moment.

Time is the world's; replicas' wall clocks are up to an hour apart. What is
promised is judged by what the relays were told, never by what is in the table.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from global_discovery.domain.pool import PoolKey
from global_discovery.storage.dynamodb.api import Refused, Throttled, Unreachable
from support.fake_dynamodb import FakeDynamoDB, Through
from support.replicas import HOUR, STEP, TERMS, Relay, Replica, World, listed

LEASE = float(TERMS.lease_duration)
HEARTBEAT = float(TERMS.heartbeat_interval)
NEVER = float("-inf")


class Weather:
    """One replica's way to the table."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.kind = "fine"
        self._world = world
        self._chance = chance

    async def before(self, operation: str, request: Mapping[str, Any]) -> None:
        del operation, request
        if self.kind == "dead":
            raise Refused("dead", "the process was killed, and its calls with it")
        if self.kind == "cut":
            await self._world.timer.sleep(1.0)
            raise Unreachable("cut")
        if self.kind == "slow":
            await self._world.timer.sleep(self._chance.uniform(0.0, 0.4))
        if self.kind == "failing" and self._chance.random() < 0.15:
            raise self._chance.choice((Unreachable("reset"), Throttled("Throttling", "slow down")))

    async def after(self, operation: str, request: Mapping[str, Any]) -> None:
        del operation, request
        if self.kind == "slow":
            await self._world.timer.sleep(self._chance.uniform(0.0, 0.4))
        if self.kind == "failing" and self._chance.random() < 0.15:
            raise Unreachable("its answer was lost")


class ModelRelay:
    """A relay that beats, and what it was told."""

    def __init__(self, model: "Model", key: PoolKey) -> None:
        self.model = model
        self.relay = Relay(key)
        self.home = 0
        self.beats = False
        self.acknowledged: list[tuple[float, float]] = []
        """Of this life: when each call that was answered with a lease began and ended."""
        self.last_attempt = NEVER
        self.withdrawn_at = NEVER
        self.told = ""
        """The content that a call was answered for."""
        self.heard_by: dict[str, float] = {}
        """When each replica last heard it without saying that it was stored."""
        self.busy = asyncio.Lock()

    async def run(self) -> None:
        while True:
            if self.beats:
                await self.beat()
            await self.model.world.timer.sleep(HEARTBEAT)

    async def beat(self) -> None:
        async with self.busy:
            for replica in self.model.in_order(self.home):
                if not self.beats or not replica.ready:
                    continue
                began = self.model.now
                kept = await self._call(replica)
                self.last_attempt = self.model.now
                if kept:
                    self.acknowledged.append((began, self.model.now))
                    return
                self.heard_by[replica.name] = self.model.now

    async def _call(self, replica: Replica) -> bool:
        """With its content, if that was not told yet or by chance; else by its id alone."""
        relay, model = self.relay, self.relay.model
        if relay.lease_id and self.told == model and self.model.chance.random() < 0.7:
            if await relay.renew(replica):
                return True
            if relay.lease_id:
                return False
        self.told = ""
        kept = await relay.beat(replica)
        if kept:
            self.told = model
        return kept

    async def withdraw(self) -> None:
        self.beats = False
        async with self.busy:
            self.acknowledged.clear()  # a call without an answer may take effect all the same
            had = self.relay.lease_id
            for replica in self.model.in_order(self.home):
                if had and replica.ready and await self.relay.withdraw(replica):
                    self.withdrawn_at = self.model.now
                    break
            self.end()

    def end(self) -> None:
        """It is gone; its successor knows nothing of it."""
        self.beats = False
        self.acknowledged.clear()
        self.relay.lease_id = ""

    def begin(self) -> None:
        self.withdrawn_at = NEVER
        self.beats = True


class ModelReplica:
    """A replica with what is known of its troubles."""

    def __init__(self, replica: Replica, weather: Weather, started: float) -> None:
        self.replica = replica
        self.weather = weather
        self.started = started
        self.doubtful = NEVER
        """When its store was last not well, by its own words."""
        self.bound = 0.0
        """The largest that it ever told."""
        self.dropped: set[PoolKey] = set()
        """Withdrawn pools that it was seen not to list."""


class Model:
    """What a test does to them, and the checks."""

    def __init__(self, *, replicas: int, pools: int, seed: int) -> None:
        self.world = World()
        self.table = FakeDynamoDB(page=3)
        self.chance = random.Random(seed)
        self.replicas: list[ModelReplica | None] = [None] * replicas
        self.relays = [
            ModelRelay(self, PoolKey("c1", "ns", f"pool-{number}")) for number in range(pools)
        ]
        self._tasks: list[asyncio.Task[None]] = []
        self._born = 0

    @property
    def now(self) -> float:
        return self.world.now

    async def begin(self) -> None:
        for place in range(len(self.replicas)):
            await self.start(place)
        self._tasks = [asyncio.create_task(relay.run()) for relay in self.relays]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.world.close()

    def in_order(self, home: int) -> list[Replica]:
        """Those that run, from home on."""
        turned = self.replicas[home:] + self.replicas[:home]
        return [replica.replica for replica in turned if replica]

    # -- what happens --------------------------------------------------------

    async def start(self, place: int) -> None:
        if self.replicas[place] is not None:
            return
        self._born += 1
        weather = Weather(self.world, self.chance)
        way: Through = self.table.seen_through(before=weather.before, after=weather.after)
        offset = self.chance.choice((-HOUR, 0.0, HOUR))
        replica = await self.world.add(way, name=f"{place}-{self._born}", wall_offset=offset)
        self.replicas[place] = ModelReplica(replica, weather, self.now)

    async def kill(self, place: int) -> None:
        known = self.replicas[place]
        self.replicas[place] = None
        if known is not None:
            known.weather.kind = "dead"
            await known.replica.kill()
            del self.world.replicas[known.replica.name]

    def weather(self, place: int, kind: str) -> None:
        known = self.replicas[place]
        if known is not None:
            known.weather.kind = kind

    async def withdraw(self, number: int) -> None:
        self._tasks.append(asyncio.create_task(self.relays[number].withdraw()))
        await self.world.settle()

    async def advance(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP)):
            await self.world.advance(STEP)
            self.check()

    # -- what must hold ------------------------------------------------------

    def check(self) -> None:
        for known in self.replicas:
            if known is not None and known.replica.ready:
                self._check(known)

    def _check(self, known: ModelReplica) -> None:
        pools = listed(known.replica)
        state = known.replica.store.state()
        if state.reasons:
            known.doubtful = self.now
        known.bound = max(known.bound, state.bound)
        for relay in self.relays:
            key = relay.relay.key
            if known.replica.exact and self._must_be_in(relay, known):
                assert key in pools, f"{known.replica.name} lacks {key} at {self.now}, exact"
            if key in pools:
                self._may_be_in(relay, known)
            elif relay.withdrawn_at > NEVER:
                known.dropped.add(key)
            if relay.withdrawn_at == NEVER:
                known.dropped.discard(key)

    def _must_be_in(self, relay: ModelRelay, known: ModelReplica) -> bool:
        """Registered for longer than the bound, and inside its lease."""
        mark = known.replica.mark
        assert mark is not None
        old_enough = (b for b, ended in relay.acknowledged if ended < self.now - mark.bound)
        return self.now < max(old_enough, default=NEVER) + LEASE

    def _may_be_in(self, relay: ModelRelay, known: ModelReplica) -> None:
        key, name = relay.relay.key, known.replica.name
        if relay.busy.locked():
            return  # an attempt is under way, and may have been heard just now
        latest = max(
            relay.last_attempt + LEASE,
            known.doubtful + LEASE,
            known.started + 2 * LEASE,  # found, with a clock that is behind
        )
        assert self.now <= latest + known.bound + 2 * STEP, f"{name} keeps {key} at {self.now}"
        if relay.withdrawn_at == NEVER:
            return
        assert key not in known.dropped, f"{key} came back at {name}, {self.now}"
        if relay.heard_by.get(name, NEVER) + LEASE > self.now:
            return  # it heard a call that it could not store; that counts in its own view
        well = max(known.doubtful, known.started, relay.withdrawn_at)
        assert self.now <= well + known.bound + 2 * STEP, f"{name} still lists {key}, withdrawn"

    async def calm_down(self) -> None:
        """All that was bad ends, and everybody must agree."""
        for place in range(len(self.replicas)):
            await self.start(place)
            self.weather(place, "fine")
        await self.advance(3 * LEASE + 5)
        expected = {r.relay.key: r.relay.model for r in self.relays if r.beats}
        for known in self.replicas:
            assert known is not None
            assert listed(known.replica) == expected, known.replica.name
            assert known.replica.exact, known.replica.reasons
