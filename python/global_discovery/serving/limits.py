"""The limits in force: what is allowed, how much of it is used, and what was refused.

What is counted for one caller is counted for its identity, where it has proven one,
else for its address; an IPv6 caller has a whole /64, and so has its count. No name of
a caller becomes a label, and what is kept of callers is bounded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network

from global_discovery.domain.clock import Clock
from global_discovery.domain.errors import DiscoveryError, Unauthenticated
from global_discovery.domain.events import Event, Report
from global_discovery.domain.limits import Limit, LimitReached
from global_discovery.domain.rate import Rates
from global_discovery.serving.caller import Caller
from global_discovery.serving.turns import LARGE_BYTES
from global_discovery.sources.registered.admission import RegistrationLimits
from global_discovery.view.seats import Seats

TOLD_AGAIN_SECONDS = 60.0
_SITE_BITS = 64


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """What is allowed. docs/limits.md gives the reasons of the defaults."""

    registrations: RegistrationLimits = field(default_factory=RegistrationLimits)
    watchers: int = 10_000
    watchers_per_caller: int = 2_500
    bytes_per_second: int = 16 * 1024 * 1024
    failed_authentications_per_second: int = 10
    body_bytes: int = 1024 * 1024
    header_bytes: int = 8 * 1024
    streams_per_connection: int = 1_000
    grpc_connections: int = 10_000
    http_connections: int = 16_384
    http_connections_per_caller: int = 8_192
    http_idle_seconds: int = 75


@lru_cache(maxsize=4096)
def counted(caller: Caller) -> str:
    """Under what name a caller is counted."""
    if caller.identity or ":" not in caller.address:
        return caller.account
    try:
        site = IPv6Network((IPv6Address(caller.address), _SITE_BITS), strict=False)
    except ValueError:
        return caller.address
    return str(site)


class LimitsInForce:
    """The limits of one instance, but for those that the registrations keep themselves."""

    def __init__(self, limits: ServiceLimits, clock: Clock, report: Report) -> None:
        """Nothing is used."""
        self.allowed = limits
        self.seats = Seats(limits.watchers, limits.watchers_per_caller)
        self._bytes = Rates(limits.bytes_per_second, clock.monotonic)
        self._failures = Rates(limits.failed_authentications_per_second, clock.monotonic)
        self._now = clock.monotonic
        self._report = report
        self._refusals = dict.fromkeys(Limit, 0)
        self._told: dict[Limit, tuple[float, int]] = {}

    def take_bytes(self, account: str, size: int) -> None:
        """A request of so many bytes came. Raises LimitReached for a large one only.

        Any other may be a renewal, which is never refused for a rate.
        """
        wait = self._bytes.take(account, size)
        if wait > 0.0 and size > LARGE_BYTES:
            raise LimitReached(Limit.BYTES, retry_after=1.0 + wait)

    def judged(self, error: DiscoveryError, account: str) -> DiscoveryError:
        """What a refused call is answered with; counts it where that is for a limit.

        Who failed too often to prove who it is, is told to come later. Nobody else
        is: others of its address that do prove it are taken as ever.
        """
        if isinstance(error, Unauthenticated):
            wait = self._failures.take(account)
            if wait > 0.0:
                error = LimitReached(Limit.FAILED_AUTHENTICATIONS, retry_after=1.0 + wait)
        if isinstance(error, LimitReached):
            self._refused(error.limit, account)
        return error

    @property
    def refusals(self) -> Mapping[Limit, int]:
        """How often each limit refused something."""
        return self._refusals

    def _refused(self, limit: Limit, account: str) -> None:
        """Counts a refusal; tells it, once a minute for each limit."""
        self._refusals[limit] += 1
        now = self._now()
        told_at, before = self._told.get(limit, (float("-inf"), 0))
        if now - told_at >= TOLD_AGAIN_SECONDS:
            refused = self._refusals[limit]
            self._told[limit] = (now, refused)
            self._report(
                Event.LIMIT_REACHED, limit=limit.value, caller=account, refused=refused - before
            )
