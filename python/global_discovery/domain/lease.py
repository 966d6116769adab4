"""The terms of a lease, what a relay's call carries, and what it is answered with."""

from dataclasses import dataclass
from typing import NamedTuple

from global_discovery.domain.pool import PoolKey, Registration


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """What every lease of this instance grants. Whole seconds."""

    heartbeat_interval: int = 5
    lease_duration: int = 15

    @property
    def overdue_after(self) -> float:
        """A pool not renewed for longer than this has missed its heartbeat."""
        return (self.heartbeat_interval + self.lease_duration) / 2

    @property
    def withdrawn_memory(self) -> float:
        """How long a withdrawn lease id is remembered, in seconds."""
        return 10.0 * self.lease_duration


class Heartbeat(NamedTuple):
    """One RegisterPool or `POST /pools`."""

    registration: Registration
    caller: str
    """The caller's address in its canonical form, or whatever names the peer."""
    relay_id: str = ""
    lease_id: str = ""
    sequence: int = 0
    identity: str = ""
    """What was proven of the caller; empty when nothing was."""
    account: str = ""
    """Under what name the caller is counted; its address when empty."""


class Lease(NamedTuple):
    """What a heartbeat is answered with."""

    lease_id: str
    terms: LeaseTerms
    since_last: float | None = None
    """Seconds since the share was renewed before, as far as this process heard it; 0 when the
    call changed nothing, None for a share that it had not heard of."""


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """One DeregisterPool or `DELETE /pools/...`: the share is the first that is given."""

    key: PoolKey
    caller: str
    lease_ids: tuple[str, ...] = ()
    relay_id: str = ""
    relays: tuple[str, ...] = ()
    all_shares: bool = False
    identity: str = ""
    """What was proven of the caller; empty when nothing was."""


@dataclass(frozen=True, slots=True)
class Renewals:
    """What became of a batch of renewals; ids in neither list were renewed."""

    unknown: list[str]
    not_stored: list[str]
    retry_after: float
