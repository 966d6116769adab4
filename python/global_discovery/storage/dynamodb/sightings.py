"""What this process saw of each share in the table, and when, by its own clock.

Synchronous and without input or output. A renewal is seen when lease id, counter
or writer of an item differ from what was seen before; its lease is measured from
that moment. Only what is found by the first complete read of the process was
never seen differently: there the writer's wall time decides, between nothing and
the granted lease. What appears later was not there before, so it is as good as
seen. An item that this process wrote is no news to it.

An item whose lease has a tombstone in the table is never handed over as live,
however long ago it was withdrawn; but it is as news, with nothing left of its
lease, for whoever still knows the incarnation before it.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from global_discovery.domain.clock import Clock
from global_discovery.storage.dynamodb.api import Item
from global_discovery.storage.dynamodb.items import (
    KEPT_SECONDS,
    SHARE,
    TOMBSTONE,
    Place,
    Renewal,
    Said,
    number_of,
    place_of,
    read_renewal,
    text_of,
)
from global_discovery.storage.store import SeenShare, StoredShare


class Sighting:
    """One share. Times are on the monotonic clock of this process."""

    __slots__ = (
        "content_expires",
        "covered",
        "found",
        "generation",
        "kept",
        "lock",
        "looked_at",
        "missing",
        "place",
        "renewal",
        "replaced",
        "said",
        "said_hash",
        "seen",
        "tickets",
        "unsaved",
        "wanted",
        "wrote",
    )

    def __init__(self, place: Place) -> None:
        """Not in the table as far as is known."""
        self.place = place
        self.renewal: Renewal | None = None
        """What is in the table; None when nothing is."""
        self.looked_at = float("-inf")
        """When what is known of it was asked for, or written."""
        self.generation = 0
        self.found = False
        """Whether it was last seen without seeing it change."""
        self.seen = float("-inf")
        """The moment its lease is counted from."""
        self.said: Said | None = None
        self.said_hash = ""
        """Which content item `said` is."""
        self.missing = ""
        """Which content item was asked for last, and was not there or damaged."""
        self.content_expires = 0.0
        """Until when TTL leaves that item alone; wall time."""
        self.wrote: StoredShare | None = None
        """What this process last had to write of it; None once another incarnation took over."""
        self.unsaved = False
        """Whether that was heard and could not be written yet."""
        self.wanted = float("-inf")
        """When a call last wanted it written, or when it was missed in the table."""
        self.replaced: tuple[str, ...] = ()
        """The last lease ids that this process replaced by newer ones."""
        self.lock = asyncio.Lock()
        """Held by whoever writes it in this process."""
        self.tickets = 0
        """How many renewals were asked for."""
        self.covered = 0
        """How many of those the last write answered."""
        self.kept = False
        """Whether that write was."""

    @property
    def lost(self) -> bool:
        """Whether this process wrote something newer of it than the table has now.

        Another region's write, made without knowing ours, came later and replaced
        the whole item, with an older content or an incarnation that ours replaced.
        """
        wrote, renewal = self.wrote, self.renewal
        if wrote is None or renewal is None:
            return False
        if wrote.lease_id == renewal.lease_id:
            return wrote.number > renewal.number
        return renewal.lease_id in self.replaced

    @property
    def said_known(self) -> bool:
        """Whether the content item that the renewal item names was read."""
        return self.renewal is not None and self.said_hash == self.renewal.content_hash


@dataclass(slots=True)
class Tombstone:
    """A withdrawn lease. Times are on the monotonic clock of this process."""

    place: Place
    seen: float
    remember: float
    generation: int
    written_here: bool

    def remaining(self, now: float) -> float:
        """For how many more seconds it is remembered."""
        return max(self.seen + self.remember - now, 0.0)


class Sightings:
    """All shares and tombstones of the table, as far as this process saw them."""

    def __init__(self, *, clock: Clock, writer: str) -> None:
        """`writer` is the name of this process in renewal items."""
        self._clock = clock
        self._writer = writer
        self.shares: dict[str, Sighting] = {}
        """By sort key."""
        self.tombstones: dict[str, Tombstone] = {}
        """By lease id."""
        self.by_lease: dict[str, Sighting] = {}
        self.untold: dict[str, Sighting] = {}
        """News that was not handed over yet, perhaps for want of its content; by sort key."""
        self.lost: dict[str, Sighting] = {}
        """Shares that are to be written again (see `Sighting.lost`); by sort key."""
        self.buried: dict[str, Tombstone] = {}
        """Tombstones that were not told yet; by lease id."""
        self.generation = 0
        """Counts the reads of the whole table; 0 before the first one is complete."""
        self._reading = 1

    def begin_read(self) -> int:
        """A read of the whole table begins; its number."""
        self._reading = self.generation + 1
        return self._reading

    def at(self, place: Place) -> Sighting:
        """The share there, known or not."""
        sighting = self.shares.get(place.sk)
        if sighting is None:
            sighting = self.shares[place.sk] = Sighting(place)
        return sighting

    def see(self, pk: str, item: Item, *, asked: float) -> Sighting | None:
        """Takes one item of a partition that was asked for then; the share, if it is news.

        Raises items.Unreadable.
        """
        sk = item["sk"]["S"]
        known = self.shares.get(sk)
        renewal = known.renewal if known is not None else None
        if (
            known is not None
            and renewal is not None
            and item["c"]["N"] == renewal.counter
            and item["w"]["S"] == renewal.writer
            and item["l"]["S"] == renewal.lease_id
        ):
            known.generation = self._reading
            return None
        if sk.startswith(TOMBSTONE):
            self._see_tombstone(pk, item)
            return None
        if not sk.startswith(SHARE):
            return None  # a later format keeps something else here
        return self._see_share(Place(pk, sk), read_renewal(item), asked)

    def _see_share(self, place: Place, renewal: Renewal, asked: float) -> Sighting | None:
        sighting = self.at(place)
        if asked < sighting.looked_at:
            return None  # this process wrote or read it later than that
        first_sight = sighting.renewal is None and not self.generation
        sighting.generation = self._reading
        self.now_holds(sighting, renewal, looked_at=asked)
        if sighting.lost:
            self.lost[place.sk] = sighting
        if renewal.writer == self._writer or renewal.lease_id in sighting.replaced:
            return None
        self.tell(sighting)
        if first_sight:
            age = self._clock.wall() - renewal.renewed_time
            sighting.seen -= max(age, 0.0)  # see `remaining` for the other end
            sighting.found = True
        return sighting

    def tell(self, sighting: Sighting) -> None:
        """It was renewed at this moment, and the registrations are to be told."""
        sighting.seen = self._clock.monotonic()
        sighting.found = False
        self.untold[sighting.place.sk] = sighting

    def write(self, sighting: Sighting, share: StoredShare) -> None:
        """Notes that this process has that to write of it."""
        wrote, renewal = sighting.wrote, sighting.renewal
        if wrote is not None and (renewal is None or renewal.lease_id != wrote.lease_id):
            self.by_lease.pop(wrote.lease_id, None)  # never stored, and never will be
        sighting.wrote = share
        sighting.unsaved = True
        sighting.wanted = self._clock.monotonic()
        self.by_lease[share.lease_id] = sighting

    def place_of(self, lease_id: str) -> Place | None:
        """Where the renewal item of the share with that lease is, as far as is known."""
        known = self.by_lease.get(lease_id) or self.tombstones.get(lease_id)
        return known.place if known else None

    def share_of(self, sighting: Sighting) -> StoredShare | None:
        """The share as the table has it, as far as that is known."""
        if sighting.renewal is None or not (sighting.said_known or sighting.lost):
            return None
        return self._share(sighting, sighting.renewal)

    def now_holds(self, sighting: Sighting, renewal: Renewal, *, looked_at: float) -> None:
        """The table has this, as was asked or written then."""
        old, wrote = sighting.renewal, sighting.wrote
        sighting.renewal = renewal
        if old is not None and old.lease_id != renewal.lease_id and not sighting.lost:
            self.by_lease.pop(old.lease_id, None)
            if wrote is not None and wrote.lease_id == old.lease_id:
                sighting.wrote = None  # another incarnation took over
        wrote = sighting.wrote
        theirs = renewal.writer != self._writer
        taken = theirs and renewal.lease_id not in self.tombstones
        if wrote is None or (taken and renewal.number >= wrote.number):
            sighting.unsaved = False  # the registrations take what is stored, and so do we
        self.by_lease[renewal.lease_id] = sighting
        sighting.looked_at = looked_at

    def holds_nothing(self, sighting: Sighting, *, looked_at: float) -> None:
        """The table has no such item, and perhaps no content item either."""
        sighting.renewal = None
        sighting.content_expires = 0.0
        sighting.looked_at = looked_at

    def _see_tombstone(self, pk: str, item: Item) -> None:
        lease_id = item["sk"]["S"][len(TOMBSTONE) :]
        known = self.tombstones.get(lease_id)
        if known is not None:
            known.generation = self._reading
            return
        remember = number_of(item, "k") or float(KEPT_SECONDS)
        self.bury(lease_id, Place(pk, text_of(item, "s")), remember=remember, written_here=False)
        self.buried[lease_id] = self.tombstones[lease_id]

    def bury(self, lease_id: str, place: Place, *, remember: float, written_here: bool) -> None:
        """There is a tombstone for that lease."""
        self.tombstones[lease_id] = Tombstone(
            place, self._clock.monotonic(), remember, self._reading, written_here
        )

    @staticmethod
    def said_here(sighting: Sighting, share: StoredShare, content_hash: str) -> None:
        """The share says what this process stored."""
        sighting.said = Said(share.key, share.identity, share.relays, share.content)
        sighting.said_hash, sighting.missing = content_hash, ""

    def take_content(
        self, sighting: Sighting, content_hash: str, said: Said, *, expires: float
    ) -> bool:
        """The share said this; whether that can be: not of another share than the one there."""
        if place_of(said.key, said.identity) != sighting.place:
            return False
        sighting.said, sighting.said_hash, sighting.missing = said, content_hash, ""
        sighting.content_expires = expires
        return True

    def hand_over(self, sightings: Iterable[Sighting]) -> Iterator[SeenShare]:
        """These shares as the registrations take them; those without their content later."""
        for sighting in sightings:
            renewal = sighting.renewal
            if renewal is None or renewal.lease_id in self.tombstones:
                self.untold.pop(sighting.place.sk, None)
                # What this process has to write came after what was withdrawn.
                if renewal is not None and sighting.said is not None and not sighting.unsaved:
                    yield SeenShare(self._share(sighting, renewal), 0.0, renewed=False)
            elif sighting.said_known:
                self.untold.pop(sighting.place.sk, None)
                share = self._share(sighting, renewal)
                yield SeenShare(share, self.remaining(sighting), not sighting.found)

    def _share(self, sighting: Sighting, renewal: Renewal) -> StoredShare:
        if sighting.lost and sighting.wrote is not None:
            return sighting.wrote
        said = sighting.said
        assert said is not None, "only asked for what `said_known` says is there"  # noqa: S101
        return StoredShare(
            key=said.key,
            identity=said.identity,
            lease_id=renewal.lease_id,
            granted=renewal.granted,
            number=renewal.number,
            content=said.content,
            relays=said.relays,
            registered_time=renewal.registered_time,
            sequence=renewal.sequence,
        )

    def remaining(self, sighting: Sighting) -> float:
        """How many seconds of its lease are left."""
        if sighting.renewal is None:
            return 0.0
        return max(sighting.seen + sighting.renewal.granted - self._clock.monotonic(), 0.0)

    def forget_untold(self) -> bool:
        """Forgets news of what lives no more; whether some is left whose content is missing.

        What changed since its content was asked for is the next read's.
        """
        for sk, sighting in list(self.untold.items()):
            if self.remaining(sighting) <= 0:
                del self.untold[sk]
        return any(
            sighting.renewal is not None and sighting.missing == sighting.renewal.content_hash
            for sighting in self.untold.values()
        )

    def end_read(self, number: int, *, began: float) -> None:
        """That read was complete: what it did not find is not in the table."""
        self.generation = number
        gone = [
            sighting
            for sighting in self.shares.values()
            if sighting.generation < number and sighting.looked_at < began
        ]
        for sighting in gone:
            self._forget(sighting, began)
        over = [i for i, tombstone in self.tombstones.items() if tombstone.generation < number]
        for lease_id in over:
            del self.tombstones[lease_id]

    def to_clear(self, most: int) -> list[tuple[str, Tombstone]]:
        """Tombstones that are in the table and over: first those of this process.

        The others follow half their time later, if the process that wrote them is gone.
        """
        now = self._clock.monotonic()
        over = (
            (lease_id, tombstone)
            for lease_id, tombstone in self.tombstones.items()
            if tombstone.generation == self.generation
            and now - tombstone.seen > tombstone.remember * (1.0 if tombstone.written_here else 1.5)
        )
        return list(islice(over, most))

    def _forget(self, sighting: Sighting, began: float) -> None:
        """It is not in the table. For ten leases it is known what the next renewal must write."""
        renewal, wrote = sighting.renewal, sighting.wrote or self.share_of(sighting)
        if renewal is not None:
            self.by_lease.pop(renewal.lease_id, None)
            sighting.wanted = began
        self.untold.pop(sighting.place.sk, None)
        if wrote is not None and began - sighting.wanted < 10 * wrote.granted:
            sighting.wrote = wrote
            self.holds_nothing(sighting, looked_at=began)
            self.by_lease[wrote.lease_id] = sighting
        else:
            if wrote is not None:
                self.by_lease.pop(wrote.lease_id, None)
            del self.shares[sighting.place.sk]
