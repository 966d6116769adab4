"""Several instances over one table, on clocks and timers that a test moves.

Each is what `serve` makes of a store: registrations, registrar, store, its run
as a task. They share nothing but the table; their clocks are set apart.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from global_discovery.domain.change import Departure
from global_discovery.domain.completeness import Mark
from global_discovery.domain.errors import DiscoveryError, LeaseWithdrawn, ShareNotFound
from global_discovery.domain.events import Event
from global_discovery.domain.lease import Heartbeat, LeaseTerms, Withdrawal
from global_discovery.domain.pool import Content, Location, Pool, PoolKey, Registration
from global_discovery.sources.registered.registrar import Registrar
from global_discovery.sources.registered.registrations import Registrations
from global_discovery.storage.dynamodb.api import DynamoDB
from global_discovery.storage.dynamodb.store import DynamoDBStore
from support.clock import FakeClock
from support.timer import MovedTimer

T = TypeVar("T")
HOUR = 3600.0
STEP = 0.25
TERMS = LeaseTerms(heartbeat_interval=5, lease_duration=15)
QUIET_TURNS = 12
MOST_TURNS = 20_000


def a_content(model: str = "m") -> Content:
    return Content(model, Location("r1"), frontends=("http://10.0.0.1:8000",))


class Replica:
    """One instance, from `start` to `kill` or `stop`."""

    def __init__(
        self, api: DynamoDB, *, name: str, timer: MovedTimer, wall_offset: float = 0.0
    ) -> None:
        self.name = name
        self.api = api
        number = sum(map(ord, name))
        self.clock = FakeClock(monotonic=1000.0 + 7777 * number, boottime=5000.0 + 9999 * number)
        self.clock.step_wall(wall_offset)
        self.events: list[tuple[Event, dict[str, object]]] = []
        self.store = DynamoDBStore(
            connect=self._connect,
            table="t",
            terms=TERMS,
            clock=self.clock,
            report=lambda event, **fields: self.events.append((event, fields)),
            instance=name,
            sleep=timer.sleep,
        )
        self.registrations = Registrations(
            terms=TERMS, clock=self.clock, store=self.store.state, shared=True
        )
        self.registrations.on_change(lambda: None)
        self.registrar = Registrar(self.registrations, self.store, lambda *_, **__: None)
        self.fold: dict[PoolKey, Pool] = {}
        self.left: dict[PoolKey, list[Departure]] = {}
        self.mark: Mark | None = None
        self._task: asyncio.Task[None] | None = None

    async def _connect(self) -> DynamoDB:
        return self.api

    def start(self) -> None:
        self._task = asyncio.create_task(self._serve(), name=self.name)

    async def _serve(self) -> None:
        await self.registrar.open()
        await self.store.run()

    @property
    def ready(self) -> bool:
        return self.registrar.taking_calls

    @property
    def exact(self) -> bool:
        return self.mark is not None and self.mark.exact

    @property
    def reasons(self) -> set[str]:
        return {reason.value for reason in self.mark.reasons} if self.mark else set()

    def tick(self) -> None:
        """What the service does ten times a second, and a watcher that reads at once."""
        if self._task is not None and self._task.done():
            self._task.result()
        while self.registrar.tick():
            pass
        update = self.registrations.drain()
        for change in update.changes:
            if change.value is None:
                self.fold.pop(change.key, None)
                assert change.departure is not None
                self.left.setdefault(change.key, []).append(change.departure)
            else:
                self.fold[change.key] = change.value
        self.mark = update.mark or self.mark

    async def kill(self) -> None:
        """As SIGKILL: nothing is said, nothing is finished."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def stop(self) -> None:
        """As SIGTERM."""
        self.registrar.shut()
        await self.kill()
        await self.store.close()


class World:
    """Replicas and the one true time."""

    def __init__(self) -> None:
        self.timer = MovedTimer()
        self.replicas: dict[str, Replica] = {}
        self.now = 0.0

    async def add(self, api: DynamoDB, *, name: str, wall_offset: float = 0.0) -> Replica:
        """A started replica, ready unless its table cannot be read."""
        replica = Replica(api, name=name, timer=self.timer, wall_offset=wall_offset)
        replica.clock.advance(self.now)
        self.replicas[name] = replica
        replica.start()
        await self.settle()
        replica.tick()
        return replica

    async def advance(self, seconds: float, *, step: float = STEP) -> None:
        """Time passes for everybody, in steps of a quarter of a second."""
        for _ in range(round(seconds / step)):
            self.now += step
            for replica in self.replicas.values():
                replica.clock.advance(step)
            self.timer.advance(step)
            await self.settle()
            for replica in self.replicas.values():
                replica.tick()

    async def call(self, call: Coroutine[Any, Any, T]) -> T:
        """What a call gives, with as much time passing as it takes."""
        task = asyncio.ensure_future(call)
        await self.settle()
        while not task.done():
            await self.advance(STEP)
        return task.result()

    async def settle(self) -> None:
        """Lets everything run that can run at this moment."""
        quiet = turns = 0
        before = None
        while quiet < QUIET_TURNS:
            await asyncio.sleep(0)
            state = (self.timer.sleepers, len(asyncio.all_tasks()), self._calls())
            quiet = quiet + 1 if state == before else 0
            before = state
            turns += 1
            assert turns < MOST_TURNS, "it never settles"

    def _calls(self) -> int:
        return sum(getattr(replica.api, "count", 0) for replica in self.replicas.values())

    async def close(self) -> None:
        for replica in self.replicas.values():
            await replica.kill()


class Relay:
    """One pool's relay: renews at a replica, and goes to another one when that is unavailable."""

    def __init__(self, key: PoolKey, *, relay_id: str = "relay") -> None:
        self.key = key
        self.relay_id = relay_id
        self.lease_id = ""
        self.model = "m"

    def heartbeat(self) -> Heartbeat:
        registration = Registration(self.key, a_content(self.model))
        return Heartbeat(registration, "10.0.0.1", self.relay_id, self.lease_id)

    async def beat(self, replica: Replica) -> bool:
        """Whether it was answered with a lease."""
        try:
            lease = await replica.registrar.register(self.heartbeat())
        except LeaseWithdrawn:
            self.lease_id = ""
            return False
        except DiscoveryError:
            return False
        self.lease_id = lease.lease_id
        return True

    async def renew(self, replica: Replica) -> bool:
        """By its id alone; whether that was taken. An unknown id is dropped."""
        try:
            answer = await replica.registrar.renew([self.lease_id])
        except DiscoveryError:
            return False
        if answer.unknown:
            self.lease_id = ""
        return not answer.unknown and not answer.not_stored

    async def withdraw(self, replica: Replica) -> bool:
        """Whether it was answered that its share ended."""
        ids = (self.lease_id,) if self.lease_id else ()
        try:
            await replica.registrar.withdraw(
                Withdrawal(self.key, "10.0.0.1", lease_ids=ids, relay_id=self.relay_id)
            )
        except (ShareNotFound, DiscoveryError):
            return False
        self.lease_id = ""
        return True


def listed(replica: Replica) -> Mapping[PoolKey, str]:
    """The models of the pools that it lists now."""
    replica.tick()
    return {key: pool.content.model for key, pool in replica.fold.items()}
