"""A policy file that says anything: it is in force as written, or refused with a sentence.

What is in force is worked out a second time here, from what the file says.
"""

import asyncio
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from hypothesis import note
from hypothesis import strategies as st

from global_discovery.domain.access import Rights
from global_discovery.domain.events import Event
from global_discovery.domain.policy import BadPolicy, Policy, parse
from global_discovery.domain.pool import PoolKey
from global_discovery.serving.access.policy_file import PolicyKeeper
from support.hostile import hostile
from support.hostile_toml import RULES, as_toml, damaged_toml

IDENTITIES = {
    "sa:east/dynamo/relay",
    "sa:east/dynamo/",
    "spiffe://east.example/ns/a",
    "spiffe://east.example/ns/",
    "spiffe://east.example/nsx",
    "dns:a.routers.example",
    "dns:a.b.routers.example",
    "dns:routers.example",
    "x",
}
NAMES = {"east", "east-2", "models-1", "models", "*", "other"}
GOOD = as_toml(RULES)


def means(pattern: str, identity: str) -> bool:
    if pattern.endswith("/*"):
        return len(identity) >= len(pattern) and identity.startswith(pattern[:-1])
    if pattern.startswith("dns:*."):
        labels = identity.split(".")
        return labels[0] not in {"dns:", identity} and "dns:*." + ".".join(labels[1:]) == pattern
    return pattern in {"*", identity}


def names(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def allowed(document: Any, identity: str, right: str, key: PoolKey) -> bool:
    return any(
        right in rule["may"]
        and any(means(each, identity) for each in rule["identities"])
        and any(names(each, key.cluster_id) for each in rule["clusters"])
        and any(names(each, key.namespace) for each in rule.get("namespaces", ["*"]))
        for rule in document["rule"]
    )


def judge(content: bytes, policy: Policy) -> None:
    """The policy gives exactly what the file says."""
    document = tomllib.loads(content.decode())
    written = [each for rule in document["rule"] for each in rule["identities"]]
    clusters = [each for rule in document["rule"] for each in rule["clusters"]]
    for identity in IDENTITIES | set(written):
        rights = policy.rights(identity)
        for cluster in NAMES | set(clusters):
            for namespace in NAMES:
                key = PoolKey(cluster, namespace, "pool")
                told = rights.read.holds(key), rights.register.holds(key)
                said = [allowed(document, identity, each, key) for each in ("read", "register")]
                assert told == tuple(said), f"{identity} {key}"


@hostile(examples=80, content=damaged_toml(RULES))
def test_a_policy_gives_what_the_file_says_or_is_refused_with_a_sentence(content: bytes) -> None:
    note(repr(content[:2000]))
    try:
        policy = parse(content)
    except BadPolicy as bad:
        policy, refusal = None, str(bad)
    if policy is None:
        assert 0 < len(refusal) < 1000
    else:
        judge(content, policy)


class Kept:
    """A keeper of a file, and what it told."""

    def __init__(self, path: Path) -> None:
        self.told: list[tuple[Event, dict[str, Any]]] = []
        self.changes = 0
        self.keeper = PolicyKeeper(path, report=lambda event, **f: self.told.append((event, f)))
        self.keeper.changed = self._changed

    def _changed(self) -> None:
        self.changes += 1

    def rights(self) -> list[Rights]:
        return [self.keeper.rights(identity) for identity in sorted(IDENTITIES)]


@hostile(examples=20, contents=st.lists(damaged_toml(RULES), min_size=1, max_size=3))
def test_what_replaces_the_file_is_taken_or_the_policy_before_it_stays(
    contents: list[bytes],
) -> None:
    note("\n".join(repr(content[:1000]) for content in contents))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.toml"
        path.write_text(GOOD)
        asyncio.run(_replaced(path, contents))


async def _replaced(path: Path, contents: list[bytes]) -> None:
    kept = Kept(path)
    for content in contents:
        kept.told.clear()
        kept.changes, before = 0, kept.rights()
        path.write_bytes(content)  # noqa: ASYNC240 - nothing else runs on this loop
        for _ in range(4):
            await kept.keeper.look()
        assert len(kept.told) <= 1
        if kept.keeper.stale:
            assert kept.changes == 0
            assert kept.rights() == before
            for event, fields in kept.told:
                assert event is Event.POLICY_REFUSED
                assert str(path) in fields["message"]
        else:
            judge(content, parse(content))
            assert kept.rights() == [parse(content).rights(each) for each in sorted(IDENTITIES)]
