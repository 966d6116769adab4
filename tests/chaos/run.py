"""Runs one scenario: begins, breaks, heals, waits for all to agree, and judges."""

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from chaos.history import History, now
from chaos.judge import Judge, Verdict
from chaos.nemesis import Nemesis
from chaos.observers import RouterObserver
from chaos.relays import living
from chaos.slots import Slot
from chaos.world import SCENARIOS, STEADY, World, a_world
from global_discovery.client import CallFailed, list_pools
from global_discovery.v1 import pool_pb2
from support.certificates import client_context, served_serial

CONVERGE_SECONDS = 90.0
"""All pauses of relays and routers, a start, leases with all extensions; and as much again."""


class Ran(NamedTuple):
    """What became of a scenario."""

    name: str
    seed: str
    verdict: Verdict
    history: History
    counts: Counter[str]
    """Of what happened."""
    lag: float
    """By how much this program ran late at most."""
    server_lag: float
    """The same of the servers, by their own word."""


async def ran(name: str, *, seed: str, seconds: float, command: Sequence[str] = ()) -> Ran:
    """One scenario, for so many seconds of faults; `command` stands in for `serve`."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        scenario = SCENARIOS[name]
        async with a_world(scenario, Path(folder), command=command, seed=seed) as world:
            async with living(world.lives, seed):
                await Nemesis(world, seed).run(seconds)
            for life in world.lives[STEADY::2]:
                await life.die()
            await _converge(world)
            counts["same position on two faces"] = world.positions.compared
            counts["intrusions that were refused"] = world.history.intrusions
        for slot in world.slots:
            counts["processes"] += slot.processes
            counts.update(f"log {json.loads(line)['event']}" for line in slot.log)
    history = world.history
    counts.update(f"fault {window.fault}" for window in history.windows)
    verdict = Judge(history, unjudged=world.unjudged).verdict()
    lag = max((lag for _, lag in history.lags), default=0.0)
    servers = (lag for lags in history.server_lags.values() for _, lag in lags)
    return Ran(name, seed, verdict, history, counts, lag, max(servers, default=0.0))


async def _converge(world: World) -> None:
    """Every server and every router comes to tell what is, or that is a breach."""
    alive = frozenset(life.pool for life in world.lives if life.alive)
    async with asyncio.TaskGroup() as group:
        for slot in world.slots:
            group.create_task(_slot_agrees(world, slot, alive))
            if world.secret is not None:
                group.create_task(_certificate_is_new(world, slot))
        for router in world.routers:
            group.create_task(_router_agrees(world, router, alive))


async def _slot_agrees(world: World, slot: Slot, alive: frozenset[str]) -> None:
    said = "nothing"
    try:
        async with asyncio.timeout(CONVERGE_SECONDS):
            while True:
                try:
                    listing = await list_pools([f"127.0.0.1:{slot.grpc_port}"], tls=world.tls)
                except CallFailed as failure:
                    said = str(failure)
                else:
                    names = frozenset(pool.key.dgd_name for pool in listing.entries)
                    exact = listing.mark.completeness == pool_pb2.COMPLETENESS_EXACT
                    if exact and names == alive:
                        return
                    said = _differs(names, alive, exact=exact)
                await asyncio.sleep(0.2)
    except TimeoutError:
        world.history.broken.append(f"every server converges: {slot.name} does not: {said}")


async def _router_agrees(world: World, router: RouterObserver, alive: frozenset[str]) -> None:
    ends = now() + CONVERGE_SECONDS
    while not (router.cache.state.exact and router.offered() == alive):
        if now() > ends:
            state = router.cache.state
            said = _differs(router.offered(), alive, exact=state.exact)
            told = f"every router converges: {router.name} does not: {said}; {state.causes}"
            world.history.broken.append(told)
            return
        await asyncio.sleep(0.1)


async def _certificate_is_new(world: World, slot: Slot) -> None:
    """New handshakes are made with what was put there last."""
    assert world.ca is not None
    assert world.secret is not None
    newest = x509.load_pem_x509_certificate(world.secret.paths.cert.read_bytes())
    serial, wanted = "", f"{newest.serial_number:02X}"
    context = client_context(world.ca)
    try:
        async with asyncio.timeout(CONVERGE_SECONDS):
            while serial != wanted:
                serial = await served_serial(slot.rest_port, context)
                await asyncio.sleep(0.2)
    except TimeoutError:
        world.history.broken.append(f"{slot.name} goes on with the certificate {serial}")


def _differs(names: frozenset[str], alive: frozenset[str], *, exact: bool) -> str:
    return f"exact {exact}, lacks {sorted(alive - names)}, has {sorted(names - alive)} besides"
