"""A whole system: what runs in each scenario, and the links between its parts."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import trustme

from chaos.access import INTRUDER, READER, Intruder, Policy, relay_name
from chaos.backends import Api, Disk, Table, a_disk, a_table, an_api
from chaos.history import History, Terms
from chaos.lateness import measure_own, measure_server
from chaos.links import Link, a_link
from chaos.observers import Positions, RouterObserver, SlotObserver
from chaos.relays import CLUSTERS, PoolLife, Speaker, cluster_of
from chaos.slots import Slot
from global_discovery.client import PoolCache, TlsSettings
from support.certificates import Secret, a_pair, leaf_files
from support.serve_process import COMMAND
from support.slices_of import mcs_slice

ROUTERS = ("router-grpc", "router-mixed", "router-rest")
STEADY, RESTLESS = 12, 12
FLAPPER = "restless-0"
"""With an API server: the pool whose slices change all the while."""


class Scenario(NamedTuple):
    """What runs."""

    slots: int
    terms: Terms
    tls: bool = False
    api: bool = False


SCENARIOS = {
    "memory": Scenario(1, Terms(3, 1, shared=False), tls=True),
    "sqlite": Scenario(1, Terms(3, 1, shared=False, file=True)),
    "dynamodb": Scenario(3, Terms(6, 2, shared=True), tls=True),
    "mcs": Scenario(1, Terms(3, 1, shared=False), api=True),
}


@dataclass
class World:
    """Everything that runs, and what faults are done to."""

    scenario: Scenario
    folder: Path
    history: History
    stack: contextlib.AsyncExitStack
    slots: list[Slot] = field(default_factory=list)
    lives: list[PoolLife] = field(default_factory=list)
    routers: list[RouterObserver] = field(default_factory=list)
    links: dict[str, list[Link]] = field(default_factory=dict)
    """By the target that a fault of theirs is done to: `relay:<pool>`, `router:<name>`."""
    disk: Disk | None = None
    table: Table | None = None
    api: Api | None = None
    ca: trustme.CA | None = None
    secret: Secret | None = None
    policy: Policy | None = None
    """Where callers have certificates: who may do what."""
    tls: TlsSettings | None = None
    """Of whoever reads."""
    positions: Positions = field(init=False)

    def __post_init__(self) -> None:
        self.positions = Positions(self.history)

    @property
    def unjudged(self) -> frozenset[str]:
        """Pools that depend on more than their relays."""
        return frozenset({FLAPPER} if self.api else ())

    async def link(self, target: str, slot: Slot, face: str) -> Link:
        """One more way to a slot."""
        link = await self.stack.enter_async_context(a_link())
        slot.join(link, face)
        self.links.setdefault(target, []).append(link)
        return link

    def address(self, link: Link, face: str) -> str:
        if face == "grpc":
            return f"127.0.0.1:{link.port}"
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{link.port}"

    def flags(self, slot: str) -> list[str]:
        terms = self.scenario.terms
        flags = [
            f"--heartbeat-interval-secs={terms.interval:g}",
            f"--lease-duration-secs={terms.lease:g}",
        ]
        if self.secret is not None:
            paths = self.secret.paths
            flags += [f"--tls-cert-path={paths.cert}", f"--tls-key-path={paths.key}"]
            flags += [f"--tls-client-ca-path={paths.client_ca}"]
        if self.policy is not None:
            flags += [f"--policy-path={self.policy.path}", "--anonymous=none"]
        if self.disk is not None:
            path = self.disk.folder / "registrations.db"
            flags += ["--registration-storage=sqlite", f"--sqlite-path={path}"]
        if self.table is not None:
            flags += self.table.flags(slot)
        if self.api is not None:
            flags += ["--pool-discovery=mcs", f"--kubeconfig={self.api.kubeconfig}"]
        return flags


@contextlib.asynccontextmanager
async def a_world(
    scenario: Scenario, folder: Path, *, command: Sequence[str] = (), seed: str
) -> AsyncIterator[World]:
    """Runs when entered, with nobody registered yet; `command` stands in for `serve`."""
    async with contextlib.AsyncExitStack() as stack:
        world = World(scenario, folder, History(scenario.terms), stack)
        if scenario.tls:
            _add_tls(world)
        await _add_backends(world)
        await _add_slots(world, command or COMMAND)
        await _add_lives(world)
        await _add_routers(world)
        await _add_observers(world, seed)
        yield world


def _add_tls(world: World) -> None:
    ca = world.ca = trustme.CA()
    authority = ca.cert_pem.bytes()
    world.secret = Secret(world.folder / "tls", a_pair(ca), authority)
    (world.folder / "ca.pem").write_bytes(authority)
    world.policy = Policy(world.folder / "policy.toml", _pool_names(), CLUSTERS)
    world.tls = _certified(world, READER)


def _certified(world: World, name: str) -> TlsSettings:
    """What a caller of that name shows."""
    assert world.ca is not None
    (folder := world.folder / name).mkdir()
    cert, key = leaf_files(folder, world.ca.issue_cert(name))
    return TlsSettings(world.folder / "ca.pem", cert, key)


async def _add_backends(world: World) -> None:
    names = [f"slot-{number}" for number in range(world.scenario.slots)]
    if world.scenario.terms.file:
        world.disk = world.stack.enter_context(a_disk(world.folder / "disk"))
    if world.scenario.terms.shared:
        world.table = await world.stack.enter_async_context(a_table(names))
    if world.scenario.api:
        (folder := world.folder / "api").mkdir()
        world.api = await world.stack.enter_async_context(an_api(folder))
        for name in _pool_names():
            await show(world.api, name)


async def _add_slots(world: World, command: Sequence[str]) -> None:
    for number in range(world.scenario.slots):
        name = f"slot-{number}"
        slot = Slot(name, world.history, world.folder, _flags_of(world, name))
        slot.command = command
        slot.variables = world.table.environment if world.table else {}
        world.slots.append(slot)
        world.stack.push_async_callback(slot.close)
    await asyncio.gather(*(slot.start() for slot in world.slots))


def _flags_of(world: World, name: str) -> Callable[[], Sequence[str]]:
    return lambda: world.flags(name)


def _pool_names() -> list[str]:
    steady = [f"steady-{number}" for number in range(STEADY)]
    return [*steady, *(f"restless-{number}" for number in range(RESTLESS))]


async def _add_lives(world: World) -> None:
    for number, pool in enumerate(_pool_names()):
        speakers = []
        tls = None if world.policy is None else _certified(world, relay_name(pool))
        for relay in range(2 if number % 6 == 1 else 1):
            face = "rest" if number % 4 == 3 else "grpc"
            ways = {}
            shift = number % len(world.slots)
            for slot in world.slots[shift:] + world.slots[:shift]:
                link = await world.link(f"relay:{pool}", slot, face)
                ways[slot.name] = (world.address(link, face), link)
            speakers.append(Speaker(pool, f"{pool}-{relay}", ways, tls))
        steady = pool.startswith("steady")
        cluster = cluster_of(pool)
        world.lives.append(PoolLife(cluster, pool, speakers, world.history, steady))


async def _add_routers(world: World) -> None:
    for name in ROUTERS:
        servers = []
        for slot in world.slots:
            faces = {"router-grpc": ["grpc"], "router-rest": ["rest"]}.get(name, ["grpc", "rest"])
            for face in faces:
                link = await world.link(f"router:{name}", slot, face)
                servers.append(world.address(link, face))
        cache = PoolCache(servers, tls=world.tls, idle_seconds=1, poll_seconds=1)
        await world.stack.enter_async_context(cache)
        world.routers.append(RouterObserver(name, cache, world.history))


async def _add_observers(world: World, seed: str) -> None:
    looks = [
        SlotObserver(slot, world.history, world.positions, world.tls, seed).look()
        for slot in world.slots
    ]
    looks += [router.look() for router in world.routers]
    looks += [measure_server(slot, world.history, world.tls) for slot in world.slots]
    looks.append(measure_own(world.history))
    if world.policy is not None:
        tls = _certified(world, INTRUDER)
        looks += [Intruder(slot, world.history, tls).intrude() for slot in world.slots]
    tasks = [asyncio.create_task(look) for look in looks]
    world.stack.push_async_callback(_end, tasks)


async def _end(tasks: "list[asyncio.Task[None]]") -> None:
    """An observer that died saw nothing any more: that must not pass for health."""
    died = [task for task in tasks if task.done() and not task.cancelled()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in died:
        task.result()


async def show(api: Api, pool: str, *, ready: bool = True) -> None:
    """Both Services of a pool, as its cluster exports them."""
    for suffix, port in (("pool-relay", ("relay", 8082)), ("frontend", ("http", 8000))):
        await api.put(
            mcs_slice(
                cluster=cluster_of(pool),
                service=f"{pool}-{suffix}",
                addresses=["10.1.0.1"],
                port=port,
                ready=ready,
            )
        )


def python_command(script: Path, *arguments: str) -> list[str]:
    """A program in the place of `global-discovery serve`."""
    return [sys.executable, str(script), *arguments]
