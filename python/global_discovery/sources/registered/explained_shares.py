"""What the table of shares knows of one key, for people."""

from global_discovery.domain.explanation import (
    EndedShare,
    IdentityKind,
    RegistrationSide,
    ShareState,
    Who,
)
from global_discovery.domain.pool import PoolKey
from global_discovery.sources.registered.listening import Listening
from global_discovery.sources.registered.share_table import ShareTable
from global_discovery.sources.registered.shares import Identity, Share

RELAYS_SHOWN = 8


def explain_shares(
    table: ShareTable, listening: Listening, key: PoolKey, now: float
) -> RegistrationSide:
    """The live shares of a pool and the last ones that ended. No lease id is in it."""
    pool = table.pools.get(key)
    live: tuple[ShareState, ...] = ()
    if pool is not None:
        decides = pool.deciding()
        live = tuple(
            _state(share, listening, now, decides=share is decides)
            for share in pool.shares.values()
        )
    ended = tuple(
        EndedShare(
            _who(one.identity, one.relays),
            one.ending,
            one.departure,
            max(now - one.at, 0.0),
            one.caller,
        )
        for one in table.ended.of(key)
    )
    return RegistrationSide(live, ended, disagreeing=pool is not None and pool.disagreeing)


def _state(share: Share, listening: Listening, now: float, *, decides: bool) -> ShareState:
    ends, extensions = listening.foresee(share, now)
    return ShareState(
        who=_who(share.identity, share.relays),
        granted=share.granted,
        since_renewal=None if share.renewed_at is None else max(now - share.renewed_at, 0.0),
        remaining=max(ends - now, 0.0),
        extensions=extensions,
        number=share.number,
        decides=decides,
        model=share.content.model,
        relay_id_needed=share.relay_id_needed,
    )


def _who(identity: Identity, relays: tuple[str, ...]) -> Who:
    kind = IdentityKind(identity[0])
    name = "" if kind is IdentityKind.RELAYS else identity[1]
    return Who(kind, name, relays[:RELAYS_SHOWN], len(relays))
