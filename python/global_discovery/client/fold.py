"""What a client keeps of a watch stream: the fold, and the pools it carries.

The *fold* follows the stream strictly and equals what ListPools answers at the
same position. The *carried* entries are those that were known before, from
whatever server, or left as `unlisted`, and are not in the fold. Both are offered
while the mark is estimated; `removed` drops an entry from either, and the first
exact mark drops all that is carried.

Messages that belong together are applied together, when the last one has come.
There is no I/O here, and time is an argument; what is not decided here is when
to give up on a stream.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2

K = TypeVar("K", bound=Hashable)
E = TypeVar("E", pool_pb2.Pool, pool_pb2.Router)

WatchResponse = pb.WatchPoolsResponse | pb.WatchRoutersResponse

MAX_PARTS_BYTES = 256 * 1024 * 1024
"""Of messages that wait for the one that closes them; a thousand times what servers send."""


class NoEnd(ValueError):
    """More came than any view has, and nothing closed it."""


class PoolKey(NamedTuple):
    """Names one pool."""

    cluster_id: str
    namespace: str
    dgd_name: str

    @classmethod
    def of(cls, message: pool_pb2.PoolKey) -> "PoolKey":
        """From its message."""
        return cls(message.cluster_id, message.namespace, message.dgd_name)

    def __str__(self) -> str:
        """`cluster_id/namespace/dgd_name`."""
        return "/".join(self)


@dataclass(frozen=True, slots=True)
class Carried(Generic[E]):
    """An entry that no server lists at present."""

    entry: E
    listed_until: float
    """When it was last known to be listed, on the clock of `apply`."""


@dataclass(frozen=True, slots=True)
class Update(Generic[K, E]):
    """What one application changed, for a caller that acts on changes."""

    snapshot: bool
    """Whether the fold was replaced. The rest tells the differences all the same."""
    changed: tuple[E, ...]
    """Entered the fold, or changed in it."""
    removed: tuple[K, ...]
    """No longer offered: `removed` said so, or the mark is exact."""
    carried: tuple[K, ...]
    """Left the fold and are carried from now on."""
    mark_changed: bool
    """Whether the mark, its reasons or its bound are others than before."""


class Fold(ABC, Generic[K, E]):
    """Applies the messages of any number of streams, one after the other."""

    def __init__(self) -> None:
        """Empty, without a mark or a position."""
        self._listed: dict[K, E] = {}
        self._carried: dict[K, Carried[E]] = {}
        self._parts: list[WatchResponse] = []
        self._parts_bytes = 0
        self._listed_at = 0.0
        self._following = False
        self._process = ""
        self._position = ""
        self._mark: pool_pb2.Mark | None = None

    # -- what is known -------------------------------------------------------

    @property
    def listed(self) -> Mapping[K, E]:
        """The fold. A view: it follows what is applied later."""
        return MappingProxyType(self._listed)

    @property
    def carried(self) -> Mapping[K, Carried[E]]:
        """The carried entries; empty once the mark is exact. A view, as `listed`."""
        return MappingProxyType(self._carried)

    def offered(self) -> Iterator[E]:
        """Everything that may be used at present: the fold and what is carried."""
        yield from self._listed.values()
        for carried in self._carried.values():
            yield carried.entry

    @property
    def position(self) -> str:
        """The last position that was applied, to watch on from; empty for the beginning."""
        return self._position

    @property
    def following(self) -> bool:
        """Whether the stream that began last has told its view, or what was missed of it."""
        return self._following

    @property
    def mark(self) -> pool_pb2.Mark | None:
        """How far the fold can be trusted; None before the first mark came."""
        return self._mark

    @property
    def exact(self) -> bool:
        """Whether what is not listed does not exist. An unknown mark is no exact one."""
        return self._mark is not None and is_exact(self._mark)

    # -- what comes in -------------------------------------------------------

    def begin_stream(self) -> None:
        """A new stream begins: what was cut off within several messages is forgotten."""
        self._take_parts()
        self._following = False
        self._process = ""

    def forget_position(self) -> None:
        """Makes the next stream begin with a snapshot."""
        self._position = ""

    def apply(self, message: WatchResponse, *, now: float) -> Update[K, E] | None:
        """Takes one message; tells what changed, or None when nothing was applied yet.

        An idle message is applied like any other and changes nothing. Raises NoEnd for
        parts without an end; they are forgotten, and nothing of them counts.
        """
        event = message.WhichOneof("event")
        if event == "server":
            self.begin_stream()
            self._process = message.server.instance_id
        elif event in {"snapshot", "changes"}:
            self._parts.append(message)
            self._parts_bytes += message.ByteSize()
        if self._parts_bytes > MAX_PARTS_BYTES:
            self._take_parts()
            raise NoEnd(f"more than {MAX_PARTS_BYTES} bytes of one view")
        if not message.position and not message.HasField("mark"):
            return None
        parts = self._take_parts()
        update = self._close(parts, message, now)
        if update.snapshot or message.position:
            # A snapshot without a position leaves none: the older one is of another fold.
            self._position = message.position
            self._following = True
        if self._following:
            self._listed_at = now
        return update

    def _take_parts(self) -> list[WatchResponse]:
        parts, self._parts, self._parts_bytes = self._parts, [], 0
        return parts

    def _close(
        self, parts: list[WatchResponse], closing: WatchResponse, now: float
    ) -> Update[K, E]:
        step = _Step[K, E]()
        snapshots = [part.snapshot for part in parts if part.HasField("snapshot")]
        if snapshots:
            self._replace(snapshots, step, now)
        for part in parts:
            if part.HasField("changes"):
                self._change(part.changes, step, now)
        mark_changed = closing.HasField("mark") and closing.mark != self._mark
        if closing.HasField("mark"):
            self._mark = closing.mark
            if is_exact(closing.mark):
                for key in self._ended_by(closing.mark, now):
                    del self._carried[key]
                    step.removed[key] = None
        return Update(
            snapshot=bool(snapshots),
            changed=tuple(step.changed.values()),
            removed=tuple(step.removed),
            carried=tuple(key for key in step.carried if key in self._carried),
            mark_changed=mark_changed,
        )

    def _replace(self, snapshots: list[Any], step: "_Step[K, E]", now: float) -> None:
        before = self._listed
        self._listed = {
            self._key(entry): entry for snapshot in snapshots for entry in self._entries(snapshot)
        }
        for key, entry in self._listed.items():
            self._told(key, now)
            self._carried.pop(key, None)
            if before.get(key) != entry:
                step.changed[key] = entry
        for key, entry in before.items():
            if key not in self._listed:
                self._carried[key] = Carried(entry, self._listed_at)
                step.carried[key] = None

    def _change(self, changes: Any, step: "_Step[K, E]", now: float) -> None:
        for entry in self._entries(changes):
            key = self._key(entry)
            self._listed[key] = entry
            self._told(key, now)
            self._carried.pop(key, None)
            step.changed[key] = entry
        for key in self._keys(changes.removed):
            was_listed = self._listed.pop(key, None)
            was_carried = self._carried.pop(key, None)
            if was_listed is not None or was_carried is not None:
                step.removed[key] = None
        for key in self._keys(changes.unlisted):
            unlisted = self._listed.pop(key, None)
            if unlisted is not None:
                self._carried[key] = Carried(unlisted, now)
                step.carried[key] = None

    # -- what a finer rule replaces ------------------------------------------

    def _told(self, key: K, now: float) -> None:
        """The process that is followed has told this entry."""

    def _ended_by(self, mark: pool_pb2.Mark, now: float) -> list[K]:  # noqa: ARG002 - see above
        """Which carried entries an exact mark drops: all of them."""
        return list(self._carried)

    # -- what differs between pools and routers ------------------------------

    @abstractmethod
    def _entries(self, part: Any) -> Iterable[E]: ...

    @abstractmethod
    def _key(self, entry: E) -> K: ...

    @abstractmethod
    def _keys(self, keys: Iterable[Any]) -> Iterable[K]: ...


class PoolFold(Fold[PoolKey, pool_pb2.Pool]):
    """The fold of WatchPools."""

    def _entries(self, part: Any) -> Iterable[pool_pb2.Pool]:
        pools: Iterable[pool_pb2.Pool] = part.pools
        return pools

    def _key(self, entry: pool_pb2.Pool) -> PoolKey:
        return PoolKey.of(entry.key)

    def _keys(self, keys: Iterable[Any]) -> Iterable[PoolKey]:
        return map(PoolKey.of, keys)


class RouterFold(Fold[str, pool_pb2.Router]):
    """The fold of WatchRouters; its keys are the routers' ids."""

    def _entries(self, part: Any) -> Iterable[pool_pb2.Router]:
        routers: Iterable[pool_pb2.Router] = part.routers
        return routers

    def _key(self, entry: pool_pb2.Router) -> str:
        return entry.id

    def _keys(self, keys: Iterable[Any]) -> Iterable[str]:
        return keys


def is_exact(mark: pool_pb2.Mark) -> bool:
    """Whether a mark says exact; what this client does not know counts as estimated."""
    return mark.completeness == pool_pb2.COMPLETENESS_EXACT


class _Step(Generic[K, E]):
    """What one application has changed so far; the dicts are sets that keep their order."""

    def __init__(self) -> None:
        self.changed: dict[K, E] = {}
        self.removed: dict[K, None] = {}
        self.carried: dict[K, None] = {}
