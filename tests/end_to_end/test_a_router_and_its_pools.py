"""The whole job with real processes: two model servers, their relays, the service, a router.

The router is the example. What it does is seen from outside: by requests and by
what it says it knows. Nothing is measured in seconds; a test waits for what must
come and looks at what may not have happened meanwhile.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from typing import Any

import aiohttp

from global_discovery.client import PoolCache
from support.client_process import COMMAND, Running
from support.serve_process import (
    LOOPBACK,
    SHORT_LEASE,
    ServeProcess,
    clean_environment,
    started,
)

ROOT = Path(__file__).resolve().parents[2]
MIDDLE_LEASE = ["--heartbeat-interval-secs", "1", "--lease-duration-secs", "15"]
LONG_LEASE = ["--heartbeat-interval-secs", "1", "--lease-duration-secs", "3600"]
PATIENCE_SECONDS = 60


class World:
    """Everything that runs, and the caller of the router."""

    def __init__(self, http: aiohttp.ClientSession, stack: contextlib.AsyncExitStack) -> None:
        self.http = http
        self.stack = stack
        self.service: ServeProcess | None = None
        self.discovery = ""
        self.router = ""
        self.model_servers: dict[str, str] = {}

    async def model_server(self, name: str, model: str) -> None:
        process = await self.start("tests/support/openai_server.py", name, model)
        self.model_servers[name] = f"http://127.0.0.1:{await process.line()}"

    async def becomes(self, name: str, model: str) -> None:
        """A model server serves another model from now on."""
        url = f"{self.model_servers[name]}/control"
        async with self.http.put(url, json={"models": [model]}) as answer:
            assert answer.status == 204

    async def serve(self, *flags: str, grpc_port: int = 0) -> None:
        ports = [*LOOPBACK[:-1], f"127.0.0.1:{grpc_port}"]
        process = await self.stack.enter_async_context(started(*ports, *flags))
        self.discovery = f"127.0.0.1:{(await process.ready())['grpc_port']}"
        self.service = process

    async def relay(self, name: str, *flags: str) -> ServeProcess:
        """The relay of a model server, once it has registered its pool."""
        command = [
            *(*COMMAND, "relay", "--cluster-id", "c1", "--pool", f"ns/{name}", "--region", "r1"),
            *("--frontend", self.model_servers[name], "--server", self.discovery),
            *("--relay-id", f"relay-{name}", "--listen", "127.0.0.1:0", "--log-format", "json"),
        ]
        process = await self.stack.enter_async_context(started(*flags, command=command))
        await process.event("registered")
        return process

    async def start_router(self) -> None:
        process = await self.start(
            "examples/router.py", "--server", self.discovery, "--listen", "127.0.0.1:0"
        )
        line = await process.line_with("listening on ")
        self.router = line.removeprefix("listening on ")

    async def start(self, script: str, *arguments: str) -> Running:
        """A program of this repository, ended with SIGTERM when all is over."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(ROOT / script), *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=clean_environment(),
        )

        async def end() -> None:
            process.send_signal(SIGTERM)
            async with asyncio.timeout(PATIENCE_SECONDS):
                _, errors = await process.communicate()
            assert errors == b""

        self.stack.push_async_callback(end)
        return Running(process)

    # -- what a caller does and sees ---------------------------------------------

    async def ask(self, model: str) -> tuple[int, Any]:
        """A request for a model: status and body."""
        url = f"{self.router}/v1/chat/completions"
        async with self.http.post(url, json={"model": model}) as answer:
            return answer.status, await answer.json()

    async def asked_of(self, model: str) -> str:
        """Which model server answers for a model."""
        status, body = await self.ask(model)
        assert status == 200, body
        assert body["model"] == model
        return str(body["choices"][0]["message"]["content"]).partition(" ")[0]

    async def models(self) -> set[str]:
        async with self.http.get(f"{self.router}/v1/models") as answer:
            return {entry["id"] for entry in (await answer.json())["data"]}

    async def offers(self, *models: str) -> None:
        """Waits until the router knows exactly these models."""
        await until(self.models, lambda now: now == set(models))

    async def router_is(self, **state: Any) -> None:
        """Waits until the router's health page says so."""

        async def page() -> Any:
            async with self.http.get(f"{self.router}/health") as answer:
                return await answer.json()

        await until(page, lambda now: now == now | state)


async def until(look: Callable[[], Awaitable[Any]], wanted: Callable[[Any], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not wanted(await look()):  # noqa: ASYNC110 - another process tells nobody
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def a_world(*flags: str) -> AsyncIterator[World]:
    """Two model servers, a service and a router; no relays yet."""
    async with aiohttp.ClientSession() as http, contextlib.AsyncExitStack() as stack:
        world = World(http, stack)
        async with asyncio.TaskGroup() as group:
            group.create_task(world.model_server("a", "model-a"))
            group.create_task(world.model_server("b", "model-b"))
            await world.serve(*flags)
        await world.start_router()
        yield world


async def test_requests_arrive_at_the_pool_of_their_model_and_answers_are_streamed() -> None:
    async with a_world(*SHORT_LEASE) as world:
        status, body = await world.ask("nobody-has-this")
        assert (status, body["error"]["code"]) == (503, "no_backend")
        await world.relay("a")
        await world.relay("b")
        await world.offers("model-a", "model-b")
        for name in "abba":
            assert await world.asked_of(f"model-{name}") == name
        asked = {"model": "model-a", "stream": True}
        async with world.http.post(f"{world.router}/v1/chat/completions", json=asked) as answer:
            assert answer.headers["Content-Type"] == "text/event-stream"
            pieces = [line.removeprefix(b"data: ") async for line in answer.content if line.strip()]
        words = [json.loads(piece)["choices"][0]["delta"]["content"] for piece in pieces[:-1]]
        assert ("".join(words), pieces[-1]) == ("a serves model-a", b"[DONE]\n")
        await world.router_is(exact=True)
        status, body = await world.ask("nobody-has-this")
        assert (status, body["error"]["code"]) == (404, "model_not_found")


async def test_two_pools_of_one_model_take_turns_and_a_dead_frontend_is_passed_over() -> None:
    async with a_world(*LONG_LEASE) as world:
        await world.relay("a")
        await world.relay("b", "--model", "model-a", "--frontend", "http://127.0.0.1:9")
        await world.becomes("b", "model-a")
        served_by: set[str] = set()

        async def ask() -> set[str]:
            served_by.add(await world.asked_of("model-a"))
            return served_by

        await world.offers("model-a")
        await until(ask, lambda seen: seen == {"a", "b"})
        for _ in range(6):
            await world.asked_of("model-a")


async def test_the_pool_of_a_killed_relay_leaves_when_its_lease_ends_and_no_other_does() -> None:
    async with a_world(*SHORT_LEASE) as world:
        relay = await world.relay("a")
        await world.relay("b")
        await world.offers("model-a", "model-b")
        relay.send(SIGKILL)
        await world.offers("model-b")
        await world.router_is(exact=True)
        assert (await world.ask("model-a"))[0] == 404
        assert await world.asked_of("model-b") == "b"


async def test_a_withdrawn_pool_leaves_at_once_long_before_its_lease_ends() -> None:
    async with a_world(*LONG_LEASE) as world:
        relay = await world.relay("a", "--withdraw-on-exit")
        await world.relay("b")
        await world.offers("model-a", "model-b")
        assert await relay.stop() == 0
        await world.offers("model-b")


async def test_a_killed_and_restarted_service_loses_no_request() -> None:
    async with a_world(*MIDDLE_LEASE) as world:
        relays = [await world.relay("a"), await world.relay("b")]
        await world.router_is(connected=True, listed=2)
        answers: list[tuple[int, bool]] = []
        over = asyncio.Event()

        async def keep_asking() -> None:
            while not over.is_set():
                for model in ("model-a", "model-b"):
                    status, body = await world.ask(model)
                    answers.append((status, body.get("model") == model))
                await asyncio.sleep(0.02)

        async def many_were_asked() -> None:
            before = len(answers)
            await until(lambda: asyncio.sleep(0, len(answers)), lambda now: now > before + 20)

        async with asyncio.TaskGroup() as group:
            group.create_task(keep_asking())
            assert world.service is not None
            world.service.send(SIGKILL)
            await world.service.ended()
            await world.router_is(connected=False)
            await many_were_asked()
            # The router comes back before the relays do: the new service lists nothing yet.
            for relay in relays:
                relay.send(SIGSTOP)
            await world.serve(*MIDDLE_LEASE, grpc_port=int(world.discovery.partition(":")[2]))
            await world.router_is(connected=True, listed=0, carried=2)
            await many_were_asked()
            for relay in relays:
                relay.send(SIGCONT)
            await world.router_is(connected=True, listed=2, carried=0)
            await many_were_asked()
            over.set()
        assert set(answers) == {(200, True)}


async def test_a_relay_restarted_inside_its_lease_changes_nothing() -> None:
    async with a_world(*LONG_LEASE) as world:
        relay = await world.relay("a")
        await world.relay("b")
        async with PoolCache([world.discovery]) as cache:
            await cache.wait_synced()
            before = cache.pools("model-a")
            assert len(before) == 1
            seen = []

            async def watch() -> None:
                async for _ in cache.changes():
                    seen.append(cache.pools("model-a"))  # noqa: PERF401 - grows while read

            watching = asyncio.create_task(watch())
            assert await relay.stop() == 0
            assert await world.asked_of("model-a") == "a"
            await world.relay("a")
            # A change that comes after it shows that whatever it caused has come too.
            await world.becomes("b", "model-z")
            await until(lambda: asyncio.sleep(0, cache.models()), lambda now: "model-z" in now)
            watching.cancel()
            assert all(pools == before for pools in seen)
            assert cache.pools("model-a") == before


async def test_a_change_of_the_model_moves_the_traffic() -> None:
    async with a_world(*LONG_LEASE) as world:
        await world.relay("a")
        await world.relay("b")
        await world.offers("model-a", "model-b")
        await world.becomes("a", "model-new")
        await world.offers("model-new", "model-b")
        assert await world.asked_of("model-new") == "a"
        assert (await world.ask("model-a"))[0] == 503  # not exact for an hour
        assert await world.asked_of("model-b") == "b"
