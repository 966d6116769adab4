"""`serve` in the modes `mcs` and `karmada`, as a process, over an API server of our own."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.fake_kube_api import FakeKubeApi, Hang, fake_kube_api, forbidden
from support.serve_process import (
    LOOPBACK,
    PATIENCE_SECONDS,
    SHORT_LEASE,
    ServeProcess,
    clean_environment,
    started,
)
from support.slices_of import karmada_slice, mcs_slice

LONG_LEASE = ["--heartbeat-interval-secs", "1000", "--lease-duration-secs", "3000"]
WRITERS = {"mcs": mcs_slice, "karmada": karmada_slice}
ROUTERS = ["--router-namespace=infra", "--router-service=router", "--router-port-name=grpc"]


class World:
    """One process, the API server it watches, and relays that register by REST."""

    def __init__(
        self, api: FakeKubeApi, mode: str, process: ServeProcess, session: aiohttp.ClientSession
    ) -> None:
        self.api = api
        self.process = process
        self._write = WRITERS[mode]
        self._session = session
        self._url = ""

    async def reached(self) -> None:
        self._url = f"http://127.0.0.1:{(await self.process.ready())['rest_port']}"

    async def get(self, path: str) -> tuple[int, Any]:
        async with self._session.get(self._url + path) as answer:
            return answer.status, await answer.json(content_type=None)

    async def until(self, path: str, holds: Callable[[int, Any], bool]) -> Any:
        """Asks until the answer is as wanted; the answer."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                status, document = await self.get(path)
                if holds(status, document):
                    return document
                await asyncio.sleep(0.02)

    async def listed(self, *names: str) -> Any:
        """Waits until exactly these pools are listed; the document."""
        return await self.until("/pools", lambda _, document: names_of(document) == sorted(names))

    async def register(self, name: str, *, cluster: str = "rome", namespace: str = "llm") -> None:
        body = {
            "cluster_id": cluster,
            "namespace": namespace,
            "dgd_name": name,
            "model": f"model-of-{name}",
            "location": {"region": "eu"},
            "frontends": ["http://192.0.2.1:1"],
        }
        async with self._session.post(f"{self._url}/pools", json=body) as answer:
            assert answer.status == 200, await answer.text()

    async def beats_until_listed(self, name: str) -> None:
        """Its relay lives for as long as it takes, however slow this machine is."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                await self.register(name)
                _, document = await self.get("/pools")
                if names_of(document) == [name]:
                    return
                await asyncio.sleep(0.1)

    def show(self, name: str, *, frontends: bool = True, ready: bool = True) -> None:
        """A Ready Pool Relay in the cluster `rome`, and a frontend."""
        self.put(f"{name}-pool-relay", "10.1.0.1", ("relay", 9000), ready=ready)
        if frontends:
            self.put(f"{name}-frontend", "10.1.0.2", ("http", 8000))

    def put(
        self,
        service: str,
        address: str,
        port: tuple[str, int],
        *,
        namespace: str = "llm",
        ready: bool = True,
    ) -> None:
        self.api.put(
            self._write(
                cluster="rome",
                service=service,
                addresses=[address],
                port=port,
                namespace=namespace,
                ready=ready,
            )
        )


def names_of(document: Any) -> list[str]:
    return sorted(pool["dgd_name"] for pool in document["pools"])


@asynccontextmanager
async def a_world(
    tmp_path: Path, *flags: str, mode: str = "mcs", api: FakeKubeApi
) -> AsyncIterator[World]:
    kubeconfig = f"--kubeconfig={api.kubeconfig(tmp_path)}"
    async with (
        started(*LOOPBACK, f"--pool-discovery={mode}", kubeconfig, *flags) as process,
        aiohttp.ClientSession() as session,
    ):
        world = World(api, mode, process, session)
        await world.reached()
        yield world


@pytest.mark.parametrize("mode", WRITERS)
async def test_a_pool_is_listed_with_both_sides_only_and_with_the_addresses_of_its_slices(
    tmp_path: Path, mode: str
) -> None:
    async with (
        fake_kube_api() as api,
        a_world(tmp_path, *LONG_LEASE, mode=mode, api=api) as world,
    ):
        world.show("stranger")
        await world.register("unseen")
        await world.register("agreed", cluster="paris")  # another cluster's name is another pool
        await world.register("agreed")
        world.show("agreed")
        document = await world.listed("agreed")
        (pool,) = document["pools"]
        assert (pool["cluster_id"], pool["model"]) == ("rome", "model-of-agreed")
        assert pool["frontends"] == ["http://10.1.0.2:8000"]
        assert pool["relays"] == ["ip:10.1.0.1"]
        assert document["slices_bound_secs"] == 90
        assert await world.process.stop() == 0


async def test_a_stale_ready_slice_does_not_keep_a_pool_whose_relay_is_dead(
    tmp_path: Path,
) -> None:
    async with fake_kube_api() as api, a_world(tmp_path, *SHORT_LEASE, api=api) as world:
        world.show("pool")
        await world.beats_until_listed("pool")
        await world.listed()  # the relay calls no more; the slice is still there and Ready
        lapsed = await world.process.event("pool_lapsed")
        assert (lapsed["pool"], lapsed["departure"]) == ("rome/llm/pool", "removed")
        await world.beats_until_listed("pool")


async def test_slices_that_change_or_go_move_and_remove_the_pool(tmp_path: Path) -> None:
    async with fake_kube_api() as api, a_world(tmp_path, *LONG_LEASE, api=api) as world:
        world.show("pool")
        await world.register("pool")
        await world.listed("pool")
        world.put("pool-frontend", "10.1.0.7", ("http", 81))
        await world.until(
            "/pools",
            lambda _, document: document["pools"][0]["frontends"] == ["http://10.1.0.7:81"],
        )
        world.show("pool", ready=False)
        await world.listed()
        world.show("pool")
        await world.listed("pool")
        api.delete("llm", "pool-pool-relay-rome")
        await world.listed()


async def test_a_slice_with_a_damaged_endpoint_counts_with_the_others(tmp_path: Path) -> None:
    async with fake_kube_api() as api, a_world(tmp_path, *LONG_LEASE, api=api) as world:
        item = mcs_slice(
            cluster="rome", service="pool-pool-relay", addresses=["10.1.0.1"], port=("relay", 9000)
        )
        item["endpoints"].insert(0, {"addresses": "10.1.0.9"})
        api.put(item)
        world.put("pool-frontend", "10.1.0.2", ("http", 8000))
        await world.register("pool")
        document = await world.listed("pool")
        assert document["pools"][0]["relays"] == ["ip:10.1.0.1"]
        await world.process.event("slice_damaged")


@pytest.mark.parametrize("readable", [True, False])
async def test_the_list_of_karmadas_clusters_names_a_slice_that_does_not(
    tmp_path: Path, *, readable: bool
) -> None:
    async with (
        fake_kube_api() as api,
        a_world(tmp_path, *LONG_LEASE, mode="karmada", api=api) as world,
    ):
        if readable:
            cluster = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster"}
            api.put(cluster | {"metadata": {"name": "rome"}})
            await api.watching(2)
        item = karmada_slice(
            cluster="rome", service="old-pool-relay", addresses=["10.1.0.1"], port=("relay", 9000)
        )
        del item["metadata"]["annotations"]
        api.put(item)
        world.show("pool")
        await world.register("old")
        await world.register("pool")
        await world.listed(*(["old", "pool"] if readable else ["pool"]))
        # What may not be read is not told: few need it.
        failing = [event for event in world.process.events if event["event"] == "watch_failing"]
        assert failing == []


async def test_a_frontend_service_that_was_not_exported_is_told_once(tmp_path: Path) -> None:
    async with fake_kube_api() as api, a_world(tmp_path, *LONG_LEASE, api=api) as world:
        world.show("pool", frontends=False)
        await world.register("pool")
        document = await world.listed("pool")
        assert document["pools"][0]["frontends"] == []
        told = await world.process.event("pool_without_frontends")
        assert (told["service"], told["port_name"]) == ("llm/pool-frontend", "http")
        assert (told["imported_slices"], told["level"]) == (0, "warning")


async def test_an_api_server_that_is_down_at_startup_is_watched_later(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    api = FakeKubeApi()
    api.port = port  # nobody listens there yet
    async with a_world(tmp_path, *LONG_LEASE, api=api) as world:
        world.show("pool")
        await world.register("pool")
        assert (await world.get("/readyz"))[0] == 200
        assert (await world.get("/healthz"))[0] == 503
        _, document = await world.get("/pools")
        assert document["pools"] == []
        assert document["complete"] is False
        assert "SOURCE_UNSYNCED" in document["reasons"]
        async with fake_kube_api(port, api=api):
            await world.listed("pool")
            health = await world.until("/healthz", lambda status, _: status == 200)
            assert "SOURCE_UNSYNCED" not in health["reasons"]


async def test_a_watch_that_is_lost_freezes_the_slices_and_registrations_go_on(
    tmp_path: Path,
) -> None:
    async with fake_kube_api() as api, a_world(tmp_path, *LONG_LEASE, api=api) as world:
        for name in ("first", "second"):
            world.show(name)
        await world.register("first")
        await world.listed("first")
        api.fail_always(forbidden("watch"))
        api.reset_watches()
        document = await world.until(
            "/healthz", lambda _, document: "SOURCE_UNSYNCED" in document["reasons"]
        )
        assert document["status"] == "degraded"
        assert [(await world.get(path))[0] for path in ("/readyz", "/livez")] == [200, 200]
        await world.register("second")
        await world.listed("first", "second")
        api.heal()
        await world.until(
            "/healthz", lambda _, document: "SOURCE_UNSYNCED" not in document["reasons"]
        )
        await world.listed("first", "second")


async def test_routers_come_from_the_imported_slices_of_their_service(tmp_path: Path) -> None:
    async with (
        fake_kube_api() as api,
        a_world(tmp_path, *LONG_LEASE, *ROUTERS, api=api) as world,
    ):
        world.put("router", "10.9.0.1", ("grpc", 50051), namespace="infra")
        world.put("router-too", "10.9.0.2", ("grpc", 50051), namespace="infra")
        document = await world.until("/routers", lambda _, document: bool(document["routers"]))
        assert document["routers"] == [{"id": "rome/10.9.0.1", "url": "http://10.9.0.1:50051"}]
        assert document["complete"] is True
        api.delete("infra", "router-rome")
        await world.until("/routers", lambda _, document: not document["routers"])


async def test_namespaces_are_watched_one_by_one_with_that_of_the_routers(tmp_path: Path) -> None:
    flags = [*LONG_LEASE, *ROUTERS, "--watch-namespace=llm", "--watch-namespace=other"]
    async with fake_kube_api() as api, a_world(tmp_path, *flags, api=api) as world:
        await api.watching(3)
        assert {asked.namespace for asked in api.asked} == {"llm", "other", "infra"}
        world.show("pool")
        await world.register("pool")
        await world.listed("pool")


async def test_the_figures_of_the_watch_are_served(tmp_path: Path) -> None:
    async with fake_kube_api() as api, a_world(tmp_path, *LONG_LEASE, api=api) as world:
        world.show("pool")
        await world.register("pool")
        await world.listed("pool")
        async with world._session.get(f"{world._url}/metrics") as answer:
            text = await answer.text()
        for line in (
            "global_discovery_slices 2.0",
            "global_discovery_slices_in_sync 1.0",
            'global_discovery_slices_relists_total{reason="first"} 1.0',
            'global_discovery_slices_refused{reason="no_source_cluster"} 0.0',
            'global_discovery_slices_watch_failures_total{reason="forbidden"} 0.0',
        ):
            assert line in text.splitlines()
        assert "global_discovery_slices_event_age_seconds " in text


async def test_a_kubeconfig_that_is_missing_is_no_reason_to_end(tmp_path: Path) -> None:
    async with (
        started(
            *LOOPBACK, "--pool-discovery=mcs", f"--kubeconfig={tmp_path}/none", *LONG_LEASE
        ) as process,
        aiohttp.ClientSession() as session,
    ):
        world = World(FakeKubeApi(), "mcs", process, session)
        await world.reached()
        failing = await process.event("watch_failing")
        assert "none" in failing["message"]
        assert (await world.get("/readyz"))[0] == 200
        assert await process.stop() == 0


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_an_api_server_that_hangs_holds_up_neither_the_start_nor_the_end(
    tmp_path: Path, verb: str
) -> None:
    async with fake_kube_api() as api:
        api.fail_always(Hang(), verb=verb)
        async with a_world(tmp_path, api=api) as world:
            await api.asked_for(1, verb)
            assert (await world.get("/readyz"))[0] == 200
            assert await world.process.stop() == 0


@pytest.mark.parametrize("missing", ["kubernetes_asyncio", "msgspec"])
def test_a_missing_extra_is_one_sentence_that_names_it(missing: str) -> None:
    program = (
        f"import sys; sys.modules[{missing!r}] = None; "
        "from global_discovery.cli.main import main; "
        "sys.argv[1:] = ['serve', '--pool-discovery=mcs', '--listen=127.0.0.1:0', "
        "'--grpc-listen=127.0.0.1:0']; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 1
    assert done.stderr == (
        f"global-discovery serve: {missing} is not installed; "
        "install global-discovery[kubernetes]\n"
    )


def test_the_mode_without_slices_needs_nothing_of_that_extra() -> None:
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('kubernetes_asyncio', 'msgspec', 'yaml'))); "
        "import global_discovery.cli.process"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, "")
