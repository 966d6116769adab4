"""Whatever the policy says: no answer of either face names a pool outside the scope.

The rules are worked out a second time here, by a few lines of their own.
"""

import asyncio
import itertools
import json
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from global_discovery.serving.access.reviews import TokenCluster
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from support.access import AUDIENCE, NOTHING, HandReviewer, a_token
from support.access_world import FACES, AccessWorld, Told, an_access_world
from support.grpc_calls import Watch
from support.pools import a_registration

CLUSTERS, NAMESPACES = ("east", "east-2", "west"), ("models", "models-2", "other")
KEYS = [*itertools.product(CLUSTERS, NAMESPACES)]
PATTERNS = ("east", "east*", "east-*", "west", "*")
ADMIN = """
[[rule]]
identities = ["sa:c/dynamo/admin"]
may = ["read", "register"]
clusters = ["*"]
"""
rules = st.lists(
    st.tuples(
        st.sets(st.sampled_from(["read", "register"]), min_size=1),
        st.sets(st.sampled_from(PATTERNS), min_size=1),
        st.sets(st.sampled_from(["models", "models-*", "other", "*"]), min_size=1),
    ),
    max_size=3,
)


def allowed(right: str, key: tuple[str, str], written: list[tuple[set[str], ...]]) -> bool:
    def means(pattern: str, name: str) -> bool:
        return name.startswith(pattern[:-1]) if pattern[-1] == "*" else name == pattern

    return any(
        right in may
        and any(means(each, key[0]) for each in clusters)
        and any(means(each, key[1]) for each in namespaces)
        for may, clusters, namespaces in written
    )


def as_toml(written: list[tuple[set[str], ...]]) -> str:
    parts = [ADMIN]
    for may, clusters, namespaces in written:
        parts.append('[[rule]]\nidentities = ["sa:c/dynamo/relay"]')
        for name, values in (("may", may), ("clusters", clusters), ("namespaces", namespaces)):
            parts.append(f"{name} = {json.dumps(sorted(values))}")
    return "\n".join(parts)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(written=rules)
def test_no_answer_names_a_pool_outside_the_scope(
    tmp_path: Path, written: list[tuple[set[str], ...]]
) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(as_toml(written))
    asyncio.run(_check(path, written))


async def _check(path: Path, written: list[tuple[set[str], ...]]) -> None:
    reviewer = HandReviewer()
    async with an_access_world(
        policy=path,
        anonymous=NOTHING,
        token_audience=AUDIENCE,
        token_clusters=[TokenCluster("c", "", reviewer)],
    ) as world:
        tokens = {
            name: reviewer.accept(a_token(name), f"system:serviceaccount:dynamo:{name}")
            for name in ("admin", "relay")
        }
        bearer = {name: [("authorization", f"Bearer {each}")] for name, each in tokens.items()}
        admin = await world.caller("grpc", metadata=bearer["admin"])
        there, absent = KEYS[::2], KEYS[1::2]
        for cluster, namespace in there:
            request = pb.RegisterPoolRequest(
                registration=a_registration(cluster=cluster, namespace=namespace)
            )
            await admin.stub.RegisterPool(request, metadata=bearer["admin"])
        readable = [key for key in there if allowed("read", key, written)]
        reads_any = any("read" in may for may, *_ in written)
        for face in FACES:
            caller = await world.caller(face, metadata=bearer["relay"])
            await _lists(caller.listed, readable, reads_any=reads_any)
        await _watches(world, bearer["relay"], readable, reads_any=reads_any)
        for face in FACES:
            await _withdrawals(world, face, bearer["relay"], there, absent, written)


async def _lists(listed: object, readable: list[tuple[str, str]], *, reads_any: bool) -> None:
    told: Told = await listed()  # type: ignore[operator] # a method of a caller
    if not reads_any:
        assert told.code == "PERMISSION_DENIED"
    else:
        assert [tuple(key.split("/")[:2]) for key in told.value] == sorted(readable)


async def _watches(
    world: AccessWorld,
    metadata: list[tuple[str, str]],
    readable: list[tuple[str, str]],
    *,
    reads_any: bool,
) -> None:
    caller = await world.caller("grpc", metadata=metadata)
    watch = Watch(caller.stub)
    watch.call.cancel()
    watch.call = caller.stub.WatchPools(pb.WatchPoolsRequest(), metadata=metadata)
    if not reads_any:
        ended = await watch.end()
        assert ended is not None
        assert ended.reason == "PERMISSION_DENIED"
        return
    client = await watch.begun()
    assert {key[:2] for key in client.fold} == set(readable)
    watch.call.cancel()


async def _withdrawals(  # noqa: PLR0917 - what was there, and what was written
    world: AccessWorld,
    face: str,
    metadata: list[tuple[str, str]],
    there: list[tuple[str, str]],
    absent: list[tuple[str, str]],
    written: list[tuple[set[str], ...]],
) -> None:
    """By an id that nobody has: nothing ends, and the answers tell who may and no more."""
    caller = await world.caller(face, metadata=metadata)
    for cluster, namespace in (*there, *absent):
        if face == "grpc":
            key = pool_pb2.PoolKey(cluster_id=cluster, namespace=namespace, dgd_name="pool-00000")
            request = pb.DeregisterPoolRequest(key=key, lease_id="nobody-has-it")
            told = await caller._grpc(caller.stub.DeregisterPool, request, str)
        else:
            path = f"/pools/{cluster}/{namespace}/pool-00000"
            told = await caller._rest("DELETE", path, str, headers={"If-Match": '"nobody-has-it"'})
        may = allowed("register", (cluster, namespace), written)
        assert told.code == ("NOT_FOUND" if may else "PERMISSION_DENIED")
        assert cluster not in told.text
