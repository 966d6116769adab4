"""A relay compares its cluster_id with the cluster's own name, where it can."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from global_discovery.relay.about import CHECK_SECONDS, ClusterIdCheck
from global_discovery.relay.status_server import status_server
from support.fake_kube_api import (
    Answer,
    Collection,
    Drop,
    Fault,
    Hang,
    fake_kube_api,
    forbidden,
    status,
    unauthorized,
)
from support.metrics import metric
from support.openai_server import openai_server
from support.relaying import relay_settings, relaying
from support.scripted_server import granted, scripted_server
from support.timer import MovedTimer

NAME = "cluster.clusterset.k8s.io"


def of_version(version: str) -> Collection:
    return Collection("about.k8s.io", version, "clusterproperties")


def a_property(value: object, version: str = "v1beta1", name: str = NAME) -> dict[str, Any]:
    return {
        "apiVersion": f"about.k8s.io/{version}",
        "kind": "ClusterProperty",
        "metadata": {"name": name},
        "spec": {"value": value},
    }


@contextlib.asynccontextmanager
async def a_check(environ: Mapping[str, str]) -> AsyncIterator[ClusterIdCheck]:
    check = ClusterIdCheck("eu-1", timer=MovedTimer(), environ=environ)
    yield check
    if check._reader is not None:
        await check._reader.close()


def said(log: list[Any]) -> list[Any]:
    return [entry for entry in log if entry["log_level"] != "debug"]


async def test_another_name_is_told_once_for_each_change(tmp_path: Path) -> None:
    async with (
        fake_kube_api() as api,
        a_check({"KUBECONFIG": str(api.kubeconfig(tmp_path))}) as check,
    ):
        values = ["eu-1", "eu-2", "eu-2", "eu-3", "eu-1", "eu-1"]
        with capture_logs() as log:
            for value in values:
                api.put(a_property(value))
                await check.check()
                assert (check.property, check.mismatch) == (value, value != "eu-1")
        assert [(entry["event"], entry.get("cluster_property")) for entry in said(log)] == [
            ("cluster_id_mismatch", "eu-2"),
            ("cluster_id_mismatch", "eu-3"),
            ("cluster_id_matches", None),
        ]
        assert said(log)[0]["reason"] == "ClusterIDMismatch"
        assert {asked.verb for asked in api.asked} == {"get"}


async def test_the_older_version_is_asked_where_the_newer_one_is_not_served(
    tmp_path: Path,
) -> None:
    async with (
        fake_kube_api() as api,
        a_check({"KUBECONFIG": str(api.kubeconfig(tmp_path))}) as check,
    ):
        api.put(a_property("eu-2", "v1alpha1"))
        await check.check()
        assert check.mismatch


async def test_without_the_api_or_the_property_nothing_is_known(tmp_path: Path) -> None:
    async with (
        fake_kube_api() as api,
        a_check({"KUBECONFIG": str(api.kubeconfig(tmp_path))}) as check,
    ):
        with capture_logs() as log:
            await check.check()
            api.serves(of_version("v1beta1"))
            api.put(a_property("eu-2", name="another.property"))
            await check.check()
        assert (check.property, check.mismatch, said(log)) == (None, False, [])
        api.put(a_property("eu-2"))
        await check.check()
        api.delete("", NAME, collection=of_version("v1beta1"))
        await check.check()
        assert (check.property, check.mismatch) == (None, False)


FAULTS: dict[str, Fault] = {
    "403": forbidden("get"),
    "401": unauthorized(),
    "500": status(500),
    "no answer": Drop(),
    "no JSON": Answer(200, b"<html>"),
    "no value": Answer(200, b'{"spec":{}}'),
    "a number": Answer(200, b'{"spec":{"value":5}}'),
    "too much": Answer(200, b'{"spec":{"value":"eu-9"},"x":"' + b"x" * 300_000 + b'"}'),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_an_api_that_fails_is_no_error_and_what_was_known_stays(
    name: str, tmp_path: Path
) -> None:
    async with (
        fake_kube_api() as api,
        a_check({"KUBECONFIG": str(api.kubeconfig(tmp_path))}) as check,
    ):
        with capture_logs() as log:
            api.fail_always(FAULTS[name])
            await check.check()
            assert (check.property, said(log)) == (None, [])
            api.heal()
            api.put(a_property("eu-2"))
            await check.check()
            api.fail_always(FAULTS[name])
            await check.check()
            assert check.property == "eu-2"
        assert len(said(log)) == 1


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"KUBECONFIG": ""},
        {"KUBECONFIG": "/nowhere/kubeconfig"},
        {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"},
    ],
)
async def test_without_a_way_to_an_api_nothing_is_known(environ: dict[str, str]) -> None:
    with capture_logs() as log:
        async with a_check(environ) as check:
            await check.check()
            assert check.property is None
    assert said(log) == []


async def test_without_the_extra_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        fake_kube_api() as api,
        a_check({"KUBECONFIG": str(api.kubeconfig(tmp_path))}) as check,
    ):
        api.put(a_property("eu-2"))
        monkeypatch.setitem(sys.modules, "global_discovery.relay.cluster_property", None)
        with capture_logs() as log:
            await check.check()
        assert (check.property, said(log), api.count()) == (None, [], 0)


async def test_a_relay_asks_again_tells_it_and_stays_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        fake_kube_api() as api,
        openai_server("a") as models,
        scripted_server() as server,
    ):
        server.script("RegisterPool", granted())
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
        settings = relay_settings(models, server.target)
        async with relaying(settings) as it, status_server(it.relay) as port:
            gauge = "global_discovery_relay_cluster_id_mismatch"
            await it.until(lambda: api.count() == 2)
            assert await metric(port, gauge) == 0
            api.put(a_property("c2"))
            await it.timer.slept_for(CHECK_SECONDS)
            it.timer.advance(CHECK_SECONDS)
            await it.until(lambda: it.relay.cluster.mismatch)
            assert await metric(port, gauge) == 1
            assert it.relay.healthy
            assert await health(port) == {"property": "c2", "reason": "ClusterIDMismatch"}
            await it.stopped()


async def health(port: int) -> Any:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/health") as answer,
    ):
        return (await answer.json())["cluster"]


async def test_a_relay_that_is_stopped_while_it_asks_closes_the_call(
    tmp_path: Path,
) -> None:
    async with fake_kube_api() as api:
        api.fail_always(Hang())
        environ = {"KUBECONFIG": str(api.kubeconfig(tmp_path))}
        check = ClusterIdCheck("eu-1", timer=MovedTimer(), environ=environ)
        task = asyncio.create_task(check.run())
        await api.asked_for(1)
        task.cancel()
        await asyncio.wait({task})
        await api.hung_up.wait()
