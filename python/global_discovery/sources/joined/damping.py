"""Pools that lose their addresses together keep them for a moment: it may be a restart.

A controller that restarts can delete every slice of a cluster and create them
again. So, while the registrations of the pools go on, the first four pools of a
source cluster that lose their last relay or their last frontend within ten
seconds show it at once; each one from the fifth on keeps the relays and
frontends that it had, for ten seconds after its loss. One that has them back by
then never lost them. Who holds here says nothing of other clusters, nor how the
loss was seen: a relist of many is as many losses.

Not here: which pools are registered. Whoever asks knows.
"""

from collections import OrderedDict
from typing import NamedTuple

from global_discovery.domain.pool import PoolKey
from global_discovery.slices.imported import ImportedPool

WINDOW_SECONDS = 10.0
HOLD_SECONDS = 10.0
SHOWN_AT_ONCE = 4


class _Hold(NamedTuple):
    until: float
    kept: ImportedPool


class Damping:
    """The holds, and the losses of late. Times are on the monotonic clock."""

    def __init__(self) -> None:
        """Nothing is held."""
        self._holds: OrderedDict[PoolKey, _Hold] = OrderedDict()
        """In the order in which they end."""
        self._losses: OrderedDict[str, OrderedDict[PoolKey, float]] = OrderedDict()
        """The last pools of each cluster to lose something, and when: no more than matter."""

    def __len__(self) -> int:
        """How many pools are held."""
        return len(self._holds)

    def kept(self, key: PoolKey) -> ImportedPool | None:
        """What a held pool goes on to show; None for one that is not held."""
        hold = self._holds.get(key)
        return None if hold is None else hold.kept

    def lose(self, shown: ImportedPool, now: float) -> bool:
        """A registered pool, not held, has lost what it showed; whether it is held from now on."""
        key = shown.key
        losses = self._losses.setdefault(key.cluster_id, OrderedDict())
        others = sum(now - at < WINDOW_SECONDS for other, at in losses.items() if other != key)
        losses[key] = now
        losses.move_to_end(key)
        if len(losses) > SHOWN_AT_ONCE + 1:
            losses.popitem(last=False)
        self._losses.move_to_end(key.cluster_id)
        self._forget_losses(now)
        if others < SHOWN_AT_ONCE:
            return False
        self._holds[key] = _Hold(now + HOLD_SECONDS, shown)
        return True

    def release(self, key: PoolKey) -> bool:
        """Ends a hold before its time; whether there was one."""
        return self._holds.pop(key, None) is not None

    def due(self, now: float) -> bool:
        """Whether the time of any hold is over."""
        return bool(self._holds) and next(iter(self._holds.values())).until <= now

    def take_due(self, now: float, most: int) -> list[PoolKey]:
        """Ends holds whose time is over, the oldest first, no more than `most`."""
        ended: list[PoolKey] = []
        while len(ended) < most and self.due(now):
            ended.append(self._holds.popitem(last=False)[0])
        return ended

    def _forget_losses(self, now: float) -> None:
        while now - next(reversed(next(iter(self._losses.values())).values())) >= WINDOW_SECONDS:
            self._losses.popitem(last=False)


def lost(before: ImportedPool | None, after: ImportedPool | None) -> bool:
    """Whether the last relay or the last frontend went from one to the other."""
    if before is None or not before.relays:
        return False
    if after is None or not after.relays:
        return True
    return bool(before.frontends) and not after.frontends
