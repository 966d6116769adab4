"""The running service: both faces around one core, from the first port to the last answer.

Start: the ports open first and say NOT_SERVING; then the store is read; then
calls are taken and everything says ready. Stop: NOT_SERVING first, then every
stream ends with a status on which its client comes back, then calls under way
are finished. Each task that runs for ever is owned here, and the death of one
ends the service, also while it starts.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from global_discovery.domain.access import ALL_RIGHTS, Rights
from global_discovery.domain.clock import Clock
from global_discovery.domain.errors import ShuttingDown
from global_discovery.domain.events import Event, Report, ignore
from global_discovery.serving.access.guard import Guard
from global_discovery.serving.access.metrics import AccessCollector
from global_discovery.serving.access.policy_file import PolicyKeeper
from global_discovery.serving.access.reviews import Reviews, TokenCluster
from global_discovery.serving.access.tokens import Tokens
from global_discovery.serving.caller import Callers, Network
from global_discovery.serving.core import Core, CoreSettings, ImportedSources
from global_discovery.serving.grpc.open_services import OpenServices
from global_discovery.serving.grpc.server import GrpcFace
from global_discovery.serving.grpc.service import SERVICE, PoolDiscovery
from global_discovery.serving.limit_metrics import LimitCollector
from global_discovery.serving.metrics import CallMetrics, CoreCollector, LoopLag
from global_discovery.serving.metrics.process import InstanceCollector, register_process
from global_discovery.serving.metrics.store import MeasuredStore, StoreCollector
from global_discovery.serving.race import race
from global_discovery.serving.readiness import Readiness
from global_discovery.serving.rest.server import RestFace
from global_discovery.serving.tls.files import TlsPaths
from global_discovery.serving.tls.keeper import TlsKeeper
from global_discovery.serving.tls.metrics import TlsCollector
from global_discovery.serving.tracing.tracer import Tracer
from global_discovery.storage.store import RegistrationStore

TICK_SECONDS = 0.1
DRAIN_SECONDS = 1.0
STORE_CLOSE_SECONDS = 5.0
LAST_SPANS_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """What a service is started with. Addresses are `host:port`; port 0 is a free one."""

    core: CoreSettings = field(default_factory=CoreSettings)
    listen: str = "0.0.0.0:8080"
    grpc_listen: str = "0.0.0.0:50051"
    health_listen: str | None = None
    trusted_proxies: Sequence[Network] = ()
    tls: TlsPaths | None = None
    """For `listen` and `grpc_listen`; None serves them in plain text."""
    anonymous: Rights = ALL_RIGHTS
    """What callers without an identity may do."""
    policy: Path | None = None
    """What identities may do; None allows them all."""
    token_audience: str = ""
    """What tokens must be made for, where any are looked at."""


class Watching(Protocol):
    """What follows the imported slices, in the modes that read them."""

    @property
    def sources(self) -> ImportedSources:
        """What it shows."""
        ...

    @property
    def figures(self) -> Sequence[Collector]:
        """Its metrics."""
        ...

    async def run(self) -> None:
        """For ever: no failure of what it reads ends it."""
        ...


class Service:
    """One instance. `start`, then `run` until it is cancelled, then `stop`.

    Whatever `start` and `run` ended with, `stop` closes what is open.
    """

    def __init__(  # noqa: PLR0913 - by keyword, and most have a default
        self,
        settings: ServiceSettings,
        store: RegistrationStore,
        *,
        watching: Watching | None = None,
        token_clusters: Sequence[TokenCluster] = (),
        clock: Clock | None = None,
        report: Report = ignore,
        tracer: Tracer | None = None,
    ) -> None:
        """Must be made inside the event loop.

        `token_clusters` are those whose service accounts are known by their tokens.
        Raises OSError when a port is taken or the files of TLS cannot be used, and
        BadPolicy.
        """
        imported = None if watching is None else watching.sources
        store = MeasuredStore(store, tracer)
        self._tracer = tracer
        self.core = Core(settings.core, store, imported=imported, clock=clock, report=report)
        self._store = store
        self._report = report
        self._lag = LoopLag()
        self.registry = CollectorRegistry()
        self._readiness = Readiness(self.core)
        metrics = CallMetrics(self.registry)
        self.tls = self._tls_keeper(settings)
        self.guard = self._make_guard(settings, token_clusters)
        self.grpc = GrpcFace(
            PoolDiscovery(self.core, self.guard, metrics, tracer),
            OpenServices(self.core, self.guard, metrics, SERVICE),
            settings.grpc_listen,
            None if self.tls is None else self.tls.credentials(),
            settings.core.limits,
        )
        self.rest = RestFace(
            self.core,
            self.guard,
            metrics,
            self.registry,
            self._readiness,
            listen=settings.listen,
            health_listen=settings.health_listen,
            tls=self.tls,
            tracer=tracer,
        )
        self._watching = watching
        self._tasks: list[asyncio.Task[None]] = []
        """Those that run for ever."""
        self._register_figures(store)

    def _register_figures(self, store: MeasuredStore) -> None:
        """What /metrics shows beside the calls."""
        figures: list[Collector] = [
            CoreCollector(self.core, self._lag),
            StoreCollector(store),
            InstanceCollector(self.core, self._readiness),
            AccessCollector(self.guard),
            TlsCollector(self.tls, self.core.clock.wall),
            LimitCollector(self.core, self.rest.connections),
            *(() if self._watching is None else self._watching.figures),
        ]
        for collector in figures:
            self.registry.register(collector)
        register_process(self.registry)

    def _tls_keeper(self, settings: ServiceSettings) -> TlsKeeper | None:
        if settings.tls is None:
            return None
        return TlsKeeper(
            settings.tls,
            wall=self.core.clock.wall,
            report=self._report,
            # The probes, which have no certificate, have a port of their own then.
            every_caller_certified=settings.health_listen is not None,
        )

    def _make_guard(
        self, settings: ServiceSettings, token_clusters: Sequence[TokenCluster]
    ) -> Guard:
        clock, report = self.core.clock, self._report
        tokens, policy = None, None
        if token_clusters:
            reviews = Reviews(token_clusters, clock=clock, report=report)
            tokens = Tokens(reviews, audience=settings.token_audience, clock=clock)
        if settings.policy is not None:
            policy = PolicyKeeper(settings.policy, report=report)
        return Guard(
            Callers(settings.trusted_proxies),
            anonymous=settings.anonymous,
            policy=policy,
            tokens=tokens,
            certificates=self.tls is not None and self.tls.asks_for_certificates,
            clock=clock,
            report=report,
        )

    @property
    def ports(self) -> dict[str, int]:
        """The ports that are open, as the log names them."""
        ports = {"grpc_port": self.grpc.port, "rest_port": self.rest.port}
        if self.rest.health_port is not None:
            ports["health_port"] = self.rest.health_port
        return ports

    async def start(self) -> None:
        """Opens the ports, reads the store, and is ready. Raises OSError, or what ended a task."""
        await self.grpc.start()
        self._own(self.grpc.run(), "grpc")
        await self.rest.start()
        self._own(self._tick_for_ever(), "ticker")
        if self._watching is not None:
            self._own(self._watching.run(), "watching slices")
        if self.tls is not None:
            self._own(self.tls.watch(), "tls")
        if self.guard.policy is not None:
            self._own(self.guard.policy.watch(), "policy")
        self._report(Event.LISTENING, **self.ports)
        await race(self.core.registrar.open(), self.run())
        self._own(self._store.run(), "store")
        self.grpc.health.set_all(serving=True)
        self._report(Event.READY, **self.ports)

    async def run(self) -> None:
        """Ends when a task that must not end has ended, by raising what ended it."""
        if not self._tasks:
            return
        ended, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()

    async def stop(self) -> None:
        """Drains and closes everything; within two seconds when nobody is slow.

        Calls and streams of those who are slow are cut after DRAIN_SECONDS, and
        the store has STORE_CLOSE_SECONDS to close.
        """
        self._report(Event.STOPPING)
        self.grpc.health.end()
        self.core.registrar.shut()
        self.core.budget.release()
        for watchers in (self.core.pool_watchers, self.core.router_watchers):
            watchers.end_all(ShuttingDown())
        await asyncio.gather(self.grpc.stop(DRAIN_SECONDS), self.rest.stop(DRAIN_SECONDS))
        if self._tracer is not None:
            await self._tracer.close(LAST_SPANS_SECONDS)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self.guard.tokens is not None:
            await self.guard.tokens.close()
        try:
            await asyncio.wait_for(self._store.close(), STORE_CLOSE_SECONDS)
        except TimeoutError:
            self._report(Event.STORE_NOT_CLOSED, seconds=STORE_CLOSE_SECONDS)

    def _own(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Runs what must run for ever."""
        task = asyncio.create_task(work, name=name)
        self._tasks.append(task)
        self._readiness.supervise(task)

    async def _tick_for_ever(self) -> None:
        """Ends leases as they are due, in bounded portions."""
        loop = asyncio.get_running_loop()
        while True:
            more = self.core.tick()
            due = loop.time() + (0.0 if more else TICK_SECONDS)
            await asyncio.sleep(due - loop.time())
            self._lag.seen(loop.time() - due)
