"""Says of one key why it is listed or not, from what each side knows of it.

It decides nothing: the view has what is listed, and this looks for the reason.
Constant work for the key itself; the search for near misses, made only for a
key that is not listed, is bounded.

The caller's right to read the key that it asks for is to be checked before; the
predicate given here keeps other keys out of the answer.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from global_discovery.domain.change import Departure
from global_discovery.domain.completeness import Mark, Reason
from global_discovery.domain.explanation import (
    Code,
    Ending,
    Explanation,
    Finding,
    MayRead,
    RegistrationSide,
    ServiceState,
    SlicesSide,
)
from global_discovery.domain.lease import LeaseTerms
from global_discovery.domain.pool import Pool, PoolKey
from global_discovery.slices.imported import ImportedPool
from global_discovery.sources.join import JoinedPools, JoinState
from global_discovery.sources.near_misses import NearMisses, near_misses
from global_discovery.sources.registrations import Registrations
from global_discovery.storage.store import StoreState

if TYPE_CHECKING:  # at run time it needs the extra `kubernetes`, which not every mode has
    from global_discovery.sources.imported_pools import ImportedPools


class Explainer:
    """Reads both sides of the pools."""

    def __init__(
        self,
        registrations: Registrations,
        *,
        terms: LeaseTerms,
        store: Callable[[], StoreState],
        joined: JoinedPools | None = None,
        imported: "ImportedPools | None" = None,
    ) -> None:
        """`joined` where slices are read; `imported` where they are known one by one."""
        self._registrations = registrations
        self._terms = terms
        self._store = store
        self._joined = joined
        self._imported = imported

    def explain(
        self, key: PoolKey, listed: Pool | None, mark: Mark, may_read: MayRead
    ) -> Explanation:
        """`listed` and `mark` are those of the view, as it is now."""
        registration = self._registrations.explain(key)
        state = None if self._joined is None else self._joined.explain(key)
        slices = None if self._imported is None else self._imported.explain(key, may_read)
        reasons = [*_why_not(key, registration, state, slices, mark)] if listed is None else []
        verdict = reasons.pop(0) if reasons else Finding(Code.LISTED, "it is in the list")
        findings = [
            *reasons,
            *_of_shares(registration, self._terms),
            *_of_addresses(key, listed, state, slices),
            *self._of_the_service(listed, state, mark),
        ]
        missed = self._near_misses(key, may_read) if listed is None else NearMisses((), cut=False)
        return Explanation(
            key, verdict, tuple(findings), listed, registration, slices, *missed, mark
        )

    def _near_misses(self, key: PoolKey, may_read: MayRead) -> NearMisses:
        return near_misses(
            key,
            registered=self._registrations.keys(),
            imported=() if self._joined is None else self._joined.imported_keys(),
            slices=None if self._imported is None else self._imported.explained,
            may_read=may_read,
        )

    def _of_the_service(
        self, listed: Pool | None, state: JoinState | None, mark: Mark
    ) -> Iterator[Finding]:
        if state is not None and state.told is not None:
            detail = f"for long only one side has listed it: {state.told.value}"
            yield Finding(Code.ONE_SIDED, detail)
        if self._store().failing:
            yield Finding(Code.STORE_FAILING, "the registration store fails to read or to write")
        if listed is None and not mark.exact:
            told = ", ".join(sorted(reason.value for reason in mark.reasons))
            yield Finding(Code.VIEW_ESTIMATED, f"pools may be missing from the view: {told}")


# -- why it is not listed ------------------------------------------------------


def _why_not(
    key: PoolKey,
    registration: RegistrationSide,
    state: JoinState | None,
    slices: SlicesSide | None,
    mark: Mark,
) -> Iterator[Finding]:
    """What is missing, the first being the reason."""
    if not registration.shares:
        yield _unregistered(registration)
    if state is None or state.shown is not None:
        return
    unsynced = Reason.SOURCE_UNSYNCED in mark.reasons
    if unsynced:
        yield Finding(
            Code.SOURCE_UNSYNCED,
            "the imported slices are not in sync with the Kubernetes API, and as last known they "
            "do not show it Ready",
        )
    yield _unshown(key, state.imported, slices)


def _unregistered(registration: RegistrationSide) -> Finding:
    if not registration.ended:
        detail = "no registration of this key is known, and none that ended of late"
        return Finding(Code.NOT_REGISTERED, detail)
    last = registration.ended[0]
    ago = f"{round(last.ago)} s ago"
    if last.ending is Ending.WITHDRAWN:
        detail = f"its last share was withdrawn {ago}, by {last.caller}"
        return Finding(Code.WITHDRAWN, detail)
    unheard = last.departure is Departure.UNLISTED
    doubt = ", while renewals may have been missed" if unheard else ""
    return Finding(Code.LAPSED, f"its last lease ended without a renewal {ago}{doubt}")


def _unshown(key: PoolKey, imported: ImportedPool | None, slices: SlicesSide | None) -> Finding:
    if slices is None:
        if imported is None:
            return Finding(Code.NOT_IMPORTED, "no imported slice is of either of its Services")
        return Finding(Code.NO_READY_RELAY, "its imported slices show no Ready relay")
    relays, frontends = slices.relays, slices.frontends
    if not slices.watched:
        return Finding(Code.NAMESPACE_NOT_WATCHED, "slices of its namespace are not asked for")
    if relays.slice_count:
        detail = f"{_ready(relays)} of its relay Service {relays.name} are Ready"
        return Finding(Code.NO_READY_RELAY, detail)
    if frontends.slice_count:
        detail = (
            f"no imported slice is of its relay Service {relays.name}; {frontends.name} is imported"
        )
        return Finding(Code.RELAYS_NOT_IMPORTED, detail)
    detail = (
        f"no imported slice of cluster {key.cluster_id} is of the Service {relays.name} or "
        f"{frontends.name}"
    )
    return Finding(Code.NOT_IMPORTED, detail)


def _ready(service: ServiceState) -> str:
    return f"{service.ready} of {service.endpoints} endpoints"


# -- what else is odd ----------------------------------------------------------


def _of_shares(registration: RegistrationSide, terms: LeaseTerms) -> Iterator[Finding]:
    shares = registration.shares
    overdue = sum((share.since_renewal or 0.0) > terms.overdue_after for share in shares)
    if overdue:
        detail = f"{overdue} of its {len(shares)} shares missed a heartbeat"
        yield Finding(Code.HEARTBEAT_OVERDUE, detail)
    extended = sum(share.extensions > 0 for share in shares)
    if extended:
        detail = f"{extended} of its {len(shares)} leases run on only because none could be heard"
        yield Finding(Code.LEASE_EXTENDED, detail)
    if registration.disagreeing:
        detail = "its relays register different content; the one that changed last counts"
        yield Finding(Code.RELAYS_DISAGREE, detail)
    if any(share.relay_id_needed for share in shares):
        detail = "callers that cannot be told apart alternate the content of one share"
        yield Finding(Code.RELAY_ID_NEEDED, detail)


def _of_addresses(
    key: PoolKey, listed: Pool | None, state: JoinState | None, slices: SlicesSide | None
) -> Iterator[Finding]:
    if state is None:
        if listed is not None and not listed.content.frontends:
            yield Finding(Code.NO_FRONTENDS_REGISTERED, "its registration has no frontends")
        return
    if state.held:
        detail = (
            "it keeps addresses that its slices no longer show: many pools lost theirs together"
        )
        yield Finding(Code.DAMPED, detail)
    if state.imported is not None and not state.imported.frontends:
        yield _no_frontend(key, state.imported, slices)
    if slices is not None:
        for refused in slices.refused:
            yield Finding(Code.SLICE_REFUSED, f"slice {refused.name} is not read: {refused.reason}")
        told = state.imported is None or state.imported.frontend_port_seen
        for notice in slices.notices:
            if told or notice.code is not Code.FRONTEND_PORT_MISSING:
                yield notice


def _no_frontend(key: PoolKey, imported: ImportedPool, slices: SlicesSide | None) -> Finding:
    service = f"{key} frontend Service" if slices is None else slices.frontends.name
    if not imported.frontend_slices:
        detail = f"no imported slice is of its frontend Service {service}"
        return Finding(Code.FRONTENDS_NOT_IMPORTED, detail)
    if imported.frontend_port_seen:
        ready = "none" if slices is None else _ready(slices.frontends)
        return Finding(Code.NO_READY_FRONTEND, f"{ready} of {service} are Ready")
    ports: dict[str, None] = {}
    for one in () if slices is None else slices.frontends.slices:
        ports.update(dict.fromkeys(one.ports))
    wanted = "the port" if slices is None else f"a TCP port named {slices.port_name}"
    detail = f"no slice of {service} has {wanted}; ports seen: {', '.join(ports) or 'none'}"
    return Finding(Code.FRONTEND_PORT_MISSING, detail)
