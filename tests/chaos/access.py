"""Who may do what in a system with certificates: the policy, and an intruder who tries it.

Each pool's relays have a certificate of their own, routers and observers another. The
intruder may register and read in a cluster where nothing is, and reaches for the pools
of the others, with their real lease ids: whatever else is broken, it must be refused.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from chaos.history import History
from chaos.relays import cluster_of, registration
from chaos.slots import Slot
from global_discovery.client import TlsSettings
from global_discovery.client.servers import open_channel, open_stub
from global_discovery.client.tls import ClientTls
from global_discovery.v1 import pool_discovery_pb2 as pb
from support.certificates import replace

if TYPE_CHECKING:
    from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceAsyncStub

READER = "observer.routers.example"
INTRUDER = "intruder.example"
PAUSE_SECONDS = 0.5
PATIENCE_SECONDS = 2.0
NO_ANSWER = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
}


def relay_name(pool: str) -> str:
    """The DNS name in the certificate of a pool's relays."""
    return f"{pool}.relays.example"


class Policy:
    """A policy file that is rewritten while servers use it."""

    def __init__(self, path: Path, pools: Sequence[str], clusters: Sequence[str]) -> None:
        self.path = path
        self._pools = pools
        self._clusters = clusters
        self._versions = 0
        self.allow()

    def allow(self, *, but: Collection[str] = ()) -> None:
        """All relays may register, but for those of some pools."""
        self._versions += 1
        relays = [f"dns:{relay_name(pool)}" for pool in self._pools if pool not in but]
        rules = (
            _rule(relays, "register", self._clusters),
            _rule([f"dns:*.{READER.partition('.')[2]}"], "read", ["*"]),
            _rule([f"dns:{INTRUDER}"], "register", ["nowhere"]),
            _rule([f"dns:{INTRUDER}"], "read", ["nowhere"]),
        )
        replace(self.path, f"# {self._versions}\n{''.join(rules)}".encode())

    def garble(self) -> None:
        """The file is half of what it was: nothing that a server may take."""
        replace(self.path, self.path.read_bytes()[:-40])


def _rule(identities: Sequence[str], may: str, clusters: Sequence[str]) -> str:
    quoted = ", ".join(f'"{identity}"' for identity in identities)
    names = ", ".join(f'"{cluster}"' for cluster in clusters)
    return f'[[rule]]\nidentities = [{quoted}]\nmay = ["{may}"]\nclusters = [{names}]\n'


class Intruder:
    """Tries one thing after the other at one slot."""

    def __init__(self, slot: Slot, history: History, tls: TlsSettings) -> None:
        self._slot = slot
        self._history = history
        self._tls = ClientTls(tls)
        self._next = 0

    async def intrude(self) -> None:
        """Until it is cancelled."""
        tries = (self._register, self._withdraw, self._renew, self._list)
        while True:
            async with open_channel(f"127.0.0.1:{self._slot.grpc_port}", self._tls) as channel:
                await self._try(tries[self._next % len(tries)], open_stub(channel))
            self._next += 1
            await asyncio.sleep(PAUSE_SECONDS)

    async def _try(
        self,
        attempt: "Callable[[PoolDiscoveryServiceAsyncStub], Awaitable[str]]",
        stub: "PoolDiscoveryServiceAsyncStub",
    ) -> None:
        try:
            done = await attempt(stub)
        except grpc.aio.AioRpcError as error:
            if error.code() in NO_ANSWER:
                return
            done = "" if error.code() is grpc.StatusCode.PERMISSION_DENIED else f"{error.code()}"
        self._history.intrusions += 1
        if done:
            told = (
                f"an owner of one cluster touches nothing of another's: {self._slot.name}: {done}"
            )
            self._history.broken.append(told)

    def _victims(self) -> list[tuple[str, str, str]]:
        """The last pools that were registered here: cluster, pool and lease id."""
        calls = [call for call in self._history.calls[-50:] if call.granted]
        return [(cluster_of(call.pool), call.pool, call.granted) for call in calls]

    async def _register(self, stub: "PoolDiscoveryServiceAsyncStub") -> str:
        for cluster, pool, lease_id in self._victims()[-1:]:
            stolen = registration(cluster, pool, 999)
            request = pb.RegisterPoolRequest(registration=stolen, lease_id=lease_id)
            await stub.RegisterPool(request, timeout=PATIENCE_SECONDS)
            return f"it registered {pool}"
        return ""

    async def _withdraw(self, stub: "PoolDiscoveryServiceAsyncStub") -> str:
        for cluster, pool, lease_id in self._victims()[-1:]:
            key = registration(cluster, pool, 0).key
            request = pb.DeregisterPoolRequest(key=key, lease_id=lease_id)
            await stub.DeregisterPool(request, timeout=PATIENCE_SECONDS)
            return f"it withdrew {pool}"
        return ""

    async def _renew(self, stub: "PoolDiscoveryServiceAsyncStub") -> str:
        stolen = {lease_id for _, _, lease_id in self._victims()}
        request = pb.RenewPoolsRequest(lease_ids=stolen)
        answer = await stub.RenewPools(request, timeout=PATIENCE_SECONDS)
        renewed = stolen - set(answer.unknown_lease_ids)
        return f"it renewed {len(renewed)} leases" if renewed else ""

    async def _list(self, stub: "PoolDiscoveryServiceAsyncStub") -> str:
        answer = await stub.ListPools(pb.ListPoolsRequest(), timeout=PATIENCE_SECONDS)
        return f"it lists {len(answer.pools)} pools" if answer.pools else ""
