"""One Pool Relay: polls its model server, and keeps its pool registered with what that serves.

Three tasks run until a stop is asked for: the polling, the heartbeat, and the look
at the cluster's own name. The death of one ends the relay with its error. On a stop
the pool is withdrawn only when it is going too: when its health URL no longer
answers, or when told so. Otherwise the lease bridges the relay's restart. A stop
takes bounded time whoever is dead.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from global_discovery.client import HeartbeatState, PoolHeartbeat
from global_discovery.client.heartbeat_schedule import ASSUMED_LEASE_SECONDS
from global_discovery.client.topology import UnregisteredReason
from global_discovery.domain.timer import SystemTimer, Timer
from global_discovery.relay.about import ClusterIdCheck
from global_discovery.relay.model_server import Health, ModelServer, Poll
from global_discovery.relay.serving_topology import ServingTopology
from global_discovery.relay.settings import RelaySettings
from global_discovery.relay.telling import Telling

POLL_SECONDS = 1.0
LONGEST_ASKING_SECONDS = 5.0
SHORTEST_ASKING_SECONDS = 0.25


class Counters:
    """What has happened since the start."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.good_calls = self.failed_calls = 0
        """Registrations and renewals."""
        self.good_polls = self.failed_polls = 0
        """Questions to the model server."""


class Relay:
    """Speaks for one pool. `run` it once."""

    def __init__(self, settings: RelaySettings, *, timer: Timer | None = None) -> None:
        """Opens nothing. Raises ValueError for a server that cannot be one."""
        self.settings = settings
        self.counters = Counters()
        self.topology = ServingTopology()
        self.last_poll: Poll | None = None
        self.last_good_poll: float | None = None
        """When it began, on the timer."""
        self.timer = timer or SystemTimer()
        self._lease_seconds = ASSUMED_LEASE_SECONDS
        self.cluster = ClusterIdCheck(settings.pool.cluster_id, timer=self.timer)
        self._telling = Telling()
        self._heartbeat = PoolHeartbeat(
            settings.servers,
            relay_id=settings.relay_id,
            tls=settings.tls,
            on_state=self._called,
            timer=self.timer,
        )
        self._model_server = ModelServer(
            settings.openai_url, settings.health_url, settings.model, self.timer
        )
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    # -- how it stands -------------------------------------------------------

    @property
    def heartbeat(self) -> HeartbeatState:
        """How registering stands."""
        return self._heartbeat.state

    @property
    def healthy(self) -> bool:
        """Whether it does its work, whatever comes of that; false once it stops."""
        running = bool(self._tasks) and not any(task.done() for task in self._tasks)
        return running and not self._stopping

    @property
    def ready(self) -> bool:
        """Whether the health URL answered well when it was last asked."""
        return self.last_poll is not None and self.last_poll.health is Health.GOOD

    @property
    def lease_left(self) -> float:
        """Seconds until the lease ends; 0 without one."""
        lease = self.heartbeat.lease
        return 0.0 if lease is None else max(0.0, lease.ends_at - self.timer.now())

    @property
    def unregistered_reason(self) -> UnregisteredReason | None:
        """Why the pool is not registered; None while it is."""
        if self._stopping:
            return UnregisteredReason.STOPPED
        if self.topology.choice.reason is not None:
            return self.topology.choice.reason
        if self.lease_left > 0:
            return None
        if self.heartbeat.failing:
            return UnregisteredReason.FAILED_CALL
        return UnregisteredReason.NO_ANSWER

    # -- its life ------------------------------------------------------------

    async def run(self, stopped: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Until `stopped()` returns; raises what ended a task of its own."""
        stop = asyncio.ensure_future(stopped())
        self._tasks = [
            asyncio.create_task(self._heartbeat.run()),
            asyncio.create_task(self._follow()),
            asyncio.create_task(self.cluster.run()),
        ]
        try:
            await asyncio.wait({*self._tasks, stop}, return_when=asyncio.FIRST_COMPLETED)
            for task in self._tasks:
                if task.done():
                    task.result()
            await self._stop()
        finally:
            stop.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.wait({*self._tasks, stop})
            await self._model_server.close()

    async def _follow(self) -> None:
        """Polls for ever."""
        while True:
            began = self.timer.now()
            self._polled(await self._model_server.poll(self._asking_seconds(began)), began)
            await self.timer.sleep(began + POLL_SECONDS - self.timer.now())

    def _asking_seconds(self, now: float) -> float:
        """How long a poll may take: not past the moment in which the topology ends."""
        longest = min(LONGEST_ASKING_SECONDS, self._lease_seconds / 3)
        ends_at = self.topology.ends_at(self._lease_seconds)
        if ends_at is None:
            return longest
        return min(longest, max(ends_at - now, SHORTEST_ASKING_SECONDS))

    def _polled(self, poll: Poll, began: float) -> None:
        """Takes what a poll brought, and registers what follows from it."""
        self.last_poll = poll
        if poll.models is None:
            self.counters.failed_polls += 1
        else:
            self.counters.good_polls += 1
            self.last_good_poll = began
        self.topology.take(
            poll, began=began, now=self.timer.now(), lease_seconds=self._lease_seconds
        )
        self._telling.polled(poll, self.topology)
        model = self.topology.choice.model
        self._heartbeat.set(None if model is None else self.settings.registration(model))

    def _called(self, state: HeartbeatState) -> None:
        """A call of the heartbeat has ended."""
        if state.lease is not None:
            self._lease_seconds = state.lease.seconds
        if not self._stopping:
            if state.failing:
                self.counters.failed_calls += 1
            else:
                self.counters.good_calls += 1
            self._telling.called(state)

    async def _stop(self) -> None:
        self._stopping = True
        self._tasks[1].cancel()
        withdraw = self.settings.withdraw_on_exit or not await self._model_server.answers(
            min(LONGEST_ASKING_SECONDS, self._lease_seconds / 3)
        )
        withdrawn = await self._heartbeat.stop(withdraw=withdraw)
        self._telling.stopped(self.heartbeat, withdraw=withdraw, withdrawn=withdrawn)
