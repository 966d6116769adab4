"""What requests carry, as values of the domain."""

from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from global_discovery.domain import rules
from global_discovery.domain.access import Scope
from global_discovery.domain.errors import InvalidInput, Violation
from global_discovery.domain.pool import PoolKey
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from global_discovery.view.fanout import DEFAULT_IDLE_SECONDS, MAX_IDLE_SECONDS, MIN_IDLE_SECONDS
from global_discovery.view.filters import EVERYTHING, PoolFilter
from global_discovery.view.position import BadPosition
from global_discovery.view.view import Filter, View

M = TypeVar("M", bound=Message)


def parse(request_type: type[M], data: bytes) -> M:
    """The message. Raises InvalidInput."""
    try:
        return request_type.FromString(data)
    except DecodeError:
        message = f"is no {request_type.DESCRIPTOR.name} in UTF-8"
        raise InvalidInput([Violation("request", message)]) from None


def key_of(message: pool_pb2.PoolKey) -> PoolKey:
    """The key. Raises InvalidInput."""
    return rules.check_key(message.cluster_id, message.namespace, message.dgd_name)


def filter_of(message: pb.PoolFilter, scope: Scope) -> PoolFilter:
    """The filter, within what its caller may read."""
    if not message.ByteSize() and scope.unlimited:
        return EVERYTHING
    return PoolFilter(
        models=frozenset(message.models),
        regions=frozenset(message.regions),
        cluster_ids=frozenset(message.cluster_ids),
        namespaces=frozenset(message.namespaces),
        scope=scope,
    )


def idle_interval(asked: int) -> int:
    """The interval that was asked for, or the default. Raises InvalidInput."""
    seconds = asked or DEFAULT_IDLE_SECONDS
    if not MIN_IDLE_SECONDS <= seconds <= MAX_IDLE_SECONDS:
        limits = f"must be {MIN_IDLE_SECONDS} to {MAX_IDLE_SECONDS}, or 0 for the default"
        raise InvalidInput([Violation("idle_interval_secs", limits)])
    return seconds


def resume(view: View[Any], position: str, wanted: Filter) -> int | None:
    """Where a stream goes on; None without a place. Raises InvalidInput."""
    if not position:
        return None
    try:
        return view.resume(position, wanted)
    except BadPosition:
        raise InvalidInput([Violation("position", "is no position of this service")]) from None
