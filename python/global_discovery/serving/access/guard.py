"""The one place where both faces ask who calls, and whether that may be done.

`visit` says who calls; what it gives is asked before each thing that the call does.
A decision looks at the key and at the caller's rights, never at what there is: the
answer for a pool that exists and for one that does not is the same, and costs the
same. Without an identity the refusal is Unauthenticated, with one PermissionDenied.

A token that is shown for this call goes before the certificate of its connection,
and one that is not accepted is refused, whatever else the caller has.

Where nothing is asked of callers, all of this costs a few comparisons.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from global_discovery.domain.access import ALL_RIGHTS, Rights, Scope
from global_discovery.domain.clock import Clock, SystemClock
from global_discovery.domain.errors import (
    DiscoveryError,
    PermissionDenied,
    ScopeChanged,
    Unauthenticated,
)
from global_discovery.domain.events import Report, ignore
from global_discovery.domain.pool import PoolKey
from global_discovery.serving.access.bearer import BadToken
from global_discovery.serving.access.denials import Denials
from global_discovery.serving.access.identity import certificate_identity
from global_discovery.serving.access.policy_file import PolicyKeeper
from global_discovery.serving.access.tokens import Tokens
from global_discovery.serving.caller import Caller, Callers

AUTHORIZATION = "authorization"
POOLS, ROUTERS = "pools", "routers"


class Peer(Protocol):
    """The other end of one call, as its face sees it."""

    @property
    def face(self) -> str:
        """The name of the face."""
        ...

    @property
    def address(self) -> str:
        """Of the connection, in its canonical form."""
        ...

    def header(self, name: str) -> Sequence[str | bytes]:
        """The values of a header or metadata key, in their order; the name is in lower case."""
        ...

    def certificate_names(self) -> tuple[Sequence[str], Sequence[str]]:
        """The URI names and the DNS names of the caller's verified certificate."""
        ...


class Visit:
    """One call: who makes it, and what it may do."""

    __slots__ = ("_guard", "_method", "_peer", "caller", "rights")

    def __init__(
        self, guard: "Guard", peer: Peer, method: str, caller: Caller, rights: Rights
    ) -> None:
        """Made by the guard; `method` is for the audit."""
        self._guard = guard
        self._peer = peer
        self._method = method
        self.caller = caller
        self.rights = rights

    def register(self, key: PoolKey) -> None:
        """Registering, renewing, replacing or withdrawing this pool. Raises the refusal."""
        if not self.rights.register.holds(key):
            self._deny(str(key))

    def register_anything(self) -> Scope:
        """The pools it may register. Raises the refusal when there are none."""
        if self.rights.register.empty:
            self._deny(POOLS)
        return self.rights.register

    def read(self, what: str = POOLS) -> Scope:
        """The pools it may read. Raises the refusal when there are none."""
        if self.rights.read.empty:
            self._deny(what)
        return self.rights.read

    def read_key(self, key: PoolKey) -> Scope:
        """All that it may read. Raises the refusal when this pool is not among it."""
        if not self.rights.read.holds(key):
            self._deny(str(key))
        return self.rights.read

    def following(self, end: Callable[[DiscoveryError], None]) -> "Following":
        """For a stream: `end` is called when what may be read is no longer what it was."""
        return Following(self._guard, self.caller, self.rights.read, end)

    def _deny(self, what: str) -> None:
        refusal = PermissionDenied() if self.caller.identity else Unauthenticated()
        self._guard.denials.denied(
            self.caller,
            face=self._peer.face,
            method=self._method,
            what=what,
            reason=refusal.reason,
        )
        raise refusal


class Following:
    """A stream that ends with the right to it. A context manager."""

    __slots__ = ("_end", "_guard", "_scope", "caller")

    def __init__(
        self,
        guard: "Guard",
        caller: Caller,
        scope: Scope,
        end: Callable[[DiscoveryError], None],
    ) -> None:
        """Made by a visit."""
        self._guard = guard
        self._scope = scope
        self._end = end
        self.caller = caller

    def __enter__(self) -> None:
        """It begins; `end` may be called from now on, and is at once if that is overdue."""
        self._guard.streams.add(self)
        self.judge(self._guard.rights(self.caller).read)

    def __exit__(self, *_: object) -> None:
        """It is over."""
        self._guard.streams.discard(self)

    def judge(self, now: Scope) -> None:
        """Ends the stream when this is another scope."""
        if now.fingerprint != self._scope.fingerprint:
            self._end(ScopeChanged())


class Guard:
    """Belongs to an event loop."""

    def __init__(  # noqa: PLR0913 - by keyword, and all have a default
        self,
        callers: Callers | None = None,
        *,
        anonymous: Rights = ALL_RIGHTS,
        policy: PolicyKeeper | None = None,
        tokens: Tokens | None = None,
        certificates: bool = False,
        clock: Clock | None = None,
        report: Report = ignore,
    ) -> None:
        """`anonymous` are the rights of everybody; with a policy identities have others too.

        `certificates` whether callers show some. Without a policy every identity may
        do all.
        """
        self.callers = callers or Callers()
        self._anonymous = anonymous
        self.policy = policy
        self.tokens = tokens
        self._certificates = certificates
        self.denials = Denials(clock=clock or SystemClock(), report=report)
        self.streams: set[Following] = set()
        if policy is not None:
            policy.changed = self._judge_streams

    def anybody(self, peer: Peer) -> Caller:
        """Who calls, as far as the connection tells."""
        address = peer.address
        if not self.callers.trusts_nobody:
            forwarded = peer.header("x-forwarded-for")
            address = self.callers.address(address, map(str, forwarded))
        return Caller(address)

    async def visit(self, peer: Peer, method: str) -> Visit:
        """Who calls. Raises the refusal for a caller whose token is not accepted."""
        address = self.anybody(peer).address
        identity = ""
        if self.tokens is not None:
            identity = await self._token_identity(self.tokens, peer, method, address)
        if not identity and self._certificates:
            identity = certificate_identity(*peer.certificate_names())
        caller = Caller(address, identity)
        return Visit(self, peer, method, caller, self.rights(caller))

    def rights(self, caller: Caller) -> Rights:
        """What a caller may do now."""
        everybody, policy = self._anonymous, self.policy
        if not caller.identity:
            return everybody
        if policy is None:
            return ALL_RIGHTS
        own = policy.rights(caller.identity)
        if everybody.read.empty and everybody.register.empty:
            return own
        return Rights(
            Scope(own.read.grants | everybody.read.grants),
            Scope(own.register.grants | everybody.register.grants),
        )

    async def _token_identity(self, tokens: Tokens, peer: Peer, method: str, address: str) -> str:
        authorization = peer.header(AUTHORIZATION)
        if not authorization:
            return ""
        try:
            return await tokens.identity(authorization, address)
        except BadToken as bad:
            self.denials.denied(
                Caller(address),
                face=peer.face,
                method=method,
                what="token",
                reason=f"TOKEN_{bad}".upper(),
            )
            raise Unauthenticated(bad_token=True) from None

    def _judge_streams(self) -> None:
        for stream in list(self.streams):
            stream.judge(self.rights(stream.caller).read)
