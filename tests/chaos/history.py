"""What was done to a system and what it told, with the times of one clock.

All times are CLOCK_MONOTONIC of this machine, which every process of it shares. A call
and a list have two: before they were sent, and after their answer was read, so that
what they did or show lies between. A *slot* is the place of one server: processes come
and go in it.
"""

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from global_discovery.serving.access.policy_file import LOOK_SECONDS

TORN = -1
"""The version of a pool whose fields are of several versions."""

POLICY_SECONDS = 2 * LOOK_SECONDS + 1.0
"""Within this a server judges by another policy, unless it runs late."""
REFUSALS = {"PERMISSION_DENIED", "UNAUTHENTICATED"}
"""What a call is answered with that did nothing and will do nothing."""


def now() -> float:
    """The clock of a history."""
    return time.monotonic()


class Call(NamedTuple):
    """One RegisterPool of one relay."""

    pool: str
    relay: str
    slot: str
    version: int
    lease_id: str
    """The id that was sent; empty for a first call."""
    sent: float
    ended: float
    granted: str
    """The id that was answered; empty when there was no good answer."""
    error: str = ""
    """The code of what was answered instead; empty when the call was given up."""


class Withdrawal(NamedTuple):
    """One DeregisterPool of one relay."""

    pool: str
    relay: str
    slot: str
    lease_id: str
    sent: float
    ended: float
    done: bool
    """Whether it was answered with success."""


class Listing(NamedTuple):
    """One whole list of a server, asked over a link that nothing is done to."""

    slot: str
    face: str
    sent: float
    answered: float
    exact: bool
    bound: float
    pools: Mapping[str, int]
    """The version of each pool that is listed."""


class Told(NamedTuple):
    """Where a stream is after a message that closes something, over such a link."""

    slot: str
    at: float
    exact: bool
    bound: float
    pools: Mapping[str, int]
    removed: tuple[str, ...]


class Offer(NamedTuple):
    """What a router would use at a moment."""

    router: str
    at: float
    exact: bool
    pools: frozenset[str]


@dataclass
class Window:
    """A fault and whom it was done to; `ended` is infinite while it lasts."""

    fault: str
    targets: frozenset[str]
    began: float
    ended: float = float("inf")

    def touches(self, target: str, since: float, until: float) -> bool:
        """Whether it was done to that target at any moment of a time."""
        return target in self.targets and self.began <= until and self.ended >= since


@dataclass
class Deaf:
    """A time in which a slot could not hear: it was stopped, suspended or stood still.

    What is certain lies within what is possible: the process was surely gone from
    `gone_by` to `back_from`, and surely heard before `heard_until` and from `back_by` on.
    """

    slot: str
    heard_until: float
    gone_by: float
    back_from: float = float("inf")
    back_by: float = float("inf")
    certain: bool = True
    """Whether it was long enough for leases to be extended, beyond doubt."""
    told: bool = False
    """Whether the server itself said so; also of a time in which we had suspended it."""
    restart: bool = False
    """Whether its process ended, and another one came."""


@dataclass
class Terms:
    """What the servers were told."""

    lease: float
    interval: float
    shared: bool
    """Whether the servers share a store."""
    file: bool = False
    """Whether a server finds in a file what the one before it had."""


@dataclass
class History:
    """Everything, in the order in which it was noted."""

    terms: Terms
    calls: list[Call] = field(default_factory=list)
    withdrawals: list[Withdrawal] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    deaf: list[Deaf] = field(default_factory=list)
    lags: list[tuple[float, float]] = field(default_factory=list)
    """When this program ran late, and by how much."""
    server_lags: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """The same of each slot's server, in the order of time."""
    intrusions: int = 0
    """How often the intruder was answered."""
    broken: list[str] = field(default_factory=list)
    """Promises whose breach was seen when it happened, as sentences."""

    def lag(self, since: float, until: float, *slots: str) -> float:
        """By how much this program or these slots' servers ran late, at most, around a time."""
        lists = (self.lags, *(self.server_lags.get(slot, []) for slot in slots))
        return max(_worst(lags, since - 1.0, until + 1.0) for lags in lists)

    def suspended(self, slot: str, since: float, until: float) -> float:
        """For how long of a time the slot was suspended, beyond doubt; in seconds."""
        return sum(
            max(0.0, min(deaf.back_from, until) - max(deaf.gone_by, since))
            for deaf in self.deaf
            if deaf.slot == slot and not deaf.told and not deaf.restart
        )

    def done_to(self, target: str, since: float, until: float) -> Iterator[Window]:
        """The faults of a target in a time."""
        return (window for window in self.windows if window.touches(target, since, until))


def _worst(lags: list[tuple[float, float]], since: float, until: float) -> float:
    """Of what was noted in a time."""
    worst = 0.0
    for at, lag in lags[bisect_left(lags, (since, 0.0)) :]:
        if at > until:
            break
        worst = max(worst, lag)
    return worst
