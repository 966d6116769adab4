"""The imported EndpointSlices of one watch, for all that read them.

The sink of a list and watch. It keeps the slices by namespace and name, knows
of each which exported Service it belongs to, and tells its readers which
Services changed; they look at all stored slices of such a Service again, so
that a slice that moves, is split or comes back needs no rule of its own.

What arrives is only put aside, and looked at in turns of bounded work with the
loop let go in between: five thousand slices at once hold nobody up. Readers
publish when everything that had arrived when the first turn began is looked at,
never a half of it, and only then is the set said to be complete; what arrives
meanwhile, however much, waits for the next series of turns. Single events are first
gathered for a moment: the slices of a pool's two Services are written one after the
other.
"""

from collections import Counter
from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence
from typing import NamedTuple, Protocol

from global_discovery.domain.completeness import Mark, Reason
from global_discovery.domain.events import Event, Report, ignore
from global_discovery.slices.model import EndpointSlice
from global_discovery.slices.recognise import Discovery, Refusal, Service, recognise

SLICES_BOUND = 90.0
"""Seconds: a watch can have fallen silent for so long before that is noticed."""
ENDPOINTS_A_TURN = 1_000
REFUSALS_TOLD_ONE_BY_ONE = 20
SliceKey = tuple[str, str]


class SliceReader(Protocol):
    """Something that follows the slices of some Services."""

    def service_changed(self, service: Service) -> None:
        """A slice of it came, changed or went; its slices are to be read when there is time."""
        ...

    def work(self, endpoints: int) -> int:
        """Reads slices that changed, about so many endpoints of them.

        Returns how many are left of that number; 0 or less when there may be
        more to do.
        """
        ...

    def settled(self) -> None:
        """Everything was looked at: time to publish."""
        ...

    def mark_changed(self) -> None:
        """The mark changed, and nothing else."""
        ...


class _Stored(NamedTuple):
    endpoint_slice: EndpointSlice
    found: Service | Refusal


class ImportedSlices:
    """Keeps slices and what is known of the watch that brings them."""

    def __init__(
        self,
        discovery: Discovery,
        *,
        call_soon: Callable[[Callable[[], None]], object],
        gather: Callable[[Callable[[], None]], object] | None = None,
        report: Report = ignore,
        endpoints_a_turn: int = ENDPOINTS_A_TURN,
    ) -> None:
        """`call_soon` has something called on a later turn of the loop, as asyncio's does.

        `gather` does so after a moment in which further events may come; without it
        no event is waited for.
        """
        self._endpoints_a_turn = endpoints_a_turn
        self._discovery = discovery
        self._call_soon = call_soon
        self._gather = gather or call_soon
        self._report = report
        self._clusters: frozenset[str] | None = None
        self._readers: list[SliceReader] = []
        self._stored: dict[SliceKey, _Stored] = {}
        self._services: dict[Service, dict[SliceKey, EndpointSlice]] = {}
        self._refused: Counter[Refusal] = Counter()
        self._refused_keys: dict[SliceKey, None] = {}
        self._arrived: dict[SliceKey, EndpointSlice | None] = {}
        """The newest of each slice since the series of turns began; None: it is gone."""
        self._taking: dict[SliceKey, EndpointSlice | None] = {}
        """What had arrived before, and is not looked at yet."""
        self._under_way = False
        self._taking_in_sync = False
        """Whether the series has everything that arrived before the set was in sync."""
        self._newly_refused: list[tuple[SliceKey, Refusal]] = []
        self._scheduled = False
        self._told_in_sync = False
        self._in_sync = False
        self.synced = False
        """Whether a complete list was once looked at."""

    def __len__(self) -> int:
        """How many slices there are, refused ones too."""
        return len(self._stored)

    @property
    def refused(self) -> Mapping[Refusal, int]:
        """How many slices there are of each kind that is not read."""
        return {refusal: self._refused[refusal] for refusal in Refusal}

    @property
    def mark(self) -> Mark:
        """Of the slices alone: exact while what is stored follows the server."""
        reasons = frozenset() if self._in_sync else frozenset({Reason.SOURCE_UNSYNCED})
        return Mark(reasons, bound=0.0, slices_bound=SLICES_BOUND)

    def add_reader(self, reader: SliceReader) -> None:
        """To be called before the first slice comes."""
        self._readers.append(reader)

    def of(self, service: Service) -> list[EndpointSlice]:
        """All slices of a Service."""
        return [*self._services.get(service, {}).values()]

    def services(self) -> KeysView[Service]:
        """Every Service that has a slice."""
        return self._services.keys()

    def refused_slices(self) -> Iterator[tuple[EndpointSlice, Refusal]]:
        """Every slice that is not read, and why."""
        for key in self._refused_keys:
            stored = self._stored[key]
            if isinstance(stored.found, Refusal):
                yield stored.endpoint_slice, stored.found

    def know_clusters(self, clusters: frozenset[str] | None) -> None:
        """The names of Karmada's members, as they are now; None: they are not known."""
        if clusters == self._clusters:
            return
        self._clusters = clusters
        for key, stored in self._stored.items():
            self._arrived.setdefault(key, self._taking.get(key, stored.endpoint_slice))
        self._schedule()

    # -- the sink of a list and watch ----------------------------------------

    def replaced(self, items: Sequence[EndpointSlice]) -> None:
        """The whole set as of one moment."""
        self._arrived = dict.fromkeys([*self._stored, *self._taking])
        self._arrived.update((item.key, item) for item in items)
        self._schedule()

    def put(self, item: EndpointSlice) -> None:
        """A slice came or changed, whatever was known of it."""
        self._arrived[item.key] = item
        self._schedule_event()

    def deleted(self, namespace: str, name: str) -> None:
        """A slice is gone, or no longer selected."""
        self._arrived[namespace, name] = None
        self._schedule_event()

    def in_sync(self) -> None:
        """What was stored follows the server, once everything that arrived is looked at."""
        if not self._told_in_sync:
            self._told_in_sync = True
            self._schedule()

    def out_of_sync(self) -> None:
        """What is stored stays, and counts as old from now on."""
        self._told_in_sync = self._taking_in_sync = False
        if self._in_sync:
            self._in_sync = False
            for reader in self._readers:
                reader.mark_changed()

    # -- turns ---------------------------------------------------------------

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._turn)

    def _schedule_event(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._gather(self._turn)

    def _turn(self) -> None:
        """Looks at some of what there is to look at."""
        self._scheduled = False
        if not self._under_way:
            self._under_way = True
            self._taking, self._arrived = self._arrived, {}
            self._taking_in_sync = self._told_in_sync
        left = self._take_arrived(self._endpoints_a_turn)
        for reader in self._readers:
            if left > 0:
                left = reader.work(left)
        if left <= 0:
            self._schedule()
            return
        self._settle()

    def _settle(self) -> None:
        """The series is over: all that it looked at is published together."""
        self._under_way = False
        self._tell_refusals()
        if self._taking_in_sync and self._told_in_sync:
            self._in_sync = self.synced = True
        for reader in self._readers:
            reader.settled()
        if self._arrived or self._told_in_sync != self._in_sync:
            self._schedule()

    def _take_arrived(self, left: int) -> int:
        while self._taking and left > 0:
            key = next(iter(self._taking))
            item = self._taking.pop(key)
            left -= 1 if item is None else item.weight
            self._store(key, item)
        return left

    def _store(self, key: SliceKey, item: EndpointSlice | None) -> None:
        before = self._stored.get(key)
        if item is None:
            self._forget(key, before)
            return
        found = recognise(self._discovery, item, self._clusters)
        if before == (item, found):
            return
        self._forget(key, before)
        self._stored[key] = _Stored(item, found)
        if isinstance(found, Refusal):
            self._refused[found] += 1
            self._refused_keys[key] = None
            if before is None or before.found is not found:
                self._newly_refused.append((key, found))
        else:
            self._services.setdefault(found, {})[key] = item
            self._changed(found)

    def _forget(self, key: SliceKey, before: _Stored | None) -> None:
        if before is None:
            return
        del self._stored[key]
        if isinstance(before.found, Refusal):
            self._refused[before.found] -= 1
            del self._refused_keys[key]
            return
        slices = self._services[before.found]
        del slices[key]
        if not slices:
            del self._services[before.found]
        self._changed(before.found)

    def _changed(self, service: Service) -> None:
        for reader in self._readers:
            reader.service_changed(service)

    def _tell_refusals(self) -> None:
        """Each slice and reason once; very many at once are told together."""
        told = self._newly_refused[:REFUSALS_TOLD_ONE_BY_ONE]
        for key, refusal in told:
            self._report(Event.SLICE_REFUSED, slice="/".join(key), reason=refusal.value)
        rest = Counter(refusal.value for _, refusal in self._newly_refused[len(told) :])
        if rest:
            self._report(Event.SLICES_REFUSED, slices=rest.total(), reasons=dict(rest))
        self._newly_refused.clear()
