"""One pool's shares, and which of them decides what is listed.

The listed content is that of the live share whose content *changed* last. Each
change is numbered one above the highest number known for the pool, the number
stays with the share, and equal numbers are decided by the share's identity, so
that instances that see the same shares list the same content.
"""

from global_discovery.domain.pool import Content, PoolKey

MAX_SHARES = 64
MAX_LISTED_RELAYS = 256
MAX_EARLIER = 64
MAX_REPLACED = 8

Identity = tuple[str, str]
"""What tells a share from the others of its pool; sorts."""


def identity_of(relay_id: str, relays: tuple[str, ...], caller: str) -> Identity:
    """By the relay's own id, else by the relays it speaks for, else by its address."""
    if relay_id:
        return ("relay_id", relay_id)
    if relays:
        return ("relays", ",".join(relays))
    return ("address", caller)


class Share:
    """One relay's hold on a pool. Times are on the monotonic clock."""

    __slots__ = (
        "confirmed",
        "content",
        "counted_from",
        "deadline",
        "earlier",
        "extensions",
        "granted",
        "identity",
        "key",
        "lease_id",
        "number",
        "phase",
        "relay_id_needed",
        "relays",
        "renewed_at",
        "renewed_before",
        "replaced",
        "sequence",
    )

    def __init__(
        self,
        key: PoolKey,
        identity: Identity,
        content: Content,
        relays: tuple[str, ...],
        *,
        phase: int,
    ) -> None:
        """A share without a lease yet; see `phase` below."""
        self.key = key
        self.identity = identity
        self.content = content
        self.relays = relays
        self.number = 0
        self.lease_id = ""
        self.sequence = 0
        self.granted = 0.0
        self.counted_from = 0.0
        """The renewal, or after a deaf phase the listening, that the lease is counted from."""
        self.renewed_at: float | None = None
        """When a renewal was last heard or seen by this process, if any was."""
        self.renewed_before: float | None = None
        """The same of the renewal before that."""
        self.deadline = 0.0
        self.extensions = 0
        """How often the lease was extended since its last renewal."""
        self.phase = phase
        """The first deaf phase that was not yet applied to the lease."""
        self.earlier: dict[int, float] = {}
        """The hashes of what it said before, and until when; the oldest first."""
        self.relay_id_needed = False
        """Whether that warning was given."""
        self.confirmed = False
        """Whether this process heard it, saw it renewed, or wrote it in its life before."""
        self.replaced: tuple[str, ...] = ()
        """The last ids that this process replaced, where another one may still tell them."""

    @property
    def since_last(self) -> float | None:
        """How far its last two renewals are apart; None when fewer were heard."""
        if self.renewed_at is None or self.renewed_before is None:
            return None
        return self.renewed_at - self.renewed_before

    def leave(self, now: float) -> None:
        """Keeps that it said until now what it says."""
        mark = hash((self.content, self.relays))
        self.earlier.pop(mark, None)
        self.earlier[mark] = now
        if len(self.earlier) > MAX_EARLIER:
            del self.earlier[next(iter(self.earlier))]

    def goes_back(self, content: Content, relays: tuple[str, ...], now: float) -> bool:
        """Whether it said this before, within a lease; true once in its life."""
        until = self.earlier.get(hash((content, relays)))
        back = until is not None and now - until <= self.granted
        first = back and not self.relay_id_needed
        self.relay_id_needed = self.relay_id_needed or back
        return first


class PoolShares:
    """The live shares of one registered pool."""

    __slots__ = (
        "changed_at",
        "disagreeing",
        "disagreement_told",
        "highest",
        "key",
        "last_renewal",
        "registered_time",
        "shares",
    )

    def __init__(self, key: PoolKey, *, registered_time: float) -> None:
        """`registered_time` is wall time."""
        self.key = key
        self.registered_time = registered_time
        self.shares: dict[Identity, Share] = {}
        """In the order in which they began."""
        self.highest = 0
        self.last_renewal = 0.0
        self.changed_at = 0.0
        """When a share last said something new of its content."""
        self.disagreeing = False
        """Whether the shares differ in content."""
        self.disagreement_told = False
        """Whether that warning was given and still holds."""

    def set_content(self, share: Share, content: Content, now: float) -> None:
        """Records a change of a share's content, which makes it the listed one."""
        self.highest += 1
        share.number = self.highest
        share.content = content
        self.changed_at = now

    def adopt(self, share: Share, content: Content, number: int, now: float) -> None:
        """Takes a content that was numbered before, here or elsewhere."""
        self.highest = max(self.highest, number)
        if content != share.content:
            self.changed_at = now
        share.number = number
        share.content = content

    def deciding(self) -> Share:
        """The share whose content changed last."""
        return max(self.shares.values(), key=lambda share: (share.number, share.identity))

    def listed_content(self) -> Content:
        """The content that changed last."""
        return self.deciding().content

    def listed_relays(self) -> tuple[str, ...]:
        """The union over the shares, sorted; the newest shares' first when there are too many."""
        if len(self.shares) == 1:
            return next(iter(self.shares.values())).relays[:MAX_LISTED_RELAYS]
        union: dict[str, None] = {}
        for share in reversed(self.shares.values()):
            union.update(dict.fromkeys(share.relays))
        return tuple(sorted(list(union)[:MAX_LISTED_RELAYS]))

    def compare(self) -> None:
        """Looks anew whether the shares differ; to be called when one changed, began or ended."""
        contents = iter(self.shares.values())
        first = next(contents).content
        self.disagreeing = any(share.content != first for share in contents)
        if not self.disagreeing:
            self.disagreement_told = False

    def disagreement_to_tell(self) -> bool:
        """Whether the shares differ and stay with it; True once until they agree again.

        They stay with it when each has renewed since one last said something
        new: relays that follow a change of their model one after the other are
        of one mind.
        """
        if not self.disagreeing or self.disagreement_told:
            return False
        changed = self.changed_at
        self.disagreement_told = all(
            share.renewed_at is not None and share.renewed_at > changed
            for share in self.shares.values()
        )
        return self.disagreement_told
