"""What `global-discovery why` shows: an explanation as lines for people, and as one document.

A code that this release does not know is shown by its number. All texts of the
lines are escaped.
"""

import math
from collections.abc import Iterator

from google.protobuf.descriptor import EnumDescriptor

from global_discovery.cli.kinds import POOLS, Document
from global_discovery.cli.text import count, number, safe, seconds_text
from global_discovery.client.fold import PoolKey
from global_discovery.v1 import explanation_pb2 as explained_pb
from global_discovery.v1 import pool_discovery_pb2 as pb

_ENDINGS = {
    "LAPSED": "lapsed",
    "LAPSED_IN_DOUBT": "lapsed, while renewals may have been missed,",
    "WITHDRAWN": "withdrawn",
}


def lines(explanation: pb.ExplainPoolResponse, server: str) -> Iterator[str]:
    """The answer of `server`, the verdict first."""
    key, verdict = str(PoolKey.of(explanation.key)), explanation.verdict
    listed = explanation.HasField("pool")
    code = _code(verdict)
    yield safe(f"{key} is {'listed' if listed else f'not listed: {code}'}")
    yield safe(f"  {verdict.detail}")
    if not listed:
        yield safe(f"  -> {verdict.advice}")
    for finding in explanation.findings:
        yield safe(f"{_code(finding)}: {finding.detail}")
        yield safe(f"  -> {finding.advice}")
    yield ""
    yield from map(safe, _registration(explanation.registration))
    if explanation.HasField("slices"):
        yield from map(safe, _slices(explanation.slices))
    yield from map(safe, _near_misses(explanation))
    who = explanation.server
    yield safe(f"the list is {POOLS.mark_sentence(explanation.mark)}")
    yield safe(
        f"said by {server} (instance {who.instance_id}, {who.pool_discovery}, "
        f"{who.registration_storage})"
    )


def document(explanation: pb.ExplainPoolResponse) -> Document:
    """The answer as one JSON document."""
    made: Document = {
        **PoolKey.of(explanation.key)._asdict(),
        "listed": explanation.HasField("pool"),
        "verdict": _finding_document(explanation.verdict),
        "findings": [_finding_document(finding) for finding in explanation.findings],
        "registration": {
            "shares": [_share_document(share) for share in explanation.registration.shares],
            "ended": [_ended_document(ended) for ended in explanation.registration.ended],
        },
    }
    if explanation.HasField("pool"):
        made["pool"] = POOLS.document(explanation.pool)
    if explanation.HasField("slices"):
        made["slices"] = _slices_document(explanation.slices)
    made["near_misses"] = [_near_miss_document(miss) for miss in explanation.near_misses]
    made["near_misses_cut"] = explanation.near_misses_cut
    made |= POOLS.mark_document(explanation.mark)
    who = explanation.server
    made["server"] = {
        name: getattr(who, name)
        for name in ("instance_id", "version", "pool_discovery", "registration_storage")
    }
    return made


# -- lines ---------------------------------------------------------------------


def _registration(side: explained_pb.RegistrationSide) -> Iterator[str]:
    yield f"registrations: {count(len(side.shares), 'live share')}"
    for share in side.shares:
        renewed = "never renewed here"
        if share.HasField("since_renewal_secs"):
            renewed = f"renewed {seconds_text(_finite(share.since_renewal_secs))} ago"
        granted = number(_finite(share.granted_secs))
        lease = f"{seconds_text(_finite(share.remaining_secs))} of {granted} s left"
        extended = f", extended {count(share.extensions, 'time')}" if share.extensions else ""
        decides = ", decides" if share.decides else ""
        content = f"content {share.content_number} ({share.model}{decides})"
        yield f"  {_holder(share.holder)}: {renewed}, {lease}{extended}, {content}"
    for ended in side.ended:
        how = _name(explained_pb.ShareEnding.DESCRIPTOR, ended.ending, "SHARE_ENDING_")
        by = f", by {ended.caller}" if ended.caller else ""
        ago = seconds_text(_finite(ended.ago_secs))
        yield f"  {_holder(ended.holder)}: {_ENDINGS.get(how, how)} {ago} ago{by}"


def _slices(side: explained_pb.SlicesSide) -> Iterator[str]:
    sync = "in sync" if side.in_sync else "out of sync"
    yield f"slices: {sync}" + ("" if side.watched else ", namespace not watched")
    port = f", port {side.frontend_port_name} {'' if side.frontend_port_seen else 'not '}seen"
    for what, service, seen in (
        ("relays", side.relays, ""),
        ("frontends", side.frontends, port if side.frontends.slice_count else ""),
    ):
        found = count(service.slice_count, "slice")
        ready = f"{service.ready} of {count(service.endpoints, 'endpoint')} Ready"
        yield f"  {what} {service.name}: {found}, {ready}{seen}"
        for one in service.slices:
            ports = ", ".join(one.ports) or "no port"
            endpoints = count(one.endpoints, "endpoint")
            yield f"    {one.name}: {one.family}, {one.ready} of {endpoints} Ready, {ports}"
        if service.slice_count > len(service.slices):
            yield f"    and {service.slice_count - len(service.slices)} more"


def _near_misses(explanation: pb.ExplainPoolResponse) -> Iterator[str]:
    if not explanation.near_misses:
        return
    yield "near misses:"
    for miss in explanation.near_misses:
        kind = _name(explained_pb.NearMissKind.DESCRIPTOR, miss.kind, "NEAR_MISS_KIND_")
        sides = (("registered", miss.registered), ("imported", miss.imported))
        where = " and ".join(side for side, there in sides if there)
        detail = f": {miss.detail}" if miss.detail else ""
        yield f"  {PoolKey.of(miss.key)} ({kind}, {where}){detail}"
    if explanation.near_misses_cut:
        yield "  and perhaps more"


def _holder(holder: explained_pb.ShareHolder) -> str:
    relays = ", ".join(holder.relays)
    if holder.relay_count > len(holder.relays):
        relays += f" and {holder.relay_count - len(holder.relays)} more"
    kind = _identity(holder)
    return f"{kind} {holder.name} ({relays})" if holder.name else f"{kind} {relays}"


# -- documents -----------------------------------------------------------------


def _finding_document(finding: explained_pb.Finding) -> Document:
    return {"code": _code(finding), "detail": finding.detail, "advice": finding.advice}


def _share_document(share: explained_pb.ShareState) -> Document:
    known = share.HasField("since_renewal_secs")
    return {
        "holder": _holder_document(share.holder),
        "granted_secs": _finite(share.granted_secs),
        "since_renewal_secs": _finite(share.since_renewal_secs) if known else None,
        "remaining_secs": _finite(share.remaining_secs),
        "extensions": share.extensions,
        "content_number": share.content_number,
        "decides": share.decides,
        "model": share.model,
    }


def _ended_document(ended: explained_pb.EndedShare) -> Document:
    return {
        "holder": _holder_document(ended.holder),
        "ending": _name(explained_pb.ShareEnding.DESCRIPTOR, ended.ending, "SHARE_ENDING_"),
        "ago_secs": _finite(ended.ago_secs),
        "caller": ended.caller,
    }


def _holder_document(holder: explained_pb.ShareHolder) -> Document:
    return {
        "identity": _identity(holder),
        "name": holder.name,
        "relays": list(holder.relays),
        "relay_count": holder.relay_count,
    }


def _slices_document(side: explained_pb.SlicesSide) -> Document:
    return {
        "in_sync": side.in_sync,
        "watched": side.watched,
        "relays": _service_document(side.relays),
        "frontends": _service_document(side.frontends),
        "frontend_port_name": side.frontend_port_name,
        "frontend_port_seen": side.frontend_port_seen,
    }


def _service_document(service: explained_pb.ServiceState) -> Document:
    return {
        "name": service.name,
        "slice_count": service.slice_count,
        "slices": [
            {
                "name": one.name,
                "family": one.family,
                "endpoints": one.endpoints,
                "ready": one.ready,
                "ports": list(one.ports),
            }
            for one in service.slices
        ],
        "endpoints": service.endpoints,
        "ready": service.ready,
    }


def _near_miss_document(miss: explained_pb.NearMiss) -> Document:
    return {
        "kind": _name(explained_pb.NearMissKind.DESCRIPTOR, miss.kind, "NEAR_MISS_KIND_"),
        **PoolKey.of(miss.key)._asdict(),
        "registered": miss.registered,
        "imported": miss.imported,
        "detail": miss.detail,
    }


# -- codes ---------------------------------------------------------------------


def _code(finding: explained_pb.Finding) -> str:
    return _name(explained_pb.FindingCode.DESCRIPTOR, finding.code, "FINDING_CODE_")


def _identity(holder: explained_pb.ShareHolder) -> str:
    return _name(explained_pb.ShareIdentity.DESCRIPTOR, holder.identity, "SHARE_IDENTITY_").lower()


def _name(enum: EnumDescriptor, value: int, prefix: str) -> str:
    known = enum.values_by_number.get(value)
    return known.name.removeprefix(prefix) if known else f"UNKNOWN_{value}"


def _finite(seconds: float) -> float:
    """A duration that can be shown, whatever a server says."""
    return seconds if math.isfinite(seconds) else 0.0
