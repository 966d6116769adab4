"""What a client of WatchPools keeps, exactly as the protocol's comments tell it to."""

from dataclasses import dataclass, field

from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2

Key = tuple[str, str, str]


def key_of(message: pool_pb2.PoolKey) -> Key:
    return message.cluster_id, message.namespace, message.dgd_name


@dataclass
class FoldingClient:
    """The fold and the carried pools, over any number of streams and servers."""

    fold: dict[Key, pool_pb2.Pool] = field(default_factory=dict)
    carried: dict[Key, pool_pb2.Pool] = field(default_factory=dict)
    position: str = ""
    mark: pool_pb2.Mark | None = None
    server: pb.ServerInfo | None = None
    messages: list[pb.WatchPoolsResponse] = field(default_factory=list)
    _parts: list[pb.WatchPoolsResponse] = field(default_factory=list)

    @property
    def exact(self) -> bool:
        return self.mark is not None and self.mark.completeness == pool_pb2.COMPLETENESS_EXACT

    @property
    def offered(self) -> dict[Key, pool_pb2.Pool]:
        """What a router would use now."""
        return self.fold if self.exact else self.carried | self.fold

    def begin_stream(self) -> None:
        """A new stream: parts without an end are forgotten, the rest is kept."""
        self._parts.clear()

    def take(self, message: pb.WatchPoolsResponse) -> list[pb.WatchPoolsResponse]:
        """Applies one message. Gives the parts that it closed, none when it closed nothing."""
        self.messages.append(message)
        if message.WhichOneof("event") == "server":
            assert not message.position
            assert not message.HasField("mark")
            self.server = message.server
            return []
        self._parts.append(message)
        if not message.HasField("mark"):
            assert not message.position, "a position without a mark"
            return []
        parts, self._parts = self._parts, []
        self._apply(parts)
        if message.position:
            self.position = message.position
        self.mark = message.mark
        if self.exact:
            self.carried.clear()
        return parts

    def _apply(self, parts: list[pb.WatchPoolsResponse]) -> None:
        kinds = {part.WhichOneof("event") for part in parts}
        assert len(kinds) == 1, "parts of different kinds"
        if kinds == {"snapshot"}:
            self.carried |= self.fold
            self.fold = {key_of(pool.key): pool for part in parts for pool in part.snapshot.pools}
        for changes in (part.changes for part in parts):
            self.fold |= {key_of(pool.key): pool for pool in changes.pools}
            for key in map(key_of, changes.removed):
                self.fold.pop(key, None)
                self.carried.pop(key, None)
            for key in map(key_of, changes.unlisted):
                pool = self.fold.pop(key, None)
                if pool is not None:
                    self.carried[key] = pool
        for key in self.fold:
            self.carried.pop(key, None)
