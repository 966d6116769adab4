"""What a router keeps, one pool at a time, as the sentences of the rule tell it."""

from dataclasses import dataclass, field
from typing import Any

from global_discovery.v1 import pool_pb2


@dataclass
class Fate:
    """One pool's story so far."""

    offered: bool = False
    listed: bool = False
    told_at: float = 0.0
    told_by: str = ""


@dataclass
class NaiveRouter:
    """Looks at every pool it ever heard of with each message that closes something."""

    process: str = ""
    fates: dict[str, Fate] = field(default_factory=dict)
    parts: list[Any] = field(default_factory=list)

    @property
    def offered(self) -> set[str]:
        return {name for name, fate in self.fates.items() if fate.offered}

    @property
    def listed(self) -> set[str]:
        return {name for name, fate in self.fates.items() if fate.listed}

    def restart(self) -> None:
        """The router ends, having saved what it offers, and begins with that."""
        self.process, self.parts = "", []
        self.fates = {name: fate for name, fate in self.fates.items() if fate.offered}
        for fate in self.fates.values():
            fate.listed = False

    def take(self, message: Any, now: float) -> None:
        if message.HasField("server"):
            self.process = message.server.instance_id
            self.parts = []
            return
        self.parts.append(message)
        if not message.HasField("mark"):
            return
        parts, self.parts = self.parts, []
        told = {p.key.dgd_name for m in parts for p in (*m.snapshot.pools, *m.changes.pools)}
        removed = {key.dgd_name for m in parts for key in m.changes.removed}
        unlisted = {key.dgd_name for m in parts for key in m.changes.unlisted}
        replaces = any(m.HasField("snapshot") for m in parts)
        for name in told | set(self.fates):
            fate = self.fates.get(name, Fate())
            if name in told:
                fate = Fate(True, True, now, self.process)
            elif name in removed:
                fate = Fate()
            elif replaces or name in unlisted:
                fate.listed = False
            self.fates[name] = self._marked(fate, message.mark, now)

    def _marked(self, fate: Fate, mark: pool_pb2.Mark, now: float) -> Fate:
        if mark.completeness != pool_pb2.COMPLETENESS_EXACT or fate.listed:
            return fate
        own = self.process != "" and fate.told_by == self.process
        return Fate() if own or now - fate.told_at > mark.bound_secs else fate
