"""Relays: the client library's heartbeats, with everything that they were answered written down.

Each relay has links of its own. What a pool does all the while is its *life*: it comes,
changes its content, loses its relay, is withdrawn and comes back, by a plan of its own
seed, whatever else is broken.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from chaos.history import Call, History, Withdrawal, now
from chaos.links import Link
from global_discovery.client import CallFailed, PoolHeartbeat, TlsSettings
from global_discovery.client.registration_calls import RegistrationCalls
from global_discovery.client.rest_registration import Granted
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2

CLUSTERS = ("rome", "oslo")
FAULTS = {"INTERNAL", "UNKNOWN", "DATA_LOSS", "UNIMPLEMENTED", "INVALID_ARGUMENT"}
"""Codes that no fault of a network, a store or a process may lead to."""


@dataclass
class Speaker:
    """One relay of a pool: whom it can call, and how."""

    pool: str
    relay: str
    ways: Mapping[str, tuple[str, Link]]
    """The address that each slot is called by, and the link behind it."""
    tls: TlsSettings | None

    def slot_of(self, server: str) -> str:
        return next(slot for slot, (address, _) in self.ways.items() if address == server)


class _Recorded:
    """The calls to one server, each written down."""

    def __init__(self, inner: RegistrationCalls, slot: str, beat: "Beat") -> None:
        self._inner = inner
        self._slot = slot
        self._beat = beat

    async def register(self, request: pb.RegisterPoolRequest, seconds: float) -> Granted:
        sent, granted, error = now(), "", ""
        try:
            answer = await self._inner.register(request, seconds)
            granted = answer.response.lease_id
            return answer
        except CallFailed as failure:
            error = failure.code.name
            self._beat.failed(self._slot, request.lease_id, failure)
            raise
        finally:
            self._beat.called(self._slot, request, sent, granted, error)

    async def deregister(self, request: pb.DeregisterPoolRequest, seconds: float) -> None:
        sent, done = now(), False
        try:
            await self._inner.deregister(request, seconds)
            done = True
        except CallFailed as failure:
            self._beat.failed(self._slot, request.lease_id, failure)
            raise
        finally:
            self._beat.withdrew(self._slot, request.lease_id, sent, done=done)

    async def close(self) -> None:
        await self._inner.close()


class Beat(PoolHeartbeat):
    """A heartbeat of the client library whose calls are in a history."""

    def __init__(self, speaker: Speaker, history: History) -> None:
        servers = [address for address, _ in speaker.ways.values()]
        super().__init__(servers, relay_id=speaker.relay, tls=speaker.tls)
        self._speaker = speaker
        self._history = history

    async def _calls_to(self, server: str, *, new_connection: bool) -> RegistrationCalls:
        calls = await super()._calls_to(server, new_connection=new_connection)
        return _Recorded(calls, self._speaker.slot_of(server), self)

    def called(
        self, slot: str, request: pb.RegisterPoolRequest, sent: float, granted: str, error: str
    ) -> None:
        version = version_of(request.registration.model)
        who = self._speaker
        call = Call(
            who.pool, who.relay, slot, version, request.lease_id, sent, now(), granted, error
        )
        self._history.calls.append(call)

    def withdrew(self, slot: str, lease_id: str, sent: float, *, done: bool) -> None:
        who = self._speaker
        self._history.withdrawals.append(
            Withdrawal(who.pool, who.relay, slot, lease_id, sent, now(), done)
        )

    def failed(self, slot: str, lease_id: str, failure: CallFailed) -> None:
        if failure.code.name in FAULTS:
            told = f"{slot} answers {self._speaker.relay} with {failure.code.name}: {failure}"
            self._history.broken.append(told)
        elif failure.code.name == "FAILED_PRECONDITION" and not any(
            withdrawal.lease_id == lease_id for withdrawal in self._history.withdrawals
        ):
            told = f"{slot} refuses a lease of {self._speaker.relay} that nobody withdrew"
            self._history.broken.append(told)


def cluster_of(pool: str) -> str:
    """Every pool is in one of them for good."""
    return CLUSTERS[random.Random(pool).randrange(len(CLUSTERS))]


def version_of(model: str) -> int:
    return int(model.rpartition("-")[2])


def registration(cluster: str, pool: str, version: int) -> pool_pb2.PoolRegistration:
    """Every field says which version it is of."""
    return pool_pb2.PoolRegistration(
        key=pool_pb2.PoolKey(cluster_id=cluster, namespace="llm", dgd_name=pool),
        model=f"model-{version}",
        location=pool_pb2.Location(region="eu"),
        capabilities=[f"v{version}"],
        frontends=[f"http://{pool}.example:{8000 + version}"],
    )


def shown_version(pool: pool_pb2.Pool) -> int:
    """TORN when the fields that only the registration gives are of several versions."""
    version = version_of(pool.model)
    return version if list(pool.capabilities) == [f"v{version}"] else -1


@dataclass
class PoolLife:
    """A pool and its relays. `steady` ones live from the beginning to the end."""

    cluster: str
    pool: str
    speakers: list[Speaker]
    history: History
    steady: bool
    version: int = 0
    _beats: dict[str, tuple[Beat, "asyncio.Task[None]"]] = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        """Whether a relay speaks for it."""
        return bool(self._beats)

    def begin(self, speaker: Speaker) -> None:
        beat = Beat(speaker, self.history)
        beat.set(registration(self.cluster, self.pool, self.version))
        self._beats[speaker.relay] = beat, asyncio.create_task(beat.run())

    async def end(self, relay: str, *, withdraw: bool) -> None:
        beat, task = self._beats.pop(relay)
        await beat.stop(withdraw=withdraw)
        await task

    async def live(self, seed: str, over: asyncio.Event) -> None:
        """Until it is over; a step that was begun is done."""
        chance = random.Random(f"{seed}/{self.pool}")
        await _pause(chance.random(), over)
        for speaker in self.speakers:
            self.begin(speaker)
        while not over.is_set():
            await _pause(chance.uniform(2.0, 9.0), over)
            step = chance.choice(["change", "restart", "vanish", "withdraw", "withdraw"])
            if self.steady:
                step = chance.choice(["change", "restart", ""])
            if not over.is_set():
                await self._step(step, chance, over)

    async def _step(self, step: str, chance: random.Random, over: asyncio.Event) -> None:
        lease = self.history.terms.lease
        if step == "change":
            self.version += 1
            for beat, _ in self._beats.values():
                beat.set(registration(self.cluster, self.pool, self.version))
        elif step == "restart":
            speaker = chance.choice(self.speakers)
            await self.end(speaker.relay, withdraw=False)
            self.begin(speaker)
        elif step:
            for speaker in self.speakers:
                await self.end(speaker.relay, withdraw=step == "withdraw")
            await _pause(chance.uniform(0.2, 2.5) * lease, over)
            for speaker in () if over.is_set() else self.speakers:
                self.begin(speaker)

    async def die(self) -> None:
        """Stops renewing, for good."""
        for relay in list(self._beats):
            await self.end(relay, withdraw=False)


async def _pause(seconds: float, over: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await over.wait()


@contextlib.asynccontextmanager
async def living(lives: list[PoolLife], seed: str) -> AsyncIterator[None]:
    """All live until the end of this; what speaks then goes on speaking."""
    over = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for life in lives:
            group.create_task(life.live(seed, over))
        try:
            yield
        finally:
            over.set()
