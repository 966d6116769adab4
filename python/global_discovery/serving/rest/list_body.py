"""`GET /pools` and `GET /routers`: whole answers, made once and given to everyone.

An entry is encoded once in its life. A body is joined once per filter and
position, and compressed once when the first caller wants that. While nothing
has changed a call costs a look-up.
"""

from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import orjson

from global_discovery.domain.completeness import Mark
from global_discovery.domain.pool import Pool, Router
from global_discovery.serving.rest.answer import JSON
from global_discovery.serving.rest.representation import Representation
from global_discovery.view.view import Entry, Filter, Form, Keyed, Snapshot, View

T = TypeVar("T", bound=Keyed)

MAX_KEPT = 256
MAX_KEPT_BYTES = 64 * 1024 * 1024
POSITION = "X-Global-Discovery-Position"


class ListBodies(Generic[T]):
    """The bodies of one view, for the filters that were asked for lately."""

    def __init__(
        self,
        view: View[T],
        encode: Callable[[Snapshot[T]], bytes],
        is_private: Callable[[Any], bool] = lambda _: False,
    ) -> None:
        """`encode` makes the body of a snapshot.

        `is_private` tells of a filter whether its list is what one caller may read, so
        that no cache may keep it for others.
        """
        self._view = view
        self._encode = encode
        self._is_private = is_private
        self._sequence = -1
        self._kept: OrderedDict[bytes, Representation] = OrderedDict()
        self._kept_bytes = 0

    def body(self, wanted: Filter) -> Representation:
        """The list as it is now."""
        view = self._view
        view.refresh()
        if view.sequence != self._sequence:
            self._sequence = view.sequence
            self._kept.clear()
            self._kept_bytes = 0
        body = self._kept.get(wanted.fingerprint)
        return self._make(wanted) if body is None else body

    def is_kept(self, wanted: Filter) -> bool:
        """Whether `body` has nothing to do, unless the view moves."""
        up_to_date = self._view.sequence == self._sequence
        return up_to_date and wanted.fingerprint in self._kept

    def _make(self, wanted: Filter) -> Representation:
        snapshot = self._view.snapshot(wanted)
        position = self._view.position(snapshot.sequence, wanted)
        cache = "private, no-cache" if self._is_private(wanted) else "no-cache"
        body = Representation(self._encode(snapshot), JSON, {POSITION: position}, cache=cache)
        self._kept[wanted.fingerprint] = body
        self._kept_bytes += len(body)
        while len(self._kept) > 1 and (
            len(self._kept) > MAX_KEPT or self._kept_bytes > MAX_KEPT_BYTES
        ):
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= len(oldest)
        return body


def pools_json(snapshot: Snapshot[Pool]) -> bytes:
    """The body of `GET /pools`."""
    mark = snapshot.mark
    rest = _mark_members(mark) | {"bound_secs": _number(mark.bound)}
    if mark.slices_bound is not None:
        rest["slices_bound_secs"] = _number(mark.slices_bound)
    return _list_json(b"pools", map(_pool_json, snapshot.entries), rest)


def routers_json(snapshot: Snapshot[Router]) -> bytes:
    """The body of `GET /routers`."""
    rest = _mark_members(snapshot.mark)
    return _list_json(b"routers", map(_router_json, snapshot.entries), rest)


def reason_codes(mark: Mark) -> list[str]:
    """Why a list is estimated, sorted."""
    return sorted(reason.value for reason in mark.reasons)


def _mark_members(mark: Mark) -> dict[str, Any]:
    return {"complete": mark.exact, "reasons": reason_codes(mark)}


def _list_json(name: bytes, entries: Any, rest: dict[str, Any]) -> bytes:
    return b'{"%b":[%b],%b' % (name, b",".join(entries), orjson.dumps(rest)[1:])


def _pool_json(entry: Entry[Pool]) -> bytes:
    if entry.json is None:
        pool = entry.value
        content, location = pool.content, pool.content.location
        entry.json = orjson.dumps(
            {
                "cluster_id": pool.key.cluster_id,
                "namespace": pool.key.namespace,
                "dgd_name": pool.key.dgd_name,
                "model": content.model,
                "location": {
                    name: value
                    for name, value in (
                        ("region", location.region),
                        ("availability_zone", location.availability_zone),
                        ("datacenter", location.datacenter),
                    )
                    if value
                },
                "capabilities": content.capabilities,
                "capacity": [
                    {"gpu_sku": sku, "gpu_count": count} for sku, count in content.capacity
                ],
                "frontends": content.frontends,
                "relays": pool.relays,
                "registered_time": _time(pool.registered_time),
                "changed_time": _time(pool.changed_time),
            }
        )
    return entry.json


POOL_FORM = Form(lambda entry: entry.json is None, _pool_json)


def _router_json(entry: Entry[Router]) -> bytes:
    if entry.json is None:
        entry.json = orjson.dumps({"id": entry.value.id, "url": entry.value.url})
    return entry.json


def _time(seconds: float) -> str:
    """RFC 3339 in UTC, with milliseconds."""
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"


def _number(seconds: float) -> int | float:
    return int(seconds) if seconds.is_integer() else seconds
