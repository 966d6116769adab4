"""Which pools a caller wants, and the fingerprint that ties a position to it."""

import hashlib
import secrets
from dataclasses import dataclass
from functools import cached_property

from global_discovery.domain.access import EVERY_KEY, Scope
from global_discovery.domain.errors import InvalidInput, Violation
from global_discovery.domain.pool import Pool, PoolKey

MAX_VALUES = 256
_SECRET = secrets.token_bytes(32)
"""Of this process. Lists are kept by fingerprint: whoever could compute them could look for a
filter of the same one as somebody else's, and be given what that one may read."""


@dataclass(frozen=True)
class PoolFilter:
    """Values within one field are alternatives, fields combine with *and*, empty matches all."""

    models: frozenset[str] = frozenset()
    regions: frozenset[str] = frozenset()
    cluster_ids: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    scope: Scope = EVERY_KEY
    """What the reader may know of; no key outside it is ever named to it."""

    def __post_init__(self) -> None:
        """Raises InvalidInput for a field with too many values."""
        bad = [
            Violation(f"filter.{name}", f"must have at most {MAX_VALUES} different values")
            for name in ("models", "regions", "cluster_ids", "namespaces")
            if len(getattr(self, name)) > MAX_VALUES
        ]
        if bad:
            raise InvalidInput(bad)

    @cached_property
    def matches_all(self) -> bool:
        """Whether nothing is filtered."""
        filtered = self.models or self.regions or self.cluster_ids or self.namespaces
        return not filtered and self.scope.unlimited

    def matches(self, pool: Pool) -> bool:
        """Exact comparison, field by field."""
        key, content = pool.key, pool.content
        return (
            (not self.models or content.model in self.models)
            and (not self.regions or content.location.region in self.regions)
            and (not self.cluster_ids or key.cluster_id in self.cluster_ids)
            and (not self.namespaces or key.namespace in self.namespaces)
            and self.scope.holds(key)
        )

    def may_name(self, key: PoolKey) -> bool:
        """Whether the reader may be told of this key, if only that it left."""
        return self.scope.holds(key)

    @cached_property
    def fingerprint(self) -> bytes:
        """Eight bytes that are equal exactly for equal sets of values and equal scopes.

        They are others in every process.
        """
        digest = hashlib.blake2b(key=_SECRET, digest_size=8)
        for values in (self.models, self.regions, self.cluster_ids, self.namespaces):
            for value in sorted(values):
                data = value.encode()
                digest.update(len(data).to_bytes(4, "big") + data)
            digest.update(b"\xff\xff\xff\xff")
        if not self.scope.unlimited:
            digest.update(self.scope.fingerprint)
        return digest.digest()


class NoFilter:
    """For lists that have no filters."""

    matches_all = True
    fingerprint = b"\0" * 8

    def matches(self, value: object) -> bool:
        """Everything matches."""
        del value
        return True

    def may_name(self, key: object) -> bool:
        """Every key may be named."""
        del key
        return True


EVERYTHING = PoolFilter()
