"""The real API server does what the other tests of this folder take for granted."""

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest

from support.kube_apiserver import ControlPlane, Refused, a_control_plane
from support.kube_objects import Object, a_namespace
from support.slices_of import mcs_slice

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SLICES = "/apis/discovery.k8s.io/v1/endpointslices"


def a_slice(cluster: str = "c1") -> Object:
    return mcs_slice(
        cluster=cluster, service="qwen-frontend", addresses=["10.1.0.1"], port=("http", 8000)
    )


async def clusters(plane: ControlPlane) -> list[str]:
    """The source clusters of all imported slices."""
    label = "multicluster.kubernetes.io/source-cluster"
    listed = await plane.call("GET", SLICES, params={"labelSelector": label})
    return [item["metadata"]["labels"][label] for item in listed["items"]]


async def version(plane: ControlPlane) -> int:
    listed = await plane.call("GET", SLICES)
    return int(listed["metadata"]["resourceVersion"])


async def test_what_was_written_survives_the_death_of_the_api_server(tmp_path: Path) -> None:
    async with a_control_plane(tmp_path) as plane:
        await plane.create(a_namespace("llm"))
        await plane.create(a_slice())
        await plane.kill_apiserver()
        with pytest.raises(aiohttp.ClientConnectionError):
            await plane.call("GET", SLICES)
        await plane.start_apiserver()
        assert await clusters(plane) == ["c1"]


async def test_a_restored_etcd_has_forgotten_and_its_versions_run_backwards(
    tmp_path: Path,
) -> None:
    async with a_control_plane(tmp_path) as plane:
        await plane.create(a_namespace("llm"))
        await plane.create(a_slice("kept"))
        before_the_copy = await version(plane)
        await plane.copy_etcd("older")
        await plane.create(a_slice("forgotten"))
        await plane.delete(a_slice("kept"))
        # Beyond all that a restarted API server writes by itself.
        changing = a_slice("forgotten")
        for number in range(200):
            await plane.merge(changing, {"metadata": {"annotations": {"n": str(number)}}})
        newest = await version(plane)
        await plane.restore_etcd("older")
        assert await clusters(plane) == ["kept"]
        assert before_the_copy <= await version(plane) < newest


async def test_a_token_is_good_until_it_is_taken_back(tmp_path: Path) -> None:
    async with a_control_plane(tmp_path) as plane:
        await plane.create(a_namespace("llm"))
        metadata = {"name": "reader", "namespace": "llm"}
        await plane.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        old = await plane.grant_token("llm", "reader", name="old")
        new = await plane.grant_token("llm", "reader", name="new")
        assert await plane.takes(old)
        await plane.revoke_token("llm", name="old", token=old)
        assert not await plane.takes(old)
        assert await plane.takes(new)
        with pytest.raises(Refused, match="cannot list resource") as refused:
            await plane.call("GET", SLICES, token=new)
        assert refused.value.status == 403


async def test_a_watch_tells_a_change_of_labels_as_leaving_the_selection(tmp_path: Path) -> None:
    async with a_control_plane(tmp_path) as plane:
        await plane.create(a_namespace("llm"))
        await plane.create(a_slice())
        label = "multicluster.kubernetes.io/source-cluster"
        params = {
            "watch": "true",
            "labelSelector": label,
            "resourceVersion": str(await version(plane)),
        }
        await plane.merge(a_slice(), {"metadata": {"labels": {label: None}}})
        async with asyncio.timeout(60), plane.watching(SLICES, params) as lines:
            event = json.loads(await anext(lines))
        assert event["type"] == "DELETED"
        assert event["object"]["metadata"]["name"] == a_slice()["metadata"]["name"]


async def test_a_misspelt_field_is_refused(tmp_path: Path) -> None:
    async with a_control_plane(tmp_path) as plane:
        await plane.create(a_namespace("llm"))
        wrong = {**a_slice(), "endpoint": []}
        with pytest.raises(Refused, match="field not declared in schema"):
            await plane.apply(wrong, dryRun="All", fieldValidation="Strict")
        assert await clusters(plane) == []
