"""The interface of a registration store.

The leases themselves run in `sources.registered.registrations`, in memory, whatever the
store. A store makes them outlive the process or reach other instances. A
registration counts in this instance's view as soon as it was heard; what the
store adds is told to the caller as success or as UNAVAILABLE. A withdrawal is
stored before it counts.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol, runtime_checkable

from global_discovery.domain.completeness import Reason
from global_discovery.domain.pool import Content, PoolKey

OWN_STORE_BOUND = 1.0


class StoredShare(NamedTuple):
    """What a store keeps of one share."""

    key: PoolKey
    identity: tuple[str, str]
    lease_id: str
    granted: float
    """The lease in seconds."""
    number: int
    """Which change of the pool's content this one is."""
    content: Content
    relays: tuple[str, ...]
    registered_time: float = 0.0
    """When the pool entered the list; seconds since the epoch, for people."""
    sequence: int = 0
    """The caller's own number of the call that last changed it; 0 when it gave none."""


class SeenShare(NamedTuple):
    """A share as it was found in a store."""

    share: StoredShare
    remaining: float
    """How many seconds of its lease are left, counted from the moment this is handed over."""
    renewed: bool
    """Whether this process saw it renewed, in contrast to finding it there."""
    extensions: int = 0
    """How often its lease was extended or restored since its last renewal, before this time.

    A shared store has no restorations.
    """


class MovedLease(NamedTuple):
    """A lease that goes on without a renewal, because none could be heard."""

    lease_id: str
    deadline: float
    """On the clock of `leases_judged`."""
    extensions: int


@dataclass(frozen=True, slots=True)
class Reading:
    """What was found in a store: all that is new or renewed since the last one."""

    shares: Sequence[SeenShare] = ()
    withdrawn: Mapping[str, float] = field(default_factory=dict)
    """Withdrawn lease ids, and for how many more seconds they are remembered."""
    longest_lease: float = 0.0
    """The longest lease granted to any share that was found, handed over or not; in seconds."""


@dataclass(frozen=True, slots=True)
class StoreState:
    """What a store says of itself, now."""

    reasons: frozenset[Reason] = frozenset()
    """Why renewals may have been missed elsewhere."""
    bound: float = OWN_STORE_BOUND
    """How old a registration is at most before it is in this instance's view, in seconds."""
    failing: bool = False
    """Whether it fails to read or to write; the mark may stand all the same."""
    failures: int = 0
    """How often it began to fail since the start."""
    read_until: float = field(default=math.inf, compare=False)
    """What was written before this monotonic moment was handed over; without end where
    nobody else writes. No news by itself."""


class FigureKind(Enum):
    """How a figure moves."""

    GAUGE = "gauge"
    """Up and down."""
    COUNTER = "counter"
    """Up only, from the start on; its name does not say so."""


class Figure(NamedTuple):
    """One number that a store tells of itself, for operators."""

    name: str
    """Begins with the store's name; base units."""
    text: str
    kind: FigureKind
    values: Mapping[tuple[str, ...], float]
    """By the values of the labels, from fixed sets; under `()` where there are no labels."""
    labels: tuple[str, ...] = ()


@runtime_checkable
class TellsFigures(Protocol):
    """A store that has figures of its own."""

    def figures(self) -> Sequence[Figure]:
        """What they are now. Cheap: asked at each scrape."""
        ...


class RegistrationStore(Protocol):
    """Keeps shares and withdrawn leases. Every method may be slow; none may block the loop."""

    name: str
    """The value of --registration-storage."""
    shared: bool
    """Whether other instances read and write it too."""

    def state(self) -> StoreState:
        """How it is now. Cheap: asked at each mark."""
        ...

    def read_soon(self) -> None:
        """Leases wait for what others wrote to be read anew. Cheap; asked again and again."""
        ...

    def on_reading(self, take: Callable[[Reading], None], changed: Callable[[], None]) -> None:
        """Has `take` called with what was read later on, and `changed` when `state` may be new."""
        ...

    async def open(self) -> Reading:
        """Reads what is there. Raises OSError with a sentence for the operator."""
        ...

    async def run(self) -> None:
        """Works in the background until it is cancelled; its end by itself is a fault."""
        ...

    async def consult(self, key: PoolKey, lease_ids: Sequence[str]) -> Reading:
        """What is stored right now of a pool and of these ids; nothing for a store of one's own.

        For calls about shares which this instance may not have seen yet. Raises
        StoreUnwritable when it cannot be read.
        """
        ...

    async def put(self, share: StoredShare) -> None:
        """Keeps a new share, a new incarnation or a changed content. Raises StoreUnwritable."""
        ...

    async def renew(self, lease_ids: Sequence[str]) -> Sequence[str]:
        """Keeps that these leases were renewed now; gives those that it could not keep."""
        ...

    def leases_judged(self, now: float, moved: Sequence[MovedLease]) -> None:
        """Told when every lease whose end was due at `now` has ended, but for these.

        `now` is on the monotonic clock. A store of one's own keeps it, to know
        later which shares were alive; a shared one has no use for it. Neither
        blocks nor raises.
        """
        ...

    async def withdraw(self, lease_ids: Sequence[str], *, remember: float) -> None:
        """Keeps that these leases were withdrawn, for `remember` seconds.

        Raises StoreUnwritable, and has then kept none of it.
        """
        ...

    async def close(self) -> None:
        """Lets go of everything. Never raises."""
        ...
