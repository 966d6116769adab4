"""Service-account tokens as a real API server makes, reviews and forgets them.

The service runs with the role and the policy that deploy/ gives it.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.grpc_calls import Refusal, refused
from support.kube_apiserver import ControlPlane, a_control_plane
from support.kube_objects import Object, a_namespace, collection
from support.manifests import composed
from support.pools import a_registration
from support.serve_process import LOOPBACK, ServeProcess, started

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

AUDIENCE = "global-discovery"
GRANTED = {"ClusterRole", "ClusterRoleBinding", "ServiceAccount"}


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    (tmp_path / "plane").mkdir()
    async with a_control_plane(tmp_path / "plane") as running:
        for name in ("global-discovery", "llm"):
            await running.create(a_namespace(name))
        await running.create(account("qwen"))
        (tmp_path / "own").mkdir()
        for item in composed(tmp_path / "own", "overlays/registrations", "access"):
            if item["kind"] in GRANTED:
                await running.create(item)
            if item["metadata"]["name"] == "global-discovery-policy":
                (tmp_path / "policy.toml").write_text(item["data"]["policy.toml"])
        yield running


@pytest.fixture
async def service(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[ServeProcess]:
    token = await plane.grant_token("global-discovery", "global-discovery", name="service")
    kubeconfig = plane.kubeconfig("service", token=token)
    async with started(
        *LOOPBACK,
        f"--token-audience={AUDIENCE}",
        f"--token-cluster=local={kubeconfig}",
        f"--policy-path={tmp_path / 'policy.toml'}",
    ) as process:
        await process.ready()
        yield process


def account(name: str) -> Object:
    metadata = {"name": name, "namespace": "llm"}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


async def token_of(plane: ControlPlane, name: str, *audiences: str) -> str:
    accounts = collection(api_version="v1", kind="ServiceAccount", namespace="llm")
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [*audiences], "expirationSeconds": 600},
    }
    granted = await plane.call("POST", f"{accounts}/{name}/token", request)
    return str(granted["status"]["token"])


class Caller:
    """Registers a pool of the example's cluster and namespace with a token."""

    def __init__(self, service: ServeProcess, token: str) -> None:
        self._port = service.events and next(
            each["grpc_port"] for each in service.events if each["event"] == "ready"
        )
        self._metadata = [("authorization", f"Bearer {token}")]

    async def register(self, *, cluster: str = "eu-1") -> Any:
        registration = a_registration(cluster=cluster, namespace="llm")
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self._port}") as channel:
            stub = PoolDiscoveryServiceStub(channel)
            request = pb.RegisterPoolRequest(registration=registration)
            return await stub.RegisterPool(request, metadata=self._metadata)

    async def refused(self, **what: str) -> Refusal:
        return await refused(self.register(**what))


async def test_a_token_of_the_audience_registers_what_the_policy_allows(
    plane: ControlPlane, service: ServeProcess
) -> None:
    caller = Caller(service, await token_of(plane, "qwen", AUDIENCE))
    assert (await caller.register()).lease_id
    assert (await caller.refused(cluster="eu-2")).code is grpc.StatusCode.PERMISSION_DENIED
    denied = await service.event("access_denied")
    assert denied["identity"] == "sa:local/llm/qwen"


async def test_a_token_of_another_audience_or_a_forged_one_is_refused(
    plane: ControlPlane, service: ServeProcess
) -> None:
    for audiences in (["vault"], []):
        caller = Caller(service, await token_of(plane, "qwen", *audiences))
        assert (await caller.refused()).reason == "UNAUTHENTICATED"
    head, claims, signature = (await token_of(plane, "qwen", AUDIENCE)).split(".")
    forged = f"{head}.{claims}.{signature[:-8]}AAAAAAAA"
    assert (await Caller(service, forged).refused()).reason == "UNAUTHENTICATED"
    assert await service.stop() == 0  # and all of its log was read
    reasons = [each["reason"] for each in service.events if each["event"] == "access_denied"]
    assert reasons == ["TOKEN_AUDIENCE", "TOKEN_AUDIENCE", "TOKEN_REFUSED"]


async def test_the_token_of_an_account_that_was_deleted_is_refused(
    plane: ControlPlane, service: ServeProcess
) -> None:
    await plane.create(account("gone"))
    token = await token_of(plane, "gone", AUDIENCE)
    await plane.delete(account("gone"))
    assert (await Caller(service, token).refused()).reason == "UNAUTHENTICATED"


async def test_while_the_api_server_is_dead_known_tokens_are_good_and_new_ones_wait(
    plane: ControlPlane, service: ServeProcess
) -> None:
    known = Caller(service, await token_of(plane, "qwen", AUDIENCE))
    await plane.create(account("second"))
    fresh = Caller(service, await token_of(plane, "second", AUDIENCE))
    await known.register()
    await plane.kill_apiserver()
    waits = await fresh.refused()
    assert (waits.code, waits.reason) == (
        grpc.StatusCode.UNAVAILABLE,
        "AUTHENTICATION_UNAVAILABLE",
    )
    assert (await known.register()).lease_id
    failing = await service.event("token_reviews_failing")
    assert failing["cluster"] == "local"
    await plane.start_apiserver()
    async with asyncio.timeout(60):
        while (code := await _code(fresh)) is not grpc.StatusCode.OK:
            assert code is grpc.StatusCode.UNAVAILABLE
            await asyncio.sleep(0.5)  # a caller's back-off
    await service.event("token_reviews_work_again")


async def test_without_its_role_the_service_says_what_it_may_not(
    plane: ControlPlane, service: ServeProcess
) -> None:
    name = {"name": "global-discovery-token-review"}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    await plane.delete({**kind, "metadata": name})
    token = await token_of(plane, "qwen", AUDIENCE)
    async with asyncio.timeout(60):
        # The authorizer learns of it a moment later.
        while (await _code(Caller(service, token))) is grpc.StatusCode.OK:
            token = await token_of(plane, "qwen", AUDIENCE)
    failing = await service.event("token_reviews_failing")
    assert failing["message"].startswith("forbidden")
    assert token.split(".")[2] not in "".join(service.lines)


async def _code(caller: Caller) -> grpc.StatusCode:
    try:
        await caller.register()
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK
