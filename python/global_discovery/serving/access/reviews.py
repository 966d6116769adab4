"""The calls to the API servers that review tokens, bounded in every direction.

A server that fails is left alone for AWAY_SECONDS. Not more than AT_ONCE reviews
run at a time for one server, and not more than WAITING wait; what is beyond is refused
at once.
Whoever sends tokens that turn out bad is soon not asked for: per address, with a
hard bound for all addresses together, so that random tokens cannot keep an API
server busy. Tokens that were good before are reviewed again whatever others do, and
so is the next token of a pod that showed a good one: whatever else comes from its
address, a relay goes on with the token that kubelet replaced.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple, Protocol

from global_discovery.domain.clock import Clock
from global_discovery.domain.errors import (
    AuthenticationUnavailable,
    TooManyBadTokens,
)
from global_discovery.domain.events import Event, Report, ignore
from global_discovery.serving.access.identity import service_account_identity

AT_ONCE, WAITING = 8, 1_000
AWAY_SECONDS = 2.0
BAD_TOKENS, BAD_TOKEN_SECONDS = 10, 10.0
"""How many bad tokens of one address are looked at in a row, and after how long one more."""
BAD_TOKENS_IN_ALL, BAD_TOKENS_A_SECOND = 200, 20.0
ADDRESSES = 4_096
_IPV6_NETWORK = 64


class ReviewFailed(Exception):
    """The API server did not say whether a token is good; the text is for the log."""


class Reviewer(Protocol):
    """Asks one API server."""

    async def review(self, token: str) -> str | None:
        """The user that the token is good for, None when it is not. Raises ReviewFailed."""
        ...

    async def close(self) -> None:
        """Closes what is open."""
        ...


@dataclass(frozen=True, slots=True)
class TokenCluster:
    """One cluster whose service accounts are known here."""

    name: str
    """As it stands in identities."""
    issuer: str
    """The `iss` of its tokens; empty where there is one cluster only."""
    reviewer: Reviewer


class Shower(NamedTuple):
    """Who shows a token that is not known good, and pays when it is bad."""

    name: str
    """The address; or whose it says to be, where that one has shown a good one before."""
    was_good: bool
    """Whether it has; then neither its address nor the bound for all of them counts."""


class _Bucket:
    """So many at once, and one more each `seconds`. A clock's time is an argument."""

    __slots__ = ("_full_at", "_room", "_seconds")

    def __init__(self, room: int, seconds: float) -> None:
        self._room = room
        self._seconds = seconds
        self._full_at = float("-inf")
        """When all of it is free again."""

    def wait(self, now: float) -> float:
        """Seconds until one more is allowed; 0 when one is."""
        return max(0.0, self._full_at - now - (self._room - 1) * self._seconds)

    def take(self, now: float) -> None:
        after = max(self._full_at, now) + self._seconds
        self._full_at = min(after, now + self._room * self._seconds)


class _State:
    """How the reviews of one cluster are doing."""

    def __init__(self) -> None:
        self.turns = asyncio.Semaphore(AT_ONCE)
        self.waiting = 0
        self.away_until = float("-inf")
        self.failing = False


class Reviews:
    """Reviews tokens of one or several clusters."""

    def __init__(
        self, clusters: Sequence[TokenCluster], *, clock: Clock, report: Report = ignore
    ) -> None:
        """With several clusters each has an issuer of its own."""
        self._clusters = clusters
        self._by_issuer: Mapping[str, TokenCluster] = {each.issuer: each for each in clusters}
        self._clock = clock
        self._report = report
        self._states = {each.name: _State() for each in clusters}
        self._bad: OrderedDict[str, _Bucket] = OrderedDict()
        self._bad_in_all = _Bucket(BAD_TOKENS_IN_ALL, 1 / BAD_TOKENS_A_SECOND)
        self.outcomes: Counter[str] = Counter()

    @property
    def failing(self) -> int:
        """How many API servers failed when they were last asked."""
        return sum(state.failing for state in self._states.values())

    def cluster_of(self, issuer: str) -> TokenCluster | None:
        """Who issues such tokens; no other cluster is ever shown one."""
        return self._by_issuer.get(issuer) or self._by_issuer.get("")

    async def identity(self, cluster: TokenCluster, token: str, shower: Shower | None) -> str:
        """Whose token it is; empty when it is not good.

        `shower` is who shows a token that is not known good, None for one that was
        good before. Raises AuthenticationUnavailable and TooManyBadTokens.
        """
        state = self._states[cluster.name]
        self._check(state, shower)
        if state.waiting >= WAITING:
            raise AuthenticationUnavailable
        state.waiting += 1
        try:
            async with state.turns:
                self._check(state, shower)  # others may have failed meanwhile
                identity = await self._review(cluster, state, token)
        finally:
            state.waiting -= 1
        if not identity and shower is not None:
            self._count_bad(shower)
        return identity

    async def close(self) -> None:
        """Closes the connections."""
        for cluster in self._clusters:
            await cluster.reviewer.close()

    async def _review(self, cluster: TokenCluster, state: _State, token: str) -> str:
        try:
            username = await cluster.reviewer.review(token)
        except ReviewFailed as failed:
            self.outcomes["failed"] += 1
            state.away_until = self._clock.monotonic() + AWAY_SECONDS
            if not state.failing:
                state.failing = True
                self._report(Event.REVIEWS_FAILING, cluster=cluster.name, message=str(failed))
            raise AuthenticationUnavailable(retry_after=AWAY_SECONDS) from None
        if state.failing:
            state.failing = False
            self._report(Event.REVIEWS_WORK_AGAIN, cluster=cluster.name)
        identity = service_account_identity(cluster.name, username or "")
        self.outcomes["good" if identity else "bad"] += 1
        return identity

    def _check(self, state: _State, shower: Shower | None) -> None:
        now = self._clock.monotonic()
        away = state.away_until - now
        if away > 0:
            raise AuthenticationUnavailable(retry_after=away)
        if shower is not None:
            bucket = self._bad.get(_network(shower.name))
            wait = 0.0 if bucket is None else bucket.wait(now)
            if not shower.was_good:
                wait = max(wait, self._bad_in_all.wait(now))
            if wait:
                raise TooManyBadTokens(retry_after=wait)

    def _count_bad(self, shower: Shower) -> None:
        now, name = self._clock.monotonic(), _network(shower.name)
        bucket = self._bad.pop(name, None) or _Bucket(BAD_TOKENS, BAD_TOKEN_SECONDS)
        self._bad[name] = bucket
        if len(self._bad) > ADDRESSES:
            self._bad.popitem(last=False)
        bucket.take(now)
        if not shower.was_good:
            self._bad_in_all.take(now)


def _network(address: str) -> str:
    """Of an IPv6 address the network: whoever has one has all of it."""
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, IPv6Address):
        return str(int(ip) >> (128 - _IPV6_NETWORK))
    return address
