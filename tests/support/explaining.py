"""Services on a clock that is moved, asked for explanations over real gRPC, in each mode."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc

from global_discovery.domain.lease import LeaseTerms
from global_discovery.serving.service import Service
from global_discovery.slices.model import EndpointSlice
from global_discovery.v1 import explanation_pb2 as explained_pb
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.clock import FakeClock
from support.imported import a_slice, endpoint
from support.imported_watching import ImportedWatching
from support.running import a_service, target

CODE_PREFIX = "FINDING_CODE_"


def code(finding: explained_pb.Finding) -> str:
    return explained_pb.FindingCode.Name(finding.code).removeprefix(CODE_PREFIX)


class World:
    """One running service, its clock, its relays and what asks it."""

    def __init__(
        self, service: Service, clock: FakeClock, stub: Any, watching: ImportedWatching | None
    ) -> None:
        self.service = service
        self.clock = clock
        self.stub = stub
        self._watching = watching
        self.lease_ids: list[str] = []
        """Every one that was ever given."""

    @property
    def watching(self) -> ImportedWatching:
        assert self._watching is not None
        return self._watching

    async def register(
        self,
        name: str = "qwen",
        *,
        cluster: str = "rome",
        namespace: str = "models",
        relay_id: str = "relay-0",
        lease_id: str = "",
        model: str = "m",
        **content: Any,
    ) -> str:
        registration = pool_pb2.PoolRegistration(
            key=key(name, cluster=cluster, namespace=namespace),
            model=model,
            location=pool_pb2.Location(region="eu"),
            **({"frontends": ["http://10.0.0.1:8000"]} | content),
        )
        answer = await self.stub.RegisterPool(
            pb.RegisterPoolRequest(registration=registration, relay_id=relay_id, lease_id=lease_id)
        )
        self.lease_ids.append(answer.lease_id)
        return str(answer.lease_id)

    def show(self, *slices: EndpointSlice) -> None:
        self.watching.put(*slices)

    def run(self, seconds: float, step: float = 0.25) -> None:
        """Time passes and the loop runs."""
        for _ in range(round(seconds / step)):
            self.clock.advance(step)
            self.service.core.tick()

    async def explain(self, name: str = "qwen", **where: str) -> pb.ExplainPoolResponse:
        answer = await self.stub.ExplainPool(pb.ExplainPoolRequest(key=key(name, **where)))
        assert isinstance(answer, pb.ExplainPoolResponse)
        assert answer.HasField("pool") == (code(answer.verdict) == "LISTED")
        for told in (answer.verdict, *answer.findings):
            assert told.detail
            assert told.advice
        self.assert_no_lease_id(str(answer))
        return answer

    def assert_no_lease_id(self, text: str) -> None:
        assert [lease_id for lease_id in self.lease_ids if lease_id in text] == []


def key(
    name: str = "qwen", *, cluster: str = "rome", namespace: str = "models"
) -> pool_pb2.PoolKey:
    return pool_pb2.PoolKey(cluster_id=cluster, namespace=namespace, dgd_name=name)


def codes(answer: pb.ExplainPoolResponse) -> list[str]:
    """Of everything that was found, the verdict first."""
    return [code(finding) for finding in (answer.verdict, *answer.findings)]


def relay_slice(name: str = "qwen", *, ready: bool = True, **more: Any) -> EndpointSlice:
    return a_slice(f"{name}-pool-relay", endpoint("10.1.0.1", pod="relay", ready=ready), **more)


def frontend_slice(name: str = "qwen", *, ready: bool = True, **more: Any) -> EndpointSlice:
    return a_slice(f"{name}-frontend", endpoint("10.1.0.2", pod="front", ready=ready), **more)


@contextlib.asynccontextmanager
async def a_world(*, slices: bool = False, watched: Sequence[str] = ()) -> AsyncIterator[World]:
    clock = FakeClock()
    watching = ImportedWatching(watched=watched) if slices else None
    mode = "mcs" if slices else "registrations"
    async with (
        a_service(
            terms=LeaseTerms(5, 15), clock=clock, watching=watching, pool_discovery=mode
        ) as service,
        grpc.aio.insecure_channel(target(service)) as channel,
    ):
        yield World(service, clock, PoolDiscoveryServiceStub(channel), watching)
