"""Which service account a token stands for, asked of an API server as seldom as is safe.

What was said of a token is kept under a keyed hash of it, never the token itself:
good for FRESH_SECONDS, and asked again in the background from AGAIN_SECONDS on, so
that a relay with a heartbeat never waits for a review; not good for REFUSED_SECONDS,
and for EXPIRED_SECONDS when by our clock it has expired too.
The next token of a pod whose earlier one was good is reviewed whatever others show.
While the API server does not answer, a token known good stays good for KEPT_SECONDS
after its last review. Nothing is kept good beyond its own end.

Whether a token has expired says the API server: our wall clock may have been stepped,
and would refuse every relay. How long one is still good is counted from its review.

Callers with the same token wait for the same review, and none of them can cancel it
for the others.
"""

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from global_discovery.domain.clock import Clock
from global_discovery.domain.errors import AuthenticationUnavailable
from global_discovery.serving.access.bearer import BadToken, Claims, bearer_token, claims_of
from global_discovery.serving.access.reviews import Reviews, Shower, TokenCluster

AGAIN_SECONDS, FRESH_SECONDS, KEPT_SECONDS = 60.0, 120.0, 600.0
REFUSED_SECONDS, EXPIRED_SECONDS = 10.0, 300.0
MAX_GOOD, MAX_REFUSED = 50_000, 10_000


class _Good(NamedTuple):
    identity: str
    reviewed: float
    ends: float
    """Both on the monotonic clock."""


class Tokens:
    """The tokens of one audience. Belongs to an event loop; close it."""

    def __init__(self, reviews: Reviews, *, audience: str, clock: Clock) -> None:
        """Owns `reviews`."""
        self.reviews = reviews
        self._audience = audience
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._good: OrderedDict[bytes, _Good] = OrderedDict()
        self._refused: OrderedDict[bytes, float] = OrderedDict()
        """Until when."""
        self._holders: OrderedDict[bytes, None] = OrderedDict()
        """Of good tokens, hashed; shown last comes last."""
        self._asking: dict[bytes, asyncio.Task[str]] = {}

    @property
    def known(self) -> int:
        """How many tokens are known good."""
        return len(self._good)

    async def identity(self, authorization: Sequence[str | bytes], address: str) -> str:
        """Whom the header's token stands for.

        Raises BadToken, and AuthenticationUnavailable and TooManyBadTokens when that
        cannot be said now.
        """
        token = bearer_token(authorization)
        digest = self._digest(token)
        known = self._known(digest)
        age = float("inf") if known is None else self._clock.monotonic() - known.reviewed
        if known is not None and age < AGAIN_SECONDS:
            return known.identity
        claims = claims_of(token, audience=self._audience)
        cluster = self.reviews.cluster_of(claims.issuer)
        if cluster is None:
            raise BadToken("issuer")
        if known is None:
            self._check_refused(digest, claims)
            asking = self._ask(digest, token, cluster, claims, self._shower(claims, address))
            return self._proven(await asyncio.shield(asking), claims)
        asking = self._ask(digest, token, cluster, claims, None)
        if age < FRESH_SECONDS:
            return known.identity
        try:
            identity = await asyncio.shield(asking)
        except AuthenticationUnavailable:
            return known.identity
        return self._proven(identity, claims)

    async def close(self) -> None:
        """Ends the reviews that run."""
        for task in [*self._asking.values()]:
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        await self.reviews.close()

    def _digest(self, text: str) -> bytes:
        return hashlib.blake2b(text.encode(), key=self._secret, digest_size=32).digest()

    def _shower(self, claims: Claims, address: str) -> Shower:
        """Who answers for a token that is not known good."""
        holder = self._digest(claims.holder)
        if holder in self._holders:
            return Shower(holder.hex(), was_good=True)
        return Shower(address, was_good=False)

    def _check_refused(self, digest: bytes, claims: Claims) -> None:
        until = self._refused.get(digest)
        if until is not None and self._clock.monotonic() < until:
            self._proven("", claims)

    def _proven(self, identity: str, claims: Claims) -> str:
        if not identity:
            raise BadToken("refused" if self._left(claims) > 0 else "expired")
        return identity

    def _left(self, claims: Claims) -> float:
        """Seconds until it ends, as our clock has it; never believed against a review."""
        return claims.expires - self._clock.wall()

    def _known(self, digest: bytes) -> _Good | None:
        known = self._good.get(digest)
        if known is None:
            return None
        if self._clock.monotonic() >= min(known.reviewed + KEPT_SECONDS, known.ends):
            del self._good[digest]
            return None
        return known

    def _ask(
        self,
        digest: bytes,
        token: str,
        cluster: TokenCluster,
        claims: Claims,
        shower: Shower | None,
    ) -> "asyncio.Task[str]":
        """The review of a token, begun unless it runs already."""
        task = self._asking.get(digest)
        if task is None:
            task = asyncio.create_task(self._review(digest, token, cluster, claims, shower))
            self._asking[digest] = task
            task.add_done_callback(lambda done: self._asked(digest, done))
        return task

    def _asked(self, digest: bytes, task: "asyncio.Task[str]") -> None:
        del self._asking[digest]
        if not task.cancelled():
            task.exception()  # whoever waits for it is told it

    async def _review(
        self,
        digest: bytes,
        token: str,
        cluster: TokenCluster,
        claims: Claims,
        shower: Shower | None,
    ) -> str:
        identity = await self.reviews.identity(cluster, token, shower)
        now, left = self._clock.monotonic(), self._left(claims)
        self._good.pop(digest, None)
        if identity:
            # One that is good and over by our clock: that one is wrong.
            self._good[digest] = _Good(identity, now, now + (left if left > 0 else FRESH_SECONDS))
            if len(self._good) > MAX_GOOD:
                self._good.popitem(last=False)
            self._remember(self._digest(claims.holder))
        else:
            self._refused.pop(digest, None)
            self._refused[digest] = now + (REFUSED_SECONDS if left > 0 else EXPIRED_SECONDS)
            if len(self._refused) > MAX_REFUSED:
                self._refused.popitem(last=False)
        return identity

    def _remember(self, holder: bytes) -> None:
        self._holders[holder] = None
        self._holders.move_to_end(holder)
        if len(self._holders) > MAX_GOOD:
            self._holders.popitem(last=False)
