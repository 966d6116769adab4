"""The last shares that ended: for whoever asks why a pool is no longer there.

A memory for people and of bounded size, in the process alone: the last pools to
lose a share, of each the last shares. A share that begins again is forgotten.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from global_discovery.domain.change import Departure
from global_discovery.domain.explanation import Ending
from global_discovery.domain.pool import PoolKey
from global_discovery.sources.registered.shares import Identity, Share

MAX_POOLS = 4_096
MAX_A_POOL = 8


class Ended(NamedTuple):
    """One of them. `at` is on the monotonic clock."""

    identity: Identity
    relays: tuple[str, ...]
    ending: Ending
    departure: Departure
    at: float
    caller: str
    """Who withdrew it; empty for one that lapsed."""


class EndedShares:
    """Costs a look-up for each share that begins or ends, and nothing for a renewal."""

    def __init__(self) -> None:
        """None yet."""
        self._pools: OrderedDict[PoolKey, dict[Identity, Ended]] = OrderedDict()

    def of(self, key: PoolKey) -> Iterable[Ended]:
        """Those of one pool, the newest first."""
        return reversed((self._pools.get(key) or {}).values())

    def put(self, share: Share, departure: Departure, at: float, withdrawn_by: str | None) -> None:
        """A share ended; `withdrawn_by` is None when its lease did."""
        pool = self._pools.setdefault(share.key, {})
        pool.pop(share.identity, None)
        ending = Ending.LAPSED if withdrawn_by is None else Ending.WITHDRAWN
        pool[share.identity] = Ended(
            share.identity, share.relays, ending, departure, at, withdrawn_by or ""
        )
        if len(pool) > MAX_A_POOL:
            del pool[next(iter(pool))]
        self._pools.move_to_end(share.key)
        if len(self._pools) > MAX_POOLS:
            self._pools.popitem(last=False)

    def began(self, share: Share) -> None:
        """It is live again."""
        pool = self._pools.get(share.key)
        if pool is not None:
            pool.pop(share.identity, None)
            if not pool:
                del self._pools[share.key]
