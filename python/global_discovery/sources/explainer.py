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
from global_discovery.sources.joined.join import JoinedPools, JoinState
from global_discovery.sources.near_misses import NearMisses, near_misses
from global_discovery.sources.registered.registrations import Registrations
from global_discovery.storage.store import StoreState

if TYPE_CHECKING:  # at run time it needs the extra `kubernetes`, which not every mode has
    from global_discovery.sources.imported.pools import ImportedPools


PORTS_TOLD = 16
_Kubernetes = tuple[JoinState, SlicesSide]


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
        """Where slices are read there are both `joined` and `imported`, else neither."""
        self._registrations = registrations
        self._terms = terms
        self._store = store
        self._kubernetes = None
        if joined is not None and imported is not None:
            self._kubernetes = joined, imported

    def explain(
        self, key: PoolKey, listed: Pool | None, mark: Mark, may_read: MayRead
    ) -> Explanation:
        """`listed` and `mark` are those of the view, as it is now."""
        registration = self._registrations.explain(key)
        kubernetes = None
        if self._kubernetes is not None:
            joined, imported = self._kubernetes
            kubernetes = joined.explain(key), imported.explain(key, may_read)
        reasons = [*_why_not(key, registration, kubernetes, mark)] if listed is None else []
        verdict = reasons.pop(0) if reasons else Finding(Code.LISTED, "it is in the list")
        findings = [
            *reasons,
            *_of_shares(registration, self._terms),
            *_of_addresses(listed, kubernetes),
            *self._of_the_service(listed, kubernetes, mark),
        ]
        missed = self._near_misses(key, may_read) if listed is None else NearMisses((), cut=False)
        slices = None if kubernetes is None else kubernetes[1]
        return Explanation(
            key, verdict, tuple(findings), listed, registration, slices, *missed, mark
        )

    def _near_misses(self, key: PoolKey, may_read: MayRead) -> NearMisses:
        return near_misses(
            key,
            registered=self._registrations.keys(),
            imported=() if self._kubernetes is None else self._kubernetes[0].imported_keys(),
            slices=None if self._kubernetes is None else self._kubernetes[1].explained,
            may_read=may_read,
        )

    def _of_the_service(
        self, listed: Pool | None, kubernetes: _Kubernetes | None, mark: Mark
    ) -> Iterator[Finding]:
        told = None if kubernetes is None else kubernetes[0].told
        if told is not None:
            detail = f"for long only one side has listed it: {told.value}"
            yield Finding(Code.ONE_SIDED, detail)
        if self._store().failing:
            yield Finding(Code.STORE_FAILING, "the registration store fails to read or to write")
        if listed is None and not mark.exact:
            reasons = ", ".join(sorted(reason.value for reason in mark.reasons))
            yield Finding(Code.VIEW_ESTIMATED, f"pools may be missing from the view: {reasons}")


# -- why it is not listed ------------------------------------------------------


def _why_not(
    key: PoolKey,
    registration: RegistrationSide,
    kubernetes: _Kubernetes | None,
    mark: Mark,
) -> Iterator[Finding]:
    """What is missing, the first being the reason."""
    if not registration.shares:
        yield _unregistered(registration)
    if kubernetes is None or kubernetes[0].shown:
        return
    if Reason.SOURCE_UNSYNCED in mark.reasons:
        yield Finding(
            Code.SOURCE_UNSYNCED,
            "the imported slices are not in sync with the Kubernetes API, and as last known they "
            "do not show it Ready",
        )
    yield _unshown(key, kubernetes[1])


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


def _unshown(key: PoolKey, slices: SlicesSide) -> Finding:
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


def _of_addresses(listed: Pool | None, kubernetes: _Kubernetes | None) -> Iterator[Finding]:
    if kubernetes is None:
        if listed is not None and not listed.content.frontends:
            yield Finding(Code.NO_FRONTENDS_REGISTERED, "its registration has no frontends")
        return
    state, slices = kubernetes
    if state.held:
        detail = (
            "it keeps addresses that its slices no longer show: many pools lost theirs together"
        )
        yield Finding(Code.DAMPED, detail)
    frontends = slices.frontends
    some = slices.relays.slice_count or frontends.slice_count
    if some and not frontends.ready:
        yield _no_frontend(frontends, slices.port_name)
    for refused in slices.refused:
        yield Finding(Code.SLICE_REFUSED, f"slice {refused.name} is not read: {refused.reason}")
    for notice in slices.notices:
        if frontends.port_seen or notice.code is not Code.FRONTEND_PORT_MISSING:
            yield notice


def _no_frontend(frontends: ServiceState, port_name: str) -> Finding:
    name = frontends.name
    if not frontends.slice_count:
        detail = f"no imported slice is of its frontend Service {name}"
        return Finding(Code.FRONTENDS_NOT_IMPORTED, detail)
    if frontends.port_seen:
        return Finding(Code.NO_READY_FRONTEND, f"{_ready(frontends)} of {name} are Ready")
    seen = dict.fromkeys(port for one in frontends.slices for port in one.ports)
    ports = ", ".join(list(seen)[:PORTS_TOLD]) or "none"
    detail = f"no slice of {name} has a TCP port named {port_name}; ports seen: {ports}"
    return Finding(Code.FRONTEND_PORT_MISSING, detail)
