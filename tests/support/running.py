"""A real service on a port of this machine, in the test's own event loop."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from global_discovery.domain.access import ALL_RIGHTS, Rights
from global_discovery.domain.clock import Clock
from global_discovery.domain.events import Report, ignore
from global_discovery.domain.lease import LeaseTerms
from global_discovery.domain.pool import Router
from global_discovery.serving.access.reviews import TokenCluster
from global_discovery.serving.caller import Network
from global_discovery.serving.core import CoreSettings
from global_discovery.serving.limits import ServiceLimits
from global_discovery.serving.service import Service, ServiceSettings, Watching
from global_discovery.serving.tls.files import TlsPaths
from global_discovery.serving.tracing.tracer import Tracer
from global_discovery.storage.memory import MemoryStore
from global_discovery.storage.store import RegistrationStore
from global_discovery.view.fanout import DEFAULT_WRITE_SECONDS, STREAM_AGE_SECONDS


@contextlib.asynccontextmanager
async def a_service(
    *,
    port: int = 0,
    rest_port: int = 0,
    terms: LeaseTerms | None = None,
    routers: tuple[Router, ...] = (),
    clock: Clock | None = None,
    slow_watcher_seconds: float = DEFAULT_WRITE_SECONDS,
    stream_age: tuple[float, float] = STREAM_AGE_SECONDS,
    trusted_proxies: tuple[Network, ...] = (),
    pool_discovery: str = "registrations",
    watching: Watching | None = None,
    health_listen: str | None = None,
    tls: TlsPaths | None = None,
    anonymous: Rights = ALL_RIGHTS,
    policy: Path | None = None,
    token_audience: str = "",
    token_clusters: Sequence[TokenCluster] = (),
    limits: ServiceLimits | None = None,
    report: Report = ignore,
    store: RegistrationStore | None = None,
    tracer: Tracer | None = None,
) -> AsyncIterator[Service]:
    """Started, and stopped in order at the end. In memory unless a store is given."""
    settings = ServiceSettings(
        core=CoreSettings(
            terms=terms or LeaseTerms(),
            routers=routers,
            slow_watcher_seconds=slow_watcher_seconds,
            stream_age=stream_age,
            pool_discovery=pool_discovery,
            limits=limits or ServiceLimits(),
        ),
        listen=f"127.0.0.1:{rest_port}",
        grpc_listen=f"127.0.0.1:{port}",
        trusted_proxies=trusted_proxies,
        health_listen=health_listen,
        tls=tls,
        anonymous=anonymous,
        policy=policy,
        token_audience=token_audience,
    )
    service = Service(
        settings,
        store or MemoryStore(),
        watching=watching,
        token_clusters=token_clusters,
        clock=clock,
        report=report,
        tracer=tracer,
    )
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


def target(service: Service) -> str:
    """What a gRPC client calls it by."""
    return f"127.0.0.1:{service.grpc.port}"
