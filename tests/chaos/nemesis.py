"""Breaks a system by a plan that its seed decides: what, whom, when and for how long.

Two plans run side by side: one for servers and what they stand on, one for links and
certificates. A fault is noted from before it is done until it is healed, and every one
is healed, also when the plan is ended in the middle of it.
"""

import asyncio
import contextlib
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager

from chaos.history import POLICY_SECONDS, Window, now
from chaos.links import THROTTLED, Link
from chaos.slots import FAKETIME, Slot
from chaos.world import FLAPPER, World, show
from support.certificates import a_pair

DELAY_SECONDS = 0.4
KINDS = ("cut", "swallow", "delay")
"""What a link suffers: refusal, silence, lateness."""

Offered = list[tuple[str, AbstractAsyncContextManager[None]]]
"""The faults that there are at a moment, by name; entered is done, left is healed."""


class Nemesis:
    """The faults of one world."""

    def __init__(self, world: World, seed: str) -> None:
        self._world = world
        self._seed = seed
        self._lease = world.scenario.terms.lease
        self._interval = world.scenario.terms.interval

    async def run(self, seconds: float) -> None:
        """Both plans, for so long."""
        ends = now() + seconds
        async with asyncio.TaskGroup() as group:
            group.create_task(self._plan("servers", self._of_servers, ends))
            group.create_task(self._plan("links", self._of_links, ends))

    async def _plan(
        self,
        name: str,
        faults: Callable[[random.Random], Offered],
        ends: float,
    ) -> None:
        chance = random.Random(f"{self._seed}/{name}")
        await asyncio.sleep(chance.uniform(0.5, 1.5) * self._lease)
        bag: list[str] = []
        while now() < ends:
            offered = dict(faults(chance))
            if not bag:
                bag = sorted(offered)
                chance.shuffle(bag)
            kind = bag.pop()
            lasts = chance.choice([0.5 * self._interval, self._lease, 2 * self._lease])
            lasts = min(lasts, max(0.0, ends - now()))
            if kind in offered:
                async with offered[kind]:
                    await asyncio.sleep(lasts)
            await asyncio.sleep(chance.uniform(0.5, 1.5) * self._lease)

    @contextlib.contextmanager
    def _noted(self, fault: str, *targets: str) -> Iterator[None]:
        window = Window(fault, frozenset(targets), now())
        self._world.history.windows.append(window)
        try:
            yield
        finally:
            window.ended = now()

    # -- servers and what they stand on ------------------------------------------

    def _of_servers(self, chance: random.Random) -> Offered:
        slot = chance.choice(self._world.slots)
        offered: Offered = [
            ("kill", self._ended(slot, signal.SIGKILL)),
            ("terminate", self._ended(slot, signal.SIGTERM)),
            ("suspend", self._suspended(slot)),
        ]
        if FAKETIME is not None:
            offered.append(("clock", self._clock_stepped(slot, chance.choice([-7200, 86_400]))))
        if self._world.disk is not None and self._world.disk.real:
            offered.append(("disk full", self._disk_full()))
        if self._world.table is not None:
            link = self._world.table.links[slot.name]
            for kind in (*KINDS, "throttle"):
                target = [f"store:{slot.name}", "store"]
                offered.append((f"store {kind}", self._broken(kind, [link], target)))
        if self._world.api is not None:
            link = self._world.api.link
            offered += [
                *((f"api {kind}", self._broken(kind, [link], ["api"])) for kind in KINDS),
                ("api restart", self._api(self._world.api.restart)),
                ("token", self._api(self._world.api.rotate_token)),
                ("slices", self._slices()),
            ]
        return offered

    @contextlib.asynccontextmanager
    async def _ended(self, slot: Slot, number: signal.Signals) -> AsyncIterator[None]:
        with self._noted(number.name, f"slot:{slot.name}"):
            await slot.stop(number)
            try:
                yield
            finally:
                await slot.start()

    @contextlib.asynccontextmanager
    async def _suspended(self, slot: Slot) -> AsyncIterator[None]:
        with self._noted("suspend", f"slot:{slot.name}"):
            slot.suspend()
            try:
                yield
            finally:
                slot.resume()

    @contextlib.asynccontextmanager
    async def _clock_stepped(self, slot: Slot, seconds: int) -> AsyncIterator[None]:
        with self._noted(f"clock {seconds:+d} s", f"clock:{slot.name}"):
            slot.step_clock(seconds)
            try:
                yield
            finally:
                slot.step_clock(0)

    @contextlib.asynccontextmanager
    async def _disk_full(self) -> AsyncIterator[None]:
        disk = self._world.disk
        assert disk is not None
        with self._noted("disk full", "disk"):
            disk.fill()
            try:
                yield
            finally:
                disk.empty()

    @contextlib.asynccontextmanager
    async def _api(self, act: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        with self._noted("api", "api"):
            await act()
            yield

    @contextlib.asynccontextmanager
    async def _slices(self) -> AsyncIterator[None]:
        api = self._world.api
        assert api is not None
        with self._noted("slices", FLAPPER):
            await show(api, FLAPPER, ready=False)
            try:
                yield
            finally:
                await show(api, FLAPPER)

    # -- links -------------------------------------------------------------------

    def _of_links(self, chance: random.Random) -> Offered:
        targets = sorted(self._world.links)
        relays = [target for target in targets if target.startswith("relay:")]
        some = chance.sample(relays, chance.randint(1, 5))
        router = [chance.choice([t for t in targets if t.startswith("router:")])]
        offered: Offered = []
        for kind in KINDS:
            offered.append((f"relays {kind}", self._broken_targets(kind, some)))
            offered.append((f"router {kind}", self._broken_targets(kind, router)))
        offered.append(("all relays swallow", self._broken_targets("swallow", relays)))
        if self._world.secret is not None:
            offered.append(("certificate", self._certificate()))
        if self._world.policy is not None:
            narrowed = chance.choice(relays).partition(":")[2]
            offered += [("policy", self._policy()), ("narrowed", self._narrowed(narrowed))]
        return offered

    def _broken_targets(self, kind: str, targets: list[str]) -> AbstractAsyncContextManager[None]:
        links = [link for target in targets for link in self._world.links[target]]
        return self._broken(kind, links, targets)

    @contextlib.asynccontextmanager
    async def _broken(
        self, kind: str, links: list[Link], targets: list[str]
    ) -> AsyncIterator[None]:
        with self._noted(kind, *targets):
            for link in links:
                _break(link, kind)
            try:
                yield
            finally:
                for link in links:
                    _heal(link)

    @contextlib.asynccontextmanager
    async def _certificate(self) -> AsyncIterator[None]:
        """A pair that does not match for a moment, then a good one, which must be taken."""
        world = self._world
        assert world.secret is not None
        assert world.ca is not None
        authority = world.ca.cert_pem.bytes()
        fresh, other = a_pair(world.ca), a_pair(world.ca)
        with self._noted("certificate", "tls"):
            world.secret.put(fresh._replace(key=other.key), authority)
            try:
                yield
            finally:
                world.secret.put(fresh, authority)

    @contextlib.asynccontextmanager
    async def _policy(self) -> AsyncIterator[None]:
        """Rewritten, with something between that no server may take: nobody must notice."""
        policy = self._world.policy
        assert policy is not None
        with self._noted("policy", "policy"):
            policy.garble()
            try:
                yield
            finally:
                policy.allow()

    @contextlib.asynccontextmanager
    async def _narrowed(self, pool: str) -> AsyncIterator[None]:
        """One pool's relays may register no more, for a while after that must be in force."""
        policy = self._world.policy
        assert policy is not None
        with self._noted("narrowed", f"policy:{pool}"):
            policy.allow(but=[pool])
            try:
                await asyncio.sleep(POLICY_SECONDS)
                yield
            finally:
                policy.allow()


def _break(link: Link, kind: str) -> None:
    if kind == "swallow":
        link.swallow()
    elif kind == "delay":
        link.delay_seconds = DELAY_SECONDS
    else:
        link.refuses = kind == "cut"
        link.answers = THROTTLED if kind == "throttle" else None
        link.cut()


def _heal(link: Link) -> None:
    """Half of the swallowing links lose what lay in them: as a path that changed, or a timeout."""
    link.refuses, link.answers, link.delay_seconds = False, None, 0.0
    if link.port % 2:
        link.cut()
    link.pass_on()
