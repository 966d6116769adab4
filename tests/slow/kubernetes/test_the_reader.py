"""The list and watch against a real API server: after each fault the set is right again."""

import asyncio
from pathlib import Path

import pytest

from global_discovery.domain.events import Event
from global_discovery.kubernetes.failures import Failure
from global_discovery.kubernetes.figures import Relist
from global_discovery.kubernetes.watching import SILENCE_SECONDS
from support.kube_apiserver import ControlPlane, a_control_plane
from support.kube_objects import Object, a_namespace
from support.manifests import rendered
from support.real_reading import following
from support.slices_of import mcs_slice
from support.tcp_proxy import tcp_proxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ACCOUNT = "global-discovery"
LONGER_THAN_ANY_BACKOFF = 31.0


def a_slice(service: str = "qwen", *, namespace: str = "llm", ready: bool = True) -> Object:
    return mcs_slice(
        cluster="c1",
        service=service,
        addresses=["10.1.0.1"],
        port=("http", 8000),
        namespace=namespace,
        ready=ready,
    )


async def with_deployed_roles(plane: ControlPlane) -> None:
    for item in rendered("karmada-hub"):
        await plane.apply(item)


async def test_what_is_written_relabelled_and_deleted_is_followed(tmp_path: Path) -> None:
    async with a_control_plane(tmp_path) as plane:
        await plane.create(a_namespace("llm"))
        await with_deployed_roles(plane)
        token = await plane.grant_token(ACCOUNT, ACCOUNT, name="token")
        await plane.create(a_slice("before"))
        async with following(plane, plane.kubeconfig("reader", token=token)) as reader:
            await reader.right_again()
            for service in ("one", "two", "three"):
                await plane.create(a_slice(service))
            await reader.right_again()
            await plane.apply(a_slice("one", ready=False))
            label = {"multicluster.kubernetes.io/source-cluster": None}
            await plane.merge(a_slice("two"), {"metadata": {"labels": label}})
            await plane.delete(a_slice("three"))
            await reader.right_again()
            assert {name for _, name in reader.sink.items} == {"before-c1", "one-c1"}
            back = {"multicluster.kubernetes.io/source-cluster": "c2"}
            await plane.merge(a_slice("two"), {"metadata": {"labels": back}})
            await reader.right_again()
            # All of it came by the watch.
            assert reader.sink.calls.count("replaced") == 1
            assert reader.events == []


async def test_a_list_of_many_pages_is_one_set(tmp_path: Path) -> None:
    async with a_control_plane(tmp_path) as plane:
        await plane.create(a_namespace("llm"))
        slices = [a_slice(f"s{number}") for number in range(1100)]
        for start in range(0, len(slices), 20):
            await asyncio.gather(*map(plane.create, slices[start : start + 20]))
        async with following(plane, plane.kubeconfig("admin")) as reader:
            await reader.right_again()
            assert len(reader.sink.items) == len(slices)
            assert reader.sink.calls.count("replaced") == 1


async def test_an_api_server_that_died_and_came_back_is_followed_again(tmp_path: Path) -> None:
    async with a_control_plane(tmp_path) as plane:
        await plane.create(a_namespace("llm"))
        await plane.create(a_slice("gone-by-then"))
        await plane.create(a_slice("kept"))
        async with following(plane, plane.kubeconfig("admin")) as reader:
            await reader.right_again()
            await plane.kill_apiserver()
            await reader.until(lambda: not reader.sink.synced)
            assert len(reader.sink.items) == 2
            await plane.start_apiserver()
            await plane.delete(a_slice("gone-by-then"))
            await plane.create(a_slice("new"))
            await reader.right_again()
            assert {name for _, name in reader.sink.items} == {"kept-c1", "new-c1"}


async def test_an_etcd_that_was_restored_betrays_itself_by_silence(tmp_path: Path) -> None:
    async with a_control_plane(tmp_path) as plane:
        await plane.create(a_namespace("llm"))
        await plane.create(a_slice("kept"))
        await plane.copy_etcd("older")
        await plane.create(a_slice("forgotten"))
        await plane.delete(a_slice("kept"))
        for number in range(300):
            await plane.merge(
                a_slice("forgotten"), {"metadata": {"annotations": {"n": str(number)}}}
            )
        async with following(plane, plane.kubeconfig("admin")) as reader:
            await reader.right_again()
            assert {name for _, name in reader.sink.items} == {"forgotten-c1"}
            await plane.restore_etcd("older")
            # The server takes the version that it has not reached, and tells nothing.
            assert reader.reader.figures.failures[Failure.CUT]
            await reader.until(lambda: reader.sink.synced)
            assert not await reader.right()
            reader.timer.skip(SILENCE_SECONDS)
            await reader.right_again()
            assert reader.reader.figures.relists == {Relist.FIRST: 1, Relist.LOST: 1}
            assert {name for _, name in reader.sink.items} == {"kept-c1"}
            await plane.create(a_slice("new"))
            await reader.right_again()


async def test_a_rotated_token_is_taken_up_without_a_new_list(tmp_path: Path) -> None:
    async with a_control_plane(tmp_path) as plane, tcp_proxy(plane.port) as proxy:
        await plane.create(a_namespace("llm"))
        await with_deployed_roles(plane)
        old = await plane.grant_token(ACCOUNT, ACCOUNT, name="old")
        kubeconfig = plane.kubeconfig("reader", token=old, port=proxy.port)
        async with following(plane, kubeconfig) as reader:
            await reader.right_again()
            new = await plane.grant_token(ACCOUNT, ACCOUNT, name="new")
            await plane.revoke_token(ACCOUNT, name="old", token=old)
            # A watch outlives its token; the next one needs a good one.
            await plane.create(a_slice("by-the-old-watch"))
            await reader.right_again()
            proxy.cut()
            await reader.until(lambda: reader.reader.figures.failures[Failure.UNAUTHORIZED])
            await plane.create(a_slice("while-it-was-out"))
            plane.write_token("reader", new)
            await reader.right_again()
            assert reader.reader.figures.relists == {Relist.FIRST: 1}


async def test_a_role_that_is_granted_late_is_waited_for(tmp_path: Path) -> None:
    async with a_control_plane(tmp_path) as plane:
        await plane.create(a_namespace("llm"))
        await plane.create(a_slice())
        roles = {"ClusterRole", "ClusterRoleBinding"}
        items = rendered("karmada-hub")
        for item in [item for item in items if item["kind"] not in roles]:
            await plane.apply(item)
        token = await plane.grant_token(ACCOUNT, ACCOUNT, name="token")
        async with following(plane, plane.kubeconfig("reader", token=token)) as reader:
            await reader.until(lambda: reader.said(Event.WATCH_FAILING))
            (failing,) = reader.said(Event.WATCH_FAILING)
            assert failing["missing"] == "list endpointslices.discovery.k8s.io in all namespaces"
            assert not reader.sink.synced
            for item in [item for item in items if item["kind"] in roles]:
                await plane.apply(item)
            reader.timer.skip(LONGER_THAN_ANY_BACKOFF)
            await reader.right_again()
            assert len(reader.said(Event.WATCH_FAILING)) == 1


async def test_who_may_read_some_namespaces_only_watches_them_one_by_one(tmp_path: Path) -> None:
    async with a_control_plane(tmp_path) as plane:
        for namespace in ("llm", "other", "closed"):
            await plane.create(a_namespace(namespace))
            await plane.create(a_slice(namespace=namespace))
        await with_deployed_roles(plane)
        items = {item["kind"]: item for item in rendered("karmada-hub")}
        for namespace in ("llm", "other"):
            metadata = {"name": ACCOUNT, "namespace": namespace}
            role = {**items["ClusterRole"], "kind": "Role", "metadata": metadata}
            await plane.create(role)
            reference = {**items["ClusterRoleBinding"]["roleRef"], "kind": "Role"}
            binding = {**items["ClusterRoleBinding"], "kind": "RoleBinding", "metadata": metadata}
            await plane.create({**binding, "roleRef": reference})
        await plane.delete(items["ClusterRoleBinding"])
        token = await plane.grant_token(ACCOUNT, ACCOUNT, name="token")
        kubeconfig = plane.kubeconfig("reader", token=token)
        async with following(plane, kubeconfig, namespaces=["llm", "other"]) as reader:
            await reader.right_again()
            await plane.delete(a_slice(namespace="other"))
            await reader.right_again()
            assert {namespace for namespace, _ in reader.sink.items} == {"llm"}
