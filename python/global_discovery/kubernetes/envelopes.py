"""What Kubernetes wraps around objects. The objects themselves stay bytes until asked for."""

from typing import NamedTuple

import msgspec

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises."""


class Key(NamedTuple):
    """Names an object within its kind."""

    namespace: str
    """Empty for kinds without namespaces."""
    name: str

    def __str__(self) -> str:
        """As people write it."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Meta(msgspec.Struct):
    name: str | None = None
    namespace: str | None = None
    version: str | None = msgspec.field(name="resourceVersion", default=None)


class _Hollow(msgspec.Struct):
    metadata: _Meta


class _ListMeta(msgspec.Struct):
    version: str | None = msgspec.field(name="resourceVersion", default=None)
    more: str | None = msgspec.field(name="continue", default=None)


class Page(msgspec.Struct):
    """One page of a list. `items` may be null."""

    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


_HOLLOW = msgspec.json.Decoder(_Hollow)
_PAGE = msgspec.json.Decoder(Page)
_EVENT = msgspec.json.Decoder(WatchEvent)

read_page = _PAGE.decode
"""Raises one of UNREADABLE; so do the others."""
read_event = _EVENT.decode


def read_names(raw: bytes | msgspec.Raw) -> tuple[Key, str]:
    """Key and version of any object."""
    meta = _HOLLOW.decode(raw).metadata
    return Key(meta.namespace or "", meta.name or ""), meta.version or ""
