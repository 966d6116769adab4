"""Objects with versions, as etcd keeps them for an API server."""

import copy
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Object = Mapping[str, Any]
Matches = Callable[[Object], bool]


class Collection(NamedTuple):
    """Where the objects of one kind are."""

    group: str
    version: str
    plural: str

    @classmethod
    def of(cls, item: Object) -> "Collection":
        """Where this object belongs."""
        group, _, version = str(item["apiVersion"]).partition("/")
        kind = str(item["kind"]).lower()
        return cls(group, version, f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s")

    @property
    def list_kind(self) -> str:
        return f"{self.plural.capitalize()}List"


SLICES = Collection("discovery.k8s.io", "v1", "endpointslices")
Names = tuple[str, str]


@dataclass(frozen=True)
class Change:
    """One write. `after` None is a deletion."""

    version: int
    collection: Collection
    before: Object | None
    after: Object | None

    def seen_by(self, matches: Matches) -> tuple[str, Object] | None:
        """The event that a watch with this filter gets of it."""
        was = self.before is not None and matches(self.before)
        here = self.after is not None and matches(self.after)
        if here and self.after is not None:
            return ("MODIFIED" if was else "ADDED"), self.after
        if was and self.before is not None:
            gone = copy.deepcopy(dict(self.before))
            gone["metadata"]["resourceVersion"] = str(self.version)
            return "DELETED", gone
        return None


class Store:
    """All collections, with one version for all of them."""

    def __init__(self) -> None:
        self.version = 100
        self.oldest = 100
        """Nothing from before this version can be told any more."""
        self.collections: dict[Collection, dict[Names, Object]] = {SLICES: {}}
        self.history: list[Change] = []
        self._uids = itertools.count(1)

    def put(self, item: Object) -> Change:
        made = copy.deepcopy(dict(item))
        made.setdefault("apiVersion", "discovery.k8s.io/v1")
        made.setdefault("kind", "EndpointSlice")
        collection = Collection.of(made)
        objects = self.collections.setdefault(collection, {})
        meta = made["metadata"] = dict(made["metadata"])
        names = (meta.get("namespace") or "", meta["name"])
        before = objects.get(names)
        self.version += 1
        meta["resourceVersion"] = str(self.version)
        meta["uid"] = before["metadata"]["uid"] if before else f"uid-{next(self._uids)}"
        objects[names] = made
        return self._changed(collection, before, made)

    def delete(self, collection: Collection, names: Names) -> Change:
        before = self.collections[collection].pop(names)
        self.version += 1
        return self._changed(collection, before, None)

    def compact(self) -> None:
        self.oldest = self.version
        self.history.clear()

    def snapshot(self) -> "Store":
        return copy.deepcopy(self)

    def listed(self, collection: Collection, matches: Matches) -> list[Object]:
        objects = self.collections[collection]
        return [objects[names] for names in sorted(objects) if matches(objects[names])]

    def since(self, version: int, collection: Collection) -> list[Change]:
        return [
            change
            for change in self.history
            if change.version > version and change.collection == collection
        ]

    def _changed(
        self, collection: Collection, before: Object | None, after: Object | None
    ) -> Change:
        change = Change(self.version, collection, before, after)
        self.history.append(change)
        return change


def line(change: str, item: Object) -> bytes:
    return json.dumps({"type": change, "object": item}).encode() + b"\n"
