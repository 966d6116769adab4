"""The audit lines of a real process whose callers prove who they are by certificates."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1.pool_discovery_pb2_grpc import PoolDiscoveryServiceStub
from support.access import EAST, POLICY, WEST, certificate_of, in_file
from support.certificates import HOST, a_pair, in_files
from support.grpc_calls import Stub, refused
from support.pools import a_registration
from support.serve_process import LOOPBACK, ServeProcess, started

ADMIN = "dns:admin.example"
RULE = f"""
[[rule]]
identities = ["{ADMIN}"]
may = ["register", "read"]
clusters = ["*"]
"""
POOL = "east/ns/pool-00001"


@contextlib.asynccontextmanager
async def called_by(
    identity: str, server: ServeProcess, ca: trustme.CA
) -> AsyncIterator[PoolDiscoveryServiceStub]:
    pair = certificate_of(ca, identity)
    credentials = grpc.ssl_channel_credentials(ca.cert_pem.bytes(), pair.key, pair.cert)
    target = f"{HOST}:{(await server.ready())['grpc_port']}"
    alone = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.secure_channel(target, credentials, options=alone) as channel:
        yield PoolDiscoveryServiceStub(channel)


@pytest.fixture
async def server(tmp_path: Path, ca: trustme.CA) -> AsyncIterator[ServeProcess]:
    tls = in_files(tmp_path, a_pair(ca), ca.cert_pem.bytes())
    flags = [
        *(f"--tls-cert-path={tls.cert}", f"--tls-key-path={tls.key}"),
        *(f"--tls-client-ca-path={tls.client_ca}", "--log-format=json"),
        f"--policy-path={in_file(tmp_path, POLICY + RULE)}",
    ]
    async with started(*LOOPBACK, *flags) as made:
        yield made


def heartbeat(relay: str, *, model: str = "m", lease_id: str = "") -> pb.RegisterPoolRequest:
    registration = a_registration(1, cluster="east", model=model)
    return pb.RegisterPoolRequest(registration=registration, relay_id=relay, lease_id=lease_id)


async def a_whole_life(owner: Stub, admin: Stub, stranger: Stub) -> list[str]:
    """Two relays, a change, withdrawals of each kind, and a refusal; the lease ids."""
    key = a_registration(1, cluster="east").key
    first = await owner.RegisterPool(heartbeat("r1"))
    await owner.RegisterPool(heartbeat("r1", model="n", lease_id=first.lease_id))
    second = await admin.RegisterPool(heartbeat("r2", model="n"))
    await refused(
        stranger.DeregisterPool(pb.DeregisterPoolRequest(key=key, lease_id=first.lease_id))
    )
    await owner.DeregisterPool(pb.DeregisterPoolRequest(key=key, lease_id=first.lease_id))
    await admin.DeregisterPool(pb.DeregisterPoolRequest(key=key, relay_id="r2"))
    third = await owner.RegisterPool(heartbeat("r1"))
    await admin.DeregisterPool(pb.DeregisterPoolRequest(key=key, all_shares=True))
    return [answer.lease_id for answer in (first, second, third)]


def who(lines: list[dict[str, Any]], event: str) -> list[tuple[str, str]]:
    """Caller and identity of each line of this event."""
    return [(line["caller"], line["identity"]) for line in lines if line["event"] == event]


async def test_every_line_says_which_identity_did_it_with_before_and_after(
    server: ServeProcess, ca: trustme.CA
) -> None:
    async with (
        called_by(EAST, server, ca) as owner,
        called_by(ADMIN, server, ca) as admin,
        called_by(WEST, server, ca) as stranger,
    ):
        lease_ids = await a_whole_life(owner, admin, stranger)
        key = a_registration(1, cluster="east").key
        explained = await owner.ExplainPool(pb.ExplainPoolRequest(key=key))
    assert {ended.caller for ended in explained.registration.ended} == {f"{ADMIN} at 127.0.0.1"}
    assert await server.stop() == 0
    lines = [line for line in server.events if line.get("audit")]
    by_owner, by_admin = ("127.0.0.1", EAST), ("127.0.0.1", ADMIN)
    assert who(lines, "pool_registered") == [by_owner, by_owner]
    assert who(lines, "share_began") == [by_admin]
    assert who(lines, "share_withdrawn") == [by_owner]
    assert who(lines, "pool_withdrawn") == [by_admin, by_admin]
    assert who(lines, "all_shares_withdrawn") == [by_admin]
    assert who(lines, "access_denied") == [("127.0.0.1", WEST)]
    assert {line["pool"] for line in lines if "pool" in line} == {POOL}
    registered = next(line for line in lines if line["event"] == "pool_registered")
    assert registered["after"]["model"] == "m"
    changed = next(line for line in lines if line["event"] == "pool_changed")
    assert (changed["caller"], changed["identity"]) == by_owner
    assert (changed["before"], changed["after"]) == ({"model": "m"}, {"model": "n"})
    denied = next(line for line in lines if line["event"] == "access_denied")
    assert (denied["what"], denied["reason"]) == (POOL, "PERMISSION_DENIED")
    assert not [one for one in lease_ids if one in str(server.lines)]
