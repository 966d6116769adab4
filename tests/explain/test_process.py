"""`why` against a `serve` process that watches an API server of our own."""

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest

from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.client_process import Ran, ran
from support.fake_kube_api import fake_kube_api
from support.serve_process import LOOPBACK, PATIENCE_SECONDS, started
from support.slices_of import karmada_slice, mcs_slice

LONG_LEASE = ["--heartbeat-interval-secs", "1000", "--lease-duration-secs", "3000"]


async def register(server: str, namespace: str) -> None:
    key = pool_pb2.PoolKey(cluster_id="rome", namespace=namespace, dgd_name="qwen")
    registration = pool_pb2.PoolRegistration(
        key=key, model="m", location=pool_pb2.Location(region="eu")
    )
    async with grpc.aio.insecure_channel(server) as channel:
        stub: Any = PoolDiscoveryServiceStub(channel)
        await stub.RegisterPool(pb.RegisterPoolRequest(registration=registration))


async def why(server: str, namespace: str, code: str) -> tuple[Ran, Any]:
    """Asks until the verdict is this one: slices arrive when they arrive."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            asked = await ran("why", f"rome/{namespace}/qwen", "-o", "json", "--server", server)
            document = json.loads(asked.out)
            if document["verdict"]["code"] == code:
                return asked, document


@pytest.mark.parametrize(("mode", "write"), [("mcs", mcs_slice), ("karmada", karmada_slice)])
async def test_a_running_service_explains_what_its_watch_shows(
    tmp_path: Path, mode: str, write: Any
) -> None:
    async with fake_kube_api() as api:
        flags = [f"--kubeconfig={api.kubeconfig(tmp_path)}", "--watch-namespace=llm"]
        async with started(*LOOPBACK, f"--pool-discovery={mode}", *flags, *LONG_LEASE) as process:
            server = f"127.0.0.1:{(await process.ready())['grpc_port']}"
            await register(server, "llm")
            await register(server, "other")
            relays = {"cluster": "rome", "service": "qwen-pool-relay", "port": ("relay", 9000)}
            api.put(write(**relays, addresses=["10.1.0.1"], ready=False))
            asked, document = await why(server, "llm", "NO_READY_RELAY")
            assert asked.status == 1
            assert document["slices"]["relays"]["slice_count"] == 1
            api.put(write(**relays, addresses=["10.1.0.1"]))
            asked, document = await why(server, "llm", "LISTED")
            assert asked.status == 0
            found = [finding["code"] for finding in document["findings"]]
            assert "FRONTENDS_NOT_IMPORTED" in found
            asked, _ = await why(server, "other", "NAMESPACE_NOT_WATCHED")
            assert asked.status == 1
