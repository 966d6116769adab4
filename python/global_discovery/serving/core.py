"""What both faces serve from: one registrar, one view of pools, one of routers."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from global_discovery import __version__
from global_discovery.domain.clock import Clock, SystemClock
from global_discovery.domain.completeness import Mark, join
from global_discovery.domain.events import Event, Report, ignore
from global_discovery.domain.explanation import Explanation, MayRead, everything
from global_discovery.domain.lease import LeaseTerms
from global_discovery.domain.pool import Pool, PoolKey, Router
from global_discovery.serving import wire
from global_discovery.serving.limits import LimitsInForce, ServiceLimits
from global_discovery.serving.turns import (
    LIST,
    LISTED_POOL_LOOKED_AT,
    PORTIONS_APART_SECONDS,
    Budget,
    LargeCalls,
    Turns,
)
from global_discovery.slices.imported import ImportedPool
from global_discovery.sources.explainer import Explainer
from global_discovery.sources.joined.join import JoinedPools
from global_discovery.sources.registered.registrar import Registrar
from global_discovery.sources.registered.registrations import Registrations
from global_discovery.sources.routers import ConfiguredRouters
from global_discovery.sources.source import Source
from global_discovery.storage.store import RegistrationStore
from global_discovery.view.fanout import DEFAULT_WRITE_SECONDS, STREAM_AGE_SECONDS, FanOut
from global_discovery.view.feed import Encoder
from global_discovery.view.pages import Pages
from global_discovery.view.recent import RecentChanges
from global_discovery.view.view import Entry, Filter, Form, Keyed, View

if TYPE_CHECKING:  # at run time it needs the extra `kubernetes`, which not every mode has
    from global_discovery.kubernetes.figures import ReaderFigures
    from global_discovery.sources.imported.pools import ImportedPools

T = TypeVar("T", bound=Keyed)

HELD_BACK_SECONDS, HELD_BACK = 2.5, 1 / 6
"""The longest for which an answer may be held back, in seconds and as a part of a lease.

Half of what a relay waits for one.
"""
SEARCH_REST_FACTOR = 100
"""Explanations are for people, who do not wait for ten seconds."""
GATHER_SECONDS = 0.1
"""Between the first change of one of two sides and the message about it."""


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """What the core is built from."""

    terms: LeaseTerms = field(default_factory=LeaseTerms)
    routers: Sequence[Router] = ()
    mass_lapse_protection: bool = True
    slow_watcher_seconds: float = DEFAULT_WRITE_SECONDS
    stream_age: tuple[float, float] = STREAM_AGE_SECONDS
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    pool_discovery: str = "registrations"
    version: str = __version__
    instance_id: str = field(default_factory=lambda: secrets.token_hex(8))


@dataclass(frozen=True, slots=True)
class ImportedSources:
    """What imported EndpointSlices show, in the modes that read them."""

    pools: Source[PoolKey, ImportedPool]
    routers: Source[str, Router] | None
    """None when no Service of routers is named."""
    frontend_suffix: str
    frontend_port_name: str
    explained: "ImportedPools"
    """What says of one pool what its slices show."""
    figures: "Callable[[], ReaderFigures] | None" = None
    """How the watch that brings them is doing, where there is one."""


class Core:
    """The service without its faces. Belongs to one event loop."""

    def __init__(  # noqa: PLR0913 - what differs between uses; most have defaults
        self,
        settings: CoreSettings,
        store: RegistrationStore,
        *,
        imported: ImportedSources | None = None,
        clock: Clock | None = None,
        report: Report = ignore,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Takes calls once its registrar is open; `tick` must be called all the while.

        With `imported` a pool is listed only where both sides agree.
        """
        self.settings = settings
        self.clock = clock or SystemClock()
        self.limits = LimitsInForce(settings.limits, self.clock, report)
        self.turns, self.portions = Turns(), Turns(PORTIONS_APART_SECONDS)
        loop_time = (loop or asyncio.get_running_loop()).time
        self.budget = Budget(
            loop_time,
            longest=min(HELD_BACK_SECONDS, settings.terms.lease_duration * HELD_BACK),
        )
        self.large_calls = LargeCalls(loop_time)
        self._searches = LargeCalls(loop_time, rest_factor=SEARCH_REST_FACTOR)
        self.registrations = self._register(store, report)
        self.store_state = store.state
        self.storage = store.name
        self.registrar = Registrar(self.registrations, store, report)
        self.imported = imported
        self.joined = None if imported is None else self._join(imported, report)
        self.recent = RecentChanges(self.clock.wall)
        self._explainer = self._explain_from(store, imported)
        self.pools = self._view_pools(report)
        self.routers = self._view_routers(None if imported is None else imported.routers, report)
        self.pool_watchers = self._fan_out("pools", self.pools, wire.POOLS, report, loop)
        self.router_watchers = self._fan_out("routers", self.routers, wire.ROUTERS, report, loop)
        self.pool_pages = self._page(self.pools, wire.pool_field)
        self.router_pages = self._page(self.routers, wire.router_field)

    def _register(self, store: RegistrationStore, report: Report) -> Registrations:
        return Registrations(
            terms=self.settings.terms,
            clock=self.clock,
            report=report,
            mass_lapse_protection=self.settings.mass_lapse_protection,
            store=store.state,
            shared=store.shared,
            limits=self.settings.limits.registrations,
        )

    def _explain_from(
        self, store: RegistrationStore, imported: ImportedSources | None
    ) -> Explainer:
        return Explainer(
            self.registrations,
            terms=self.settings.terms,
            store=store.state,
            joined=self.joined,
            imported=None if imported is None else imported.explained,
        )

    def _view_pools(self, report: Report) -> View[Pool]:
        return View(
            self.registrations if self.joined is None else self.joined,
            boottime=self.clock.boottime,
            weigh=lambda pool: pool.weight,
            mark_changed=_mark_reporter(report, "pools"),
            value_changed=self.recent.note,
        )

    def _page(self, view: View[T], field_of: Callable[[Entry[T]], bytes]) -> Pages[T]:
        return Pages(view, clock=self.clock, size_of=lambda entry: len(field_of(entry)))

    def _fan_out(
        self,
        name: str,
        view: View[T],
        encoder: Encoder[T],
        report: Report,
        loop: asyncio.AbstractEventLoop | None,
    ) -> FanOut[T]:
        seconds = self.settings.slow_watcher_seconds
        return FanOut(
            view,
            encoder,
            write_seconds=seconds,
            stream_age=self.settings.stream_age,
            gather_seconds=0.0 if self.joined is None else GATHER_SECONDS,
            ended_slow=lambda: report(Event.SLOW_WATCHER_ENDED, view=name, seconds=seconds),
            loop=loop,
        )

    def _join(self, imported: ImportedSources, report: Report) -> JoinedPools:
        return JoinedPools(
            self.registrations,
            imported.pools,
            clock=self.clock,
            lease_duration=self.settings.terms.lease_duration,
            frontend_suffix=imported.frontend_suffix,
            frontend_port_name=imported.frontend_port_name,
            report=report,
        )

    def _view_routers(self, imported: Source[str, Router] | None, report: Report) -> View[Router]:
        process = self.pools.process
        if imported is not None:
            mark_changed = _mark_reporter(report, "routers")
            return View(
                imported,
                process=process,
                boottime=self.clock.boottime,
                mark_changed=mark_changed,
            )
        if not self.settings.routers:
            report(Event.NO_ROUTERS)
        return View(ConfiguredRouters(self.settings.routers), process=process)

    @property
    def mark(self) -> Mark:
        """Of both views, as they were last brought forward."""
        return join((self.pools.mark, self.routers.mark))

    async def explain(
        self, key: PoolKey, account: str, may_read: MayRead = everything
    ) -> Explanation:
        """Why a pool is listed or not. Names other pools only where `may_read` says so.

        Whether the caller may ask for `key` itself is to be checked before. What resembles
        a key that is not listed is looked for among all pools, in one piece: these calls
        have a lane of their own, as large ones have. Raises LimitReached.
        """
        self.pools.refresh()
        if self.pools.get(key) is not None:
            return self._explain(key, may_read)
        async with self._searches.one(account, 0):
            return self._explain(key, may_read)

    def _explain(self, key: PoolKey, may_read: MayRead) -> Explanation:
        self.pools.refresh()
        return self._explainer.explain(key, self.pools.get(key), self.pools.mark, may_read)

    async def prepare_list(self, view: View[Any], wanted: Filter, form: Form, account: str) -> None:
        """Before a whole list is made for a caller: it is charged, and may have to wait for it."""
        view.refresh()
        looked_at = 0 if wanted.matches_all else len(view)
        await self.budget.spend(account, LIST + LISTED_POOL_LOOKED_AT * looked_at)
        writing, choosing = partial(self.turns.take, account), partial(self.portions.take, account)
        await view.prepare(wanted, form, writing=writing, choosing=choosing)

    def tick(self) -> bool:
        """Ends what is due; True when there is more, for which to call again soon."""
        if self.joined is not None:
            self.joined.tick()
        return self.registrar.tick()


def _mark_reporter(report: Report, view: str) -> Callable[[Mark], None]:
    before: list[str] | None = None

    def changed(mark: Mark) -> None:
        nonlocal before
        reasons = sorted(reason.value for reason in mark.reasons)
        fields = {} if before is None else {"reasons_before": before}
        report(Event.MARK_CHANGED, view=view, complete=mark.exact, reasons=reasons, **fields)
        before = reasons

    return changed
