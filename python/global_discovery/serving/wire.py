"""Values of the domain as protobuf bytes, made once and handed to everyone.

A message that a watcher receives is put together from cached bytes: an entry is
encoded once in its life, as field 1 of whatever carries it (`PoolSnapshot`,
`PoolChanges`, `ListPoolsResponse`, and the same of routers), and concatenating
fields is the protobuf encoding itself.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from global_discovery.domain.completeness import Mark
from global_discovery.domain.pool import Pool, PoolKey, Registration, Router
from global_discovery.domain.rules import MAX_CAPACITY_GIVEN, RawRegistration
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from global_discovery.view.feed import Encoder, Frames
from global_discovery.view.view import Delta, Entry, Form, Keyed, Snapshot

T = TypeVar("T", bound=Keyed)

_ONE_BYTE = 0x80
MAX_PART_BYTES = 256 * 1024
_PART_ROOM = MAX_PART_BYTES - 512
"""What a part may hold, so that its wrapping, position and mark still fit."""
_ENTRIES, _REMOVED, _UNLISTED = 1, 2, 3
_SNAPSHOT, _CHANGES = 2, 3


def field(number: int, payload: bytes) -> bytes:
    """One length-delimited field; `number` is below 16."""
    length = len(payload)
    if length < _ONE_BYTE:
        return bytes((number << 3 | 2, length)) + payload
    return bytes((number << 3 | 2,)) + _varint(length) + payload


def raw_registration(message: pool_pb2.PoolRegistration) -> RawRegistration:
    """What the message says, unchecked."""
    key, location = message.key, message.location
    # No more than is needed to refuse it: each takes longer here than in the message.
    capacity = message.capacity[: MAX_CAPACITY_GIVEN + 1]
    return RawRegistration(
        cluster_id=key.cluster_id,
        namespace=key.namespace,
        dgd_name=key.dgd_name,
        model=message.model,
        region=location.region,
        availability_zone=location.availability_zone,
        datacenter=location.datacenter,
        capabilities=message.capabilities,
        capacity=[(entry.gpu_sku, entry.gpu_count) for entry in capacity],
        frontends=message.frontends,
        relays=message.relays,
    )


def registration_message(registration: Registration) -> pool_pb2.PoolRegistration:
    """The other way round."""
    content = registration.content
    return pool_pb2.PoolRegistration(
        key=key_message(registration.key),
        model=content.model,
        location=_location(content.location),
        capabilities=content.capabilities,
        capacity=_capacity(content.capacity),
        frontends=content.frontends,
        relays=registration.relays,
    )


def key_message(key: PoolKey) -> pool_pb2.PoolKey:
    """A key."""
    return pool_pb2.PoolKey(
        cluster_id=key.cluster_id, namespace=key.namespace, dgd_name=key.dgd_name
    )


def pool_message(pool: Pool) -> pool_pb2.Pool:
    """A listed pool."""
    content = pool.content
    return pool_pb2.Pool(
        key=key_message(pool.key),
        model=content.model,
        location=_location(content.location),
        capabilities=content.capabilities,
        capacity=_capacity(content.capacity),
        frontends=content.frontends,
        relays=pool.relays,
        registered_time=_timestamp(pool.registered_time),
        changed_time=_timestamp(pool.changed_time),
    )


def mark_message(mark: Mark) -> pool_pb2.Mark:
    """A mark."""
    completeness = pool_pb2.COMPLETENESS_EXACT if mark.exact else pool_pb2.COMPLETENESS_ESTIMATED
    names = sorted(f"ESTIMATED_REASON_{reason.value}" for reason in mark.reasons)
    return pool_pb2.Mark(
        completeness=completeness,
        reasons=sorted(map(pool_pb2.EstimatedReason.Value, names)),
        bound_secs=mark.bound,
        slices_bound_secs=mark.slices_bound,
    )


def pool_field(entry: Entry[Pool]) -> bytes:
    """A pool as field 1 of what carries it."""
    if entry.wire is None:
        entry.wire = field(_ENTRIES, pool_message(entry.value).SerializeToString())
    return entry.wire


def router_field(entry: Entry[Router]) -> bytes:
    """A router as field 1 of what carries it."""
    if entry.wire is None:
        router = pool_pb2.Router(id=entry.value.id, url=entry.value.url)
        entry.wire = field(_ENTRIES, router.SerializeToString())
    return entry.wire


POOL_FORM = Form(lambda entry: entry.wire is None, pool_field)
ROUTER_FORM = Form(lambda entry: entry.wire is None, router_field)


def list_response(
    entries: Iterable[bytes], *, mark: Mark, position: str, next_page_token: str
) -> bytes:
    """A ListPoolsResponse or ListRoutersResponse, from the fields of its entries."""
    rest = pb.ListPoolsResponse(
        next_page_token=next_page_token, position=position, mark=mark_message(mark)
    )
    return b"".join(entries) + rest.SerializeToString()


class _Parts:
    """The messages of one snapshot or batch, put together as they are asked for."""

    def __init__(self, event: int, chunks: Callable[[], Iterator[bytes]], tail: bytes) -> None:
        self._event = event
        self._chunks = chunks
        self._tail = tail

    def __iter__(self) -> Iterator[bytes]:
        part: list[bytes] = []
        room = _PART_ROOM
        for chunk in self._chunks():
            room -= len(chunk)
            if room < 0 and part:
                yield field(self._event, b"".join(part))
                part, room = [], _PART_ROOM - len(chunk)
            part.append(chunk)
        yield field(self._event, b"".join(part)) + self._tail


def _encoder(
    entry_field: Callable[[Entry[T]], bytes], key_bytes: Callable[[Any], bytes]
) -> Encoder[T]:
    def snapshot(whole: Snapshot[T], position: str) -> Frames:
        tail = _tail(whole.mark, position)
        return _Parts(_SNAPSHOT, lambda: map(entry_field, whole.entries), tail)

    def delta(changes: Delta[T], position: str) -> Frames:
        def chunks() -> Iterator[bytes]:
            yield from map(entry_field, changes.entries)
            yield from (field(_REMOVED, key_bytes(key)) for key in changes.removed)
            yield from (field(_UNLISTED, key_bytes(key)) for key in changes.unlisted)

        return tuple(_Parts(_CHANGES, chunks, _tail(changes.mark, position)))

    def idle(mark: Mark, position: str) -> Frames:
        message = pb.WatchPoolsResponse(idle=pb.Idle(), position=position, mark=mark_message(mark))
        return (message.SerializeToString(),)

    return Encoder(snapshot=snapshot, delta=delta, idle=idle)


def _tail(mark: Mark, position: str) -> bytes:
    return pb.WatchPoolsResponse(position=position, mark=mark_message(mark)).SerializeToString()


def _varint(number: int) -> bytes:
    groups = []
    while True:
        number, low = number >> 7, number & 0x7F
        groups.append(low | (0x80 if number else 0))
        if not number:
            return bytes(groups)


def _location(location: Any) -> pool_pb2.Location:
    return pool_pb2.Location(
        region=location.region,
        availability_zone=location.availability_zone,
        datacenter=location.datacenter,
    )


def _capacity(capacity: Iterable[tuple[str, int]]) -> list[pool_pb2.Capacity]:
    return [pool_pb2.Capacity(gpu_sku=sku, gpu_count=count) for sku, count in capacity]


def _timestamp(seconds: float) -> Timestamp:
    milliseconds = round(seconds * 1000)
    return Timestamp(seconds=milliseconds // 1000, nanos=milliseconds % 1000 * 1_000_000)


POOLS: Encoder[Pool] = _encoder(pool_field, lambda key: key_message(key).SerializeToString())
ROUTERS: Encoder[Router] = _encoder(router_field, lambda key: str(key).encode())
