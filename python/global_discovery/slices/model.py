"""EndpointSlices (discovery.k8s.io/v1) as they are read: only what is needed of them.

Everything may be absent or null, as the API server and the implementations
really write it (`endpoints: null`, a port without a number, no conditions). An
endpoint or port that is not of the API's types is read as None, and label and
annotation values that are no strings are left out: one bad leaf costs itself
and nothing beside it.

Hundreds of thousands of endpoints may be kept: nothing here makes work for the
garbage collector (`gc=False`, and tuples of strings instead of lists).
"""

from typing import Any, TypeVar

import msgspec


class Conditions(msgspec.Struct, frozen=True, gc=False):
    """Of one endpoint; None is what was not said."""

    ready: bool | None = None
    terminating: bool | None = None


class Target(msgspec.Struct, frozen=True, gc=False):
    """The object behind an endpoint, in the source cluster."""

    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class Endpoint(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One endpoint. Only the first of its addresses has a meaning."""

    addresses: tuple[str, ...] | None = None
    conditions: Conditions | None = None
    target_ref: Target | None = None


class Port(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One port of all endpoints of a slice. Without a number there is no port, never port 0."""

    name: str | None = None
    protocol: str | None = None
    port: int | None = None
    app_protocol: str | None = None


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """What names a slice and says where it comes from."""

    name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


NO_METADATA = Metadata()


class EndpointSlice(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One slice. A member of `endpoints` or `ports` is None when it could not be read."""

    metadata: Metadata = NO_METADATA
    address_type: str | None = None
    endpoints: tuple[Endpoint | None, ...] | None = None
    ports: tuple[Port | None, ...] | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name; what is missing is empty."""
        return self.metadata.namespace or "", self.metadata.name or ""

    @property
    def weight(self) -> int:
        """About how much work it is to look at, in endpoints."""
        return 1 + len(self.endpoints or ())

    def label(self, name: str) -> str:
        """The value of a label; empty when it is not there."""
        return (self.metadata.labels or {}).get(name, "")

    def annotation(self, name: str) -> str:
        """The value of an annotation; empty when it is not there."""
        return (self.metadata.annotations or {}).get(name, "")


T = TypeVar("T")
_STRICT = msgspec.json.Decoder(EndpointSlice)


def decode_slice(data: bytes | msgspec.Raw) -> EndpointSlice:
    """The slice in one JSON object. Raises msgspec.DecodeError for what is no JSON object."""
    try:
        return _STRICT.decode(data)
    except msgspec.ValidationError:
        return _leniently(msgspec.json.decode(data))


def _leniently(raw: Any) -> EndpointSlice:
    """The slice, without those of its parts that are not of the API's types."""
    if not isinstance(raw, dict):
        raise msgspec.ValidationError("an EndpointSlice is a JSON object")
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {}
    return EndpointSlice(
        metadata=Metadata(
            name=_text(metadata.get("name")),
            namespace=_text(metadata.get("namespace")),
            labels=_texts(metadata.get("labels")),
            annotations=_texts(metadata.get("annotations")),
        ),
        address_type=_text(raw.get("addressType")),
        endpoints=_members(raw.get("endpoints"), Endpoint),
        ports=_members(raw.get("ports"), Port),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: Any) -> dict[str, str] | None:
    if not isinstance(value, dict):
        return None
    return {name: text for name, text in value.items() if isinstance(text, str)}


def _members(value: Any, kind: type[T]) -> tuple[T | None, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        return (None,)
    return tuple(_member(member, kind) for member in value)


def _member(value: Any, kind: type[T]) -> T | None:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None
