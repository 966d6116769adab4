"""What was found in a store becomes shares.

A store of one's own is read once: each share that was alive goes on under its
id, and the first deaf phase, which is the time before this instance listened,
restores its lease when it comes due (see `listening`).

A shared store is read all the time. A share that this process has not seen
renewed runs for what its granted lease has left, and its end is no positive
knowledge; from the first renewal seen, its lease is counted from when that was
seen. What the store says of a share's incarnation counts, unless it says what
this process has replaced: such a reading is older than our own call. So a share
also ends when a later incarnation of it is found withdrawn. Of content
the highest number counts, and under the same number what the store has, for all
instances read that. A deadline never moves earlier, and an id that was
withdrawn is not live, whatever is written to it later.
"""

from collections.abc import Iterable

from global_discovery.domain.change import Departure
from global_discovery.domain.events import Event, Report
from global_discovery.sources.registered.audit import last_fields, new_fields, relay_name
from global_discovery.sources.registered.listening import Listening
from global_discovery.sources.registered.share_table import ShareTable
from global_discovery.sources.registered.shares import Share
from global_discovery.sources.registered.withdrawn_ids import WithdrawnIds
from global_discovery.storage.store import SeenShare

ELSEWHERE = "another instance"


class FoundShares:
    """Brings readings into the table. Times are on the monotonic clock."""

    def __init__(
        self, table: ShareTable, listening: Listening, withdrawn: WithdrawnIds, report: Report
    ) -> None:
        """Writes to all three."""
        self._table = table
        self._listening = listening
        self._withdrawn = withdrawn
        self._report = report

    def restore(self, shares: Iterable[SeenShare], now: float) -> int:
        """Shares of a store of one's own, read at `now`; how many are live again."""
        restored = 0
        for seen in shares:
            if seen.remaining <= 0 or seen.share.lease_id in self._withdrawn:
                continue
            share = self._share(seen, phase=0)
            share.counted_from = float("-inf")
            share.deadline = now + seen.remaining
            share.extensions = seen.extensions
            share.confirmed = True
            self._add(share, seen, now)
            restored += 1
        return restored

    def see(self, shares: Iterable[SeenShare], now: float) -> None:
        """Shares of a shared store, read at `now`."""
        for seen in shares:
            stored = seen.share
            pool = self._table.pools.get(stored.key)
            share = pool.shares.get(stored.identity) if pool else None
            if stored.lease_id in self._withdrawn:
                # A later incarnation of it came and went between two readings.
                if share is not None and stored.lease_id not in share.replaced:
                    self._end(share)
            elif share is not None:
                self._see_again(share, seen, now)
            elif seen.remaining > 0:
                self._see_first(seen, now)

    def withdraw(self, withdrawn: Iterable[tuple[str, float]], now: float) -> None:
        """Ids that were withdrawn elsewhere or earlier, and how much longer to remember them."""
        for lease_id, seconds in withdrawn:
            self._withdrawn.add(lease_id, now + seconds)
            share = self._table.by_lease.get(lease_id)
            if share is not None:
                self._end(share)

    def _end(self, share: Share) -> None:
        if self._table.end(share, Departure.REMOVED, withdrawn_by=ELSEWHERE):
            self._report(
                Event.POOL_WITHDRAWN,
                pool=str(share.key),
                caller=ELSEWHERE,
                relay=relay_name(share.identity),
                **last_fields(share),
            )

    def _see_first(self, seen: SeenShare, now: float) -> None:
        share = self._share(seen, phase=self._listening.next_phase)
        share.counted_from = now
        share.deadline = now + seen.remaining
        share.confirmed = seen.renewed
        entered = seen.share.key not in self._table.pools
        self._add(share, seen, now)
        if seen.renewed and entered:
            self._report(
                Event.POOL_REGISTERED,
                pool=str(share.key),
                caller=ELSEWHERE,
                relay=relay_name(share.identity),
                **new_fields((share.content, share.relays)),
            )

    def _see_again(self, share: Share, seen: SeenShare, now: float) -> None:
        stored = seen.share
        if stored.lease_id in share.replaced:
            return
        other = stored.lease_id != share.lease_id
        if other:
            self._table.rename(share, stored.lease_id)
            share.sequence = 0
        share.sequence = max(share.sequence, stored.sequence)
        if other or seen.renewed:
            share.granted = stored.granted
            self._listening.found(stored.granted)
        same_number = seen.renewed and stored.number == share.number
        if other or stored.number > share.number or same_number:
            self._table.adopt(share, stored.content, stored.relays, stored.number, caller=ELSEWHERE)
        if seen.renewed:
            self._table.renewed_elsewhere(share, now, now + seen.remaining)
        else:
            share.deadline = max(share.deadline, now + seen.remaining)

    def _add(self, share: Share, seen: SeenShare, now: float) -> None:
        stored = seen.share
        share.lease_id = stored.lease_id
        share.granted = stored.granted
        share.sequence = stored.sequence
        self._listening.found(stored.granted)
        self._table.add(
            share, number=stored.number, registered_time=stored.registered_time, now=now
        )
        self._table.seen(share, now)

    @staticmethod
    def _share(seen: SeenShare, *, phase: int) -> Share:
        stored = seen.share
        return Share(stored.key, stored.identity, stored.content, stored.relays, phase=phase)
