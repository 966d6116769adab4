"""An explanation as its protobuf message. Codes go over by name, so that none can be mixed up."""

from global_discovery.domain.change import Departure
from global_discovery.domain.explanation import (
    EndedShare,
    Ending,
    Explanation,
    Finding,
    NearMiss,
    RegistrationSide,
    ServiceState,
    ShareState,
    SlicesSide,
    Who,
)
from global_discovery.serving.wire import key_message, mark_message, pool_message
from global_discovery.v1 import explanation_pb2 as explained_pb
from global_discovery.v1 import pool_discovery_pb2 as pb


def explanation_response(explanation: Explanation, server: pb.ServerInfo) -> pb.ExplainPoolResponse:
    """The whole answer of the instance `server`."""
    pool, slices = explanation.pool, explanation.slices
    return pb.ExplainPoolResponse(
        key=key_message(explanation.key),
        verdict=_finding(explanation.verdict),
        findings=map(_finding, explanation.findings),
        pool=None if pool is None else pool_message(pool),
        registration=_registration(explanation.registration),
        slices=None if slices is None else _slices(slices),
        near_misses=map(_near_miss, explanation.near_misses),
        near_misses_cut=explanation.near_misses_cut,
        mark=mark_message(explanation.mark),
        server=server,
    )


def _finding(finding: Finding) -> explained_pb.Finding:
    code = explained_pb.FindingCode.Value(f"FINDING_CODE_{finding.code.name}")
    return explained_pb.Finding(code=code, detail=finding.detail, advice=finding.advice)


def _registration(side: RegistrationSide) -> explained_pb.RegistrationSide:
    return explained_pb.RegistrationSide(
        shares=map(_share, side.shares), ended=map(_ended, side.ended)
    )


def _holder(who: Who) -> explained_pb.ShareHolder:
    return explained_pb.ShareHolder(
        identity=explained_pb.ShareIdentity.Value(f"SHARE_IDENTITY_{who.kind.name}"),
        name=who.name,
        relays=who.relays,
        relay_count=who.relay_count,
    )


def _share(share: ShareState) -> explained_pb.ShareState:
    return explained_pb.ShareState(
        holder=_holder(share.who),
        granted_secs=share.granted,
        since_renewal_secs=share.since_renewal,
        remaining_secs=share.remaining,
        extensions=share.extensions,
        content_number=share.number,
        decides=share.decides,
        model=share.model,
    )


def _ended(ended: EndedShare) -> explained_pb.EndedShare:
    ending = ended.ending.name
    if ended.ending is Ending.LAPSED and ended.departure is Departure.UNLISTED:
        ending += "_IN_DOUBT"
    return explained_pb.EndedShare(
        holder=_holder(ended.who),
        ending=explained_pb.ShareEnding.Value(f"SHARE_ENDING_{ending}"),
        ago_secs=ended.ago,
        caller=ended.caller,
    )


def _slices(side: SlicesSide) -> explained_pb.SlicesSide:
    return explained_pb.SlicesSide(
        in_sync=side.in_sync,
        watched=side.watched,
        relays=_service(side.relays),
        frontends=_service(side.frontends),
        frontend_port_name=side.port_name,
        frontend_port_seen=side.frontends.port_seen,
    )


def _service(service: ServiceState) -> explained_pb.ServiceState:
    return explained_pb.ServiceState(
        name=service.name,
        slice_count=service.slice_count,
        slices=(explained_pb.SliceState(**one._asdict()) for one in service.slices),
        endpoints=service.endpoints,
        ready=service.ready,
    )


def _near_miss(miss: NearMiss) -> explained_pb.NearMiss:
    return explained_pb.NearMiss(
        kind=explained_pb.NearMissKind.Value(f"NEAR_MISS_KIND_{miss.kind.name}"),
        key=key_message(miss.key),
        registered=miss.registered,
        imported=miss.imported,
        detail=miss.detail,
    )
