"""From slices and registrations to a router's cache: real API server, service and relays.

The service runs with the role that deploy/ gives it. Slices are written as the
implementations write them.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from global_discovery.client import PoolCache
from support.kube_apiserver import ControlPlane, a_control_plane
from support.kube_objects import a_namespace
from support.manifests import rendered
from support.openai_server import OpenAiServer, openai_server
from support.relay_process import RelayProcess, a_relay_process
from support.serve_process import LOOPBACK, SHORT_LEASE, ServeProcess, started
from support.slices_of import karmada_slice, mcs_slice

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ACCOUNT = "global-discovery"
PATIENCE_SECONDS = 90
WRITERS = {"mcs": mcs_slice, "karmada": karmada_slice}

RELAY_PORT = ("relay", 8082)
HTTP_PORT = ("http", 8000)


class World:
    """Everything that runs."""

    def __init__(
        self,
        mode: str,
        plane: ControlPlane,
        service: ServeProcess,
        cache: PoolCache,
        model_server: OpenAiServer,
    ) -> None:
        self.service = service
        self.cache = cache
        self.plane = plane
        self._model_server = model_server
        self._slice = WRITERS[mode]
        self.server = ""

    async def export(self, service: str, address: str, port: tuple[str, int]) -> None:
        """A slice with one Ready endpoint, as it is imported from the cluster eu-1."""
        item = self._slice(cluster="eu-1", service=service, addresses=[address], port=port)
        await self.plane.apply(item)

    @contextlib.asynccontextmanager
    async def relay(self, name: str, *, cluster: str = "eu-1") -> AsyncIterator[RelayProcess]:
        """A relay that has registered its pool, with a frontend that is not to be used."""
        flags = [f"--pool=llm/{name}", "--region=eu", f"--server={self.server}"]
        frontend = [f"--frontend=http://{name}.example:1", f"--openai-url={self._model_server.url}"]
        async with a_relay_process(
            *flags, *frontend, f"--relay-id={name}", DYN_CLUSTER_ID=cluster
        ) as relay:
            await relay.event("registered")
            yield relay

    def pools(self) -> dict[str, tuple[list[str], list[str]]]:
        """What the cache offers: the frontends and relays of each pool by its name."""
        return {
            each.key.dgd_name: (list(each.pool.frontends), list(each.pool.relays))
            for each in self.cache.pools()
            if not each.carried
        }

    async def offers(self, **pools: tuple[list[str], list[str]]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for _ in self.cache.changes():
                if self.pools() == pools:
                    return

    async def show(self, name: str, number: int) -> tuple[list[str], list[str]]:
        """Exports both Services of a pool; what is to be offered of it."""
        await self.export(f"{name}-pool-relay", f"10.1.{number}.1", RELAY_PORT)
        await self.export(f"{name}-frontend", f"10.1.{number}.2", HTTP_PORT)
        return [f"http://10.1.{number}.2:8000"], [f"ip:10.1.{number}.1"]

    async def exact(self, *, exact: bool = True) -> None:
        """Returns once the cache's view is so marked."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for state in self.cache.changes():
                if state.exact is exact:
                    return

    async def event(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """A line of the service's log."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                for event in self.service.events:
                    if wanted(event):
                        return event
                await asyncio.sleep(0.1)

    async def one_sided(self, pool: str) -> dict[str, Any]:
        return await self.event(
            lambda event: event["event"] == "pool_one_sided" and event["pool"] == pool
        )


@contextlib.asynccontextmanager
async def a_world(mode: str, folder: Path) -> AsyncIterator[World]:
    async with contextlib.AsyncExitStack() as stack:
        plane = await stack.enter_async_context(a_control_plane(folder))
        await plane.create(a_namespace("llm"))
        for item in rendered("karmada-hub"):
            await plane.apply(item)
        token = await plane.grant_token(ACCOUNT, ACCOUNT, name="token")
        kubeconfig = plane.kubeconfig("service", token=token)
        model_server = await stack.enter_async_context(openai_server("m"))
        flags = [f"--pool-discovery={mode}", f"--kubeconfig={kubeconfig}"]
        service = await stack.enter_async_context(started(*LOOPBACK, *SHORT_LEASE, *flags))
        server = f"127.0.0.1:{(await service.ready())['grpc_port']}"
        cache = await stack.enter_async_context(PoolCache([server], idle_seconds=1))
        world = World(mode, plane, service, cache, model_server)
        world.server = server
        yield world


@pytest.mark.parametrize("mode", WRITERS)
async def test_a_pool_is_offered_while_both_sides_show_it_and_its_oddities_are_told(
    tmp_path: Path, mode: str
) -> None:
    async with (
        a_world(mode, tmp_path) as world,
        world.relay("qwen") as qwen,
        world.relay("llama"),
        world.relay("astray", cluster="eu-one"),
    ):
        # Registered, and not imported.
        await world.exact()
        assert world.pools() == {}

        # The addresses are those of the slices.
        both = await world.show("qwen", 0)
        await world.offers(qwen=both)

        # An export that was forgotten.
        await world.export("llama-pool-relay", "10.1.0.3", RELAY_PORT)
        await world.offers(qwen=both, llama=([], ["ip:10.1.0.3"]))
        told = await world.service.event("pool_without_frontends")
        assert told["pool"] == "eu-1/llm/llama"
        assert told["service"] == "llm/llama-frontend"
        assert told["imported_slices"] == 0
        await world.export("llama-frontend", "10.1.0.4", HTTP_PORT)
        llama = (["http://10.1.0.4:8000"], ["ip:10.1.0.3"])
        await world.offers(qwen=both, llama=llama)

        # The slices stay Ready; the lease decides.
        qwen.process.process.kill()
        await world.offers(llama=llama)
        lapsed = await world.service.event("pool_lapsed")
        assert lapsed["pool"] == "eu-1/llm/qwen"

        # Two sides that never meet.
        await world.export("astray-pool-relay", "10.1.0.5", RELAY_PORT)
        sides = {
            "eu-1/llm/qwen": "slices",
            "eu-1/llm/astray": "slices",
            "eu-one/llm/astray": "registration",
        }
        for pool, side in sides.items():
            assert (await world.one_sided(pool))["listed_by"] == side
        assert world.pools() == {"llama": llama}


async def test_pools_outlive_the_api_server_and_their_leases_go_on_ending(tmp_path: Path) -> None:
    async with (
        a_world("mcs", tmp_path) as world,
        world.relay("qwen"),
        world.relay("llama") as llama,
    ):
        shown = {"qwen": await world.show("qwen", 0), "llama": await world.show("llama", 1)}
        await world.offers(**shown)
        await world.exact()
        await world.plane.kill_apiserver()
        await world.exact(exact=False)
        assert world.pools() == shown
        llama.process.process.kill()
        await world.offers(qwen=shown["qwen"])
        await world.plane.start_apiserver()
        await world.exact()
        assert world.pools() == {"qwen": shown["qwen"]}
        async with world.relay("mistral"):
            await world.offers(qwen=shown["qwen"], mistral=await world.show("mistral", 2))
