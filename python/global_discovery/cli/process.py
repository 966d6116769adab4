"""The process around the service: its log, its end, and its exit status.

The first SIGTERM or SIGINT stops the service in order, with exit status 0, also
while it is still starting. A second one ends the process at once, with 128 and
the signal's number, whatever the service is doing then. When the service cannot
start or one of its tasks dies, the exit status is 1.
"""

import asyncio
import contextlib
import gc
import resource
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog

from global_discovery import __version__, log
from global_discovery.cli.extras import needs
from global_discovery.cli.flags import Values
from global_discovery.cli.serve_flags import general
from global_discovery.cli.serve_flags.access import POLICY, TOKEN_AUDIENCE, anonymous_rights
from global_discovery.cli.serve_flags.discovery import IMPORTED, ROUTER
from global_discovery.cli.serve_flags.limits import limits_from
from global_discovery.cli.serve_flags.tls import TLS_CERT, TLS_CLIENT_CA, tls_paths
from global_discovery.cli.signals import StopSignals
from global_discovery.cli.stores import store_from
from global_discovery.domain.clock import SystemClock
from global_discovery.domain.events import Report
from global_discovery.domain.lease import LeaseTerms
from global_discovery.domain.policy import BadPolicy
from global_discovery.serving.access.reviews import TokenCluster
from global_discovery.serving.core import CoreSettings
from global_discovery.serving.log import reporter
from global_discovery.serving.race import race
from global_discovery.serving.service import Service, ServiceSettings, Watching
from global_discovery.serving.tracing.tracer import Tracer
from global_discovery.storage.store import RegistrationStore

STOPPED, FAILED = 0, 1
COLLECTOR_THRESHOLDS = (50_000, 20, 50)
"""For Python's cyclic garbage collector, whose every full pass stops the loop.

Pools, shares and messages hold no cycles, so a pass over them finds nothing,
and with 10,000 pools at 500 changes a second the default (700, 10, 10) trebles
the lag of the slowest watcher. What does hold cycles is rare and small.
"""
UNPROTECTED = (
    "without authentication any caller that reaches the ports can redirect or remove any pool"
)
NOBODY = (
    "callers without an identity may not register, and no caller can have one: set "
    "--tls-client-ca-path or --token-audience"
)
PLAIN_TOKENS = "tokens are taken over connections without TLS; whoever sees one can use it"


class CannotStart(Exception):
    """The service did not come up, for a reason outside of it: says which."""


def run(values: Values, signals: StopSignals, store: RegistrationStore | None = None) -> int:
    """Serves until a signal; the exit status. `store` is by default the one that is named.

    Raises NotInstalled, having done nothing.
    """
    watching, token_clusters = watching_from(values), token_clusters_from(values)
    trace = tracer_from(values)
    settings, clock, report = settings_from(values), SystemClock(), reporter()
    store = store or store_from(values, settings.core.terms, clock, report)
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    _raise_open_files()
    terminal = "console" if sys.stderr and sys.stderr.isatty() else "json"
    log.configure(values.get(general.LOG_FORMAT) or terminal, level=values[general.LOG_LEVEL])
    structlog.get_logger().info("configured", audit=True, version=__version__, flags=values.shown())
    _warn(values)
    make = _Make(settings, store, watching, token_clusters, trace)
    return asyncio.run(_serve(make, signals))


def _warn(values: Values) -> None:
    """Says what is open that may be meant to be closed, and the other way round."""
    warning = structlog.get_logger().warning
    reachable = not all(values[flag].is_loopback for flag in (general.LISTEN, general.GRPC_LISTEN))
    certified, tokens = values.is_set(TLS_CLIENT_CA), values.is_set(TOKEN_AUDIENCE)
    if not anonymous_rights(values).register.empty:
        if reachable and not certified:
            warning("unprotected", message=UNPROTECTED)
    elif not certified and not tokens:
        warning("nobody_can_register", message=NOBODY)
    if tokens and reachable and not values.is_set(TLS_CERT):
        warning("tokens_in_plain_text", message=PLAIN_TOKENS)


def _raise_open_files() -> None:
    """As many connections as the system lets us have; many start with 1,024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def settings_from(values: Values) -> ServiceSettings:
    """What the flags say, for the service."""
    health = values.get(general.HEALTH_LISTEN)
    return ServiceSettings(
        core=CoreSettings(
            terms=LeaseTerms(values[general.HEARTBEAT], values[general.LEASE]),
            routers=values.all(ROUTER),
            mass_lapse_protection=values[general.MASS_LAPSE_PROTECTION],
            slow_watcher_seconds=values[general.SLOW_WATCHER],
            pool_discovery=values[general.POOL_DISCOVERY],
            limits=limits_from(values),
        ),
        listen=str(values[general.LISTEN]),
        grpc_listen=str(values[general.GRPC_LISTEN]),
        health_listen=None if health is None else str(health),
        trusted_proxies=values.all(general.TRUSTED_PROXY),
        tls=tls_paths(values),
        anonymous=anonymous_rights(values),
        policy=values.get(POLICY),
        token_audience=values.get(TOKEN_AUDIENCE) or "",
    )


def watching_from(values: Values) -> Callable[[Report], Watching] | None:
    """What follows the imported slices, to be made inside the loop; None in a mode without.

    Raises NotInstalled.
    """
    if values[general.POOL_DISCOVERY] not in IMPORTED.used_with:
        return None
    with needs("kubernetes"):
        from global_discovery.cli import watching  # noqa: PLC0415 - it needs an extra
    settings = watching.settings_from(values)
    return lambda report: watching.SlicesWatching(settings, report=report)


def token_clusters_from(values: Values) -> Callable[[], Sequence[TokenCluster]]:
    """The clusters whose tokens are looked at, to be made inside the loop.

    Raises NotInstalled.
    """
    if not values.is_set(TOKEN_AUDIENCE):
        return tuple
    with needs("kubernetes"):
        from global_discovery.cli import reviewing  # noqa: PLC0415 - it needs an extra
    return reviewing.clusters_from(values)


def tracer_from(values: Values) -> Callable[[str], Tracer] | None:
    """What makes spans for the instance of an id; None without `--tracing on`.

    Raises NotInstalled.
    """
    if not values[general.TRACING]:
        return None
    with needs("otel"):
        from global_discovery.serving.tracing.otel import (  # noqa: PLC0415 - it needs an extra
            OtelTracer,
        )
    return lambda instance_id: OtelTracer(version=__version__, instance_id=instance_id)


class _Make(NamedTuple):
    """What a service is made of, once the loop runs."""

    settings: ServiceSettings
    store: RegistrationStore
    watching: Callable[[Report], Watching] | None
    token_clusters: Callable[[], Sequence[TokenCluster]]
    trace: Callable[[str], Tracer] | None

    def service(self, report: Report) -> Service:
        """Raises OSError, and BadPolicy."""
        instance_id = self.settings.core.instance_id
        return Service(
            self.settings,
            self.store,
            watching=None if self.watching is None else self.watching(report),
            token_clusters=self.token_clusters(),
            report=report,
            tracer=None if self.trace is None else self.trace(instance_id),
        )


async def _serve(make: _Make, signals: StopSignals) -> int:
    """One whole life of the service."""
    logger = structlog.get_logger()
    status = STOPPED
    try:
        await _live(make, signals)
    except CannotStart as reason:
        status = FAILED
        logger.error("cannot_start", message=str(reason))  # noqa: TRY400 - no fault of ours
    except Exception:
        status = FAILED
        logger.exception("failed", message="a fault of this program ended it")
    logger.info("stopped", status=status)
    return status


async def _live(make: _Make, signals: StopSignals) -> None:
    """Returns after a signal and an orderly stop; raises what else ended the service."""
    try:
        service = make.service(reporter())
    except (OSError, BadPolicy) as error:
        raise CannotStart(str(error)) from error
    try:
        await race(signals.wait(), _start_and_run(service))
    finally:
        await service.stop()


async def _start_and_run(service: Service) -> None:
    try:
        await service.start()
    except OSError as error:
        raise CannotStart(str(error)) from error
    await service.run()
