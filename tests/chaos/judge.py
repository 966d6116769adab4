"""Judges a finished history: each promise on its own, and a breach is a sentence.

A promise is judged only where it is certain that it holds: what may lie within a
link, a delay or a late look of this program is given the time that it may take, and no
more. How much was judged is counted, so that a run that judged nothing is seen.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from chaos.history import (
    POLICY_SECONDS,
    REFUSALS,
    TORN,
    Call,
    History,
    Listing,
    Restart,
    Told,
    Withdrawal,
)
from chaos.leases import Span, certain, possible

LAPSE_SECONDS = 1.0
"""Within this a pool leaves after its lease."""
SLACK_SECONDS = 0.5
"""Given besides, and what this program and the server ran late."""
TRANSIT_SECONDS = 1.0
"""How long a message of a good link may be on its way to us, besides what we ran late."""
DEAD_INTERVALS = 3
"""Idle intervals after which a router takes a stream for dead."""
SETTLING_SECONDS = 5.0
"""A router may learn late of what was before a pool came back."""
TOLD_EACH = 5


@dataclass
class Verdict:
    """What was judged, and what was broken."""

    judged: Counter[str] = field(default_factory=Counter)
    breaches: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.breaches


class Judge:
    """Reads one history. `idle` is the routers' idle interval, in seconds."""

    def __init__(
        self, history: History, *, idle: float = 1.0, unjudged: frozenset[str] = frozenset()
    ) -> None:
        """`unjudged` pools depend on more than their relays."""
        self._history = history
        self._idle = idle
        self._slots = sorted({call.slot for call in history.calls})
        self._bound = max((listing.bound for listing in history.listings), default=1.0)
        self._carried = max(self._bound, history.slices_bound)
        self._pools = sorted({call.pool for call in history.calls} - unjudged)
        self._certain = {pool: certain(history, pool) for pool in self._pools}
        self._calls: dict[str, list[Call]] = {pool: [] for pool in self._pools}
        for call in history.calls:
            if call.pool in self._calls:
                self._calls[call.pool].append(call)
        self._possible: dict[tuple[str, str, float], list[Span]] = {}
        self._verdict = Verdict()
        self._told: Counter[tuple[str, str]] = Counter()

    def verdict(self) -> Verdict:
        """Judges everything."""
        for breach in self._history.broken:
            self._breach("seen at once", breach, breach)
        for listing in self._history.listings:
            self._judge_listing(listing)
        for told in self._history.told:
            self._judge_told(told)
        for withdrawal in self._history.withdrawals:
            self._judge_withdrawal(withdrawal)
        for call in self._history.calls:
            self._judge_rights(call)
        self._judge_routers()
        return self._verdict

    # -- lists and streams -----------------------------------------------------

    def _judge_listing(self, seen: Listing) -> None:
        if seen.exact:
            self._nothing_missing(seen, seen.sent, seen.answered, f"{seen.face} list")
        self._nothing_dead(seen, seen.sent, seen.answered, f"{seen.face} list")
        self._contents(seen)

    def _judge_told(self, told: Told) -> None:
        since = told.at - TRANSIT_SECONDS - self._history.lag(told.at - 2, told.at, told.slot)
        if told.exact:
            self._nothing_missing(told, since, told.at, "stream")
        self._nothing_dead(told, since, told.at, "stream")
        for pool in told.removed:
            span = _within(self._certain.get(pool, ()), since, told.at)
            self._verdict.judged["removed keys"] += 1
            if span is not None and span.begins + told.bound < since:
                self._breach(
                    "no live pool is removed",
                    pool,
                    f"{told.slot} removed {pool} at {told.at:.3f}, "
                    f"registered from {span.begins:.3f} to {span.ends:.3f}",
                )

    def _nothing_missing(self, seen: Listing | Told, since: float, until: float, how: str) -> None:
        for pool in self._pools:
            span = _within(self._certain[pool], since, until)
            if span is None or span.begins + seen.bound >= since:
                continue
            self._verdict.judged[f"pools that must be in an exact {how}"] += 1
            if pool not in seen.pools:
                self._breach(
                    "nothing older than the bound is missing from an exact view",
                    pool,
                    f"an exact {how} of {seen.slot}, asked {since:.3f}, told {until:.3f}, bound "
                    f"{seen.bound:g} s, lacks {pool}: registered from {span.begins:.3f} to "
                    f"{span.ends:.3f}",
                )

    def _nothing_dead(self, seen: Listing | Told, since: float, until: float, how: str) -> None:
        late = LAPSE_SECONDS + SLACK_SECONDS + self._history.lag(since - 2, since, seen.slot)
        for pool in seen.pools:
            if pool not in self._certain:
                continue
            self._verdict.judged[f"pools in a {how} that must be alive"] += 1
            spans = self._listable(pool, seen.slot, seen.bound)
            last = _last(spans, until)
            if last is None or last.ends + late < since:
                ended = "never" if last is None else f"until {last.ends:.3f} at the latest"
                self._breach(
                    "nothing is listed longer than its lease with all extensions",
                    pool,
                    f"a {how} of {seen.slot}, asked {since:.3f}, has {pool}, registered {ended}",
                )

    def _listable(self, pool: str, slot: str, bound: float) -> list[Span]:
        key = (pool, slot, bound)
        if key not in self._possible:
            self._possible[key] = possible(self._history, pool, slot, bound)
        return self._possible[key]

    def _contents(self, seen: Listing) -> None:
        for pool, version in seen.pools.items():
            if version == TORN:
                self._breach(
                    "one content is one",
                    pool,
                    f"a {seen.face} list of {seen.slot} shows {pool} with fields of two versions",
                )
            calls = self._calls.get(pool, ())
            if not seen.exact or len({call.relay for call in calls}) != 1:
                continue
            span = _within(self._certain[pool], seen.sent, seen.answered)
            if span is None or span.begins + seen.bound >= seen.sent:
                continue
            oldest = max(
                (c.version for c in calls if c.granted and c.ended + seen.bound < seen.sent),
                default=0,
            )
            self._verdict.judged["contents"] += 1
            if 0 <= version < oldest:
                self._breach(
                    "an exact view has no content older than the bound",
                    pool,
                    f"an exact list of {seen.slot}, asked {seen.sent:.3f}, has version {version}, "
                    f"and {oldest} was answered longer than {seen.bound:g} s before",
                )

    # -- withdrawals -----------------------------------------------------------

    def _judge_withdrawal(self, withdrawal: Withdrawal) -> None:
        """It stays away until its relay registers anew."""
        calls = self._calls.get(withdrawal.pool)
        if calls is None:
            return
        sole = all(call.relay == withdrawal.relay for call in calls)
        if not withdrawal.done or not sole or self._may_return(withdrawal):
            return
        later = [call.sent for call in calls if call.sent >= withdrawal.sent]
        anew = min(later, default=float("inf"))
        for seen in self._history.listings:
            elsewhere = self._history.terms.shared and seen.slot != withdrawal.slot
            wait = seen.bound if elsewhere else LAPSE_SECONDS
            if not elsewhere:
                wait += self._history.lag(withdrawal.ended, seen.sent, seen.slot)
            if elsewhere and not seen.exact:
                continue
            if seen.sent <= withdrawal.ended + wait or seen.answered >= anew:
                continue
            self._verdict.judged["withdrawn pools that must stay away"] += 1
            if withdrawal.pool in seen.pools:
                self._breach(
                    "a withdrawn pool stays away",
                    withdrawal.pool,
                    f"a {seen.face} list of {seen.slot}, asked {seen.sent:.3f}, has "
                    f"{withdrawal.pool}, withdrawn at {withdrawal.ended:.3f}",
                )

    def _may_return(self, withdrawal: Withdrawal) -> bool:
        """Whether an earlier call under another id was given up and may arrive later."""
        return any(
            call.lease_id != withdrawal.lease_id and not call.granted
            for call in self._calls[withdrawal.pool]
            if call.sent <= withdrawal.sent and call.ended > withdrawal.sent - 60
        )

    # -- rights ----------------------------------------------------------------

    def _judge_rights(self, call: Call) -> None:
        """A relay is refused while the policy in force says so, and never else."""
        target = f"policy:{call.pool}"
        if call.error in REFUSALS:
            late = self._in_force_after(call.slot, call.sent - POLICY_SECONDS, call.ended)
            self._verdict.judged["refused calls"] += 1
            if not any(self._history.done_to(target, call.sent - late, call.ended)):
                self._breach(
                    "a relay that may register is not refused",
                    call.pool,
                    f"{call.slot} answers {call.relay} with {call.error} at {call.ended:.3f}",
                )
        for window in self._history.done_to(target, call.sent, call.ended):
            late = self._in_force_after(call.slot, window.began, call.ended)
            if call.sent <= window.began + late or call.ended >= window.ended:
                continue
            self._verdict.judged["calls that must be refused"] += 1
            if call.granted:
                self._breach(
                    "a policy is in force",
                    call.pool,
                    f"{call.slot} takes a call of {call.relay} at {call.sent:.3f}, which the "
                    f"policy forbids since {window.began:.3f}",
                )

    def _in_force_after(self, slot: str, since: float, until: float) -> float:
        """In seconds: it looks twice, and not while it is suspended."""
        history = self._history
        late = history.lag(since, until, slot) * 2
        return POLICY_SECONDS + late + history.suspended(slot, since - POLICY_SECONDS, until)

    # -- routers ---------------------------------------------------------------

    def _judge_routers(self) -> None:
        for restart in self._history.restarts:
            self._judge_restart(restart)
        for router in sorted({offer.router for offer in self._history.offers}):
            offers = [offer for offer in self._history.offers if offer.router == router]
            for pool in self._pools:
                for span in self._certain[pool]:
                    self._kept(router, [(o.at, pool in o.pools) for o in offers], pool, span)
            for offer in offers:
                if offer.exact:
                    self._drops_the_dead(router, offer.at, offer.pools)

    def _judge_restart(self, restart: Restart) -> None:
        self._verdict.judged["routers that begin with their file"] += 1
        differ = sorted(restart.before ^ restart.after)
        if differ or restart.exact:
            told = "is exact" if restart.exact else f"has lost or gained {differ}"
            self._breach(
                "a router begins with what it knew, and calls it an estimate",
                restart.router,
                f"{restart.router}, which began anew at {restart.at:.3f}, {told}",
            )

    def _kept(
        self, router: str, offers: Sequence[tuple[float, bool]], pool: str, span: Span
    ) -> None:
        """Once it knows a live pool, a router never loses it."""
        since = self._settled(router, span.begins + SETTLING_SECONDS)
        known = False
        for at, offered in offers:
            if since < at < span.ends:
                self._verdict.judged["live pools that a router must keep"] += known
                if known and not offered:
                    self._breach(
                        "a router never loses a live pool",
                        pool,
                        f"{router} had {pool} and lost it by {at:.3f}, while it was registered "
                        f"from {span.begins:.3f} to {span.ends:.3f}",
                    )
                    return
                known = offered

    def _settled(self, router: str, since: float) -> float:
        moved = True
        while moved:
            moved = False
            for window in self._history.done_to(
                f"router:{router}", since - SETTLING_SECONDS, since
            ):
                if window.ended + SETTLING_SECONDS > since:
                    since, moved = window.ended + SETTLING_SECONDS, True
        return since

    def _drops_the_dead(self, router: str, at: float, pools: frozenset[str]) -> None:
        """An exact router offers nothing that was dead for longer than a stream may be.

        What another process told than the one whose mark is exact it may carry besides,
        until it was told longer ago than that mark's bound.
        """
        since = at - DEAD_INTERVALS * self._idle - TRANSIT_SECONDS - self._delay(router, at)
        late = LAPSE_SECONDS + SLACK_SECONDS + self._history.lag(since, at, *self._slots)
        for pool in pools & self._certain.keys():
            self._verdict.judged["pools that an exact router must know alive"] += 1
            known = self._known_until(pool, at)
            if known + late < since:
                self._breach(
                    "an exact router drops what is gone",
                    pool,
                    f"{router}, exact, offers {pool} at {at:.3f}, and may know no server that "
                    f"listed it since {known:.3f}",
                )

    def _known_until(self, pool: str, at: float) -> float:
        """Until when what any server may have listed is to be believed.

        A pool that came again unheard is still carried from the time before.
        """
        return max(
            (
                span.ends + (self._carried if self._another_process(span.begins, at) else 0.0)
                for slot in self._slots
                for span in self._listable(pool, slot, self._bound)
                if span.begins <= at
            ),
            default=float("-inf"),
        )

    def _another_process(self, since: float, until: float) -> bool:
        """Whether what a process told since then may be ended by another one's mark."""
        return len(self._slots) > 1 or any(
            deaf.restart and deaf.heard_until > float("-inf")
            for deaf in self._history.deaf
            if deaf.gone_by < until and deaf.back_by > since
        )

    def _delay(self, router: str, at: float) -> float:
        windows = self._history.done_to(f"router:{router}", at - 10, at)
        return 2.0 if any(window.fault == "delay" for window in windows) else 0.0

    # -- breaches --------------------------------------------------------------

    def _breach(self, promise: str, pool: str, sentence: str) -> None:
        self._told[promise, pool] += 1
        if (
            self._told[promise, pool] == 1
            and sum(1 for told in self._told if told[0] == promise) <= TOLD_EACH
        ):
            story = "".join(f"\n    {line}" for line in self.story(pool))
            self._verdict.breaches.append(f"{promise}: {sentence}{story}")

    def story(self, pool: str, most: int = 24) -> Iterator[str]:
        """What was done for a pool, in short: one line for calls that are alike."""
        lines: list[tuple[float, str]] = []
        for call in self._calls.get(pool, ()):
            said = "answered" if call.granted else call.error or "given up"
            lines.append((call.sent, f"{call.relay} calls {call.slot} (v{call.version}): {said}"))
        for withdrawal in self._history.withdrawals:
            if withdrawal.pool == pool:
                said = "done" if withdrawal.done else "not done"
                told = f"{withdrawal.relay} withdraws at {withdrawal.slot}: {said}"
                lines.append((withdrawal.sent, told))
        told_lines = list(_in_short(sorted(lines)))
        yield from told_lines[-most:]


def _in_short(lines: Sequence[tuple[float, str]]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        end = at
        while end + 1 < len(lines) and lines[end + 1][1] == lines[at][1]:
            end += 1
        times = f"{lines[at][0]:.3f}"
        if end > at:
            times += f" to {lines[end][0]:.3f}, {end - at + 1} times"
        yield f"{times}: {lines[at][1]}"
        at = end + 1


_BEGINS: Callable[[Span], float] = lambda span: span.begins  # noqa: E731 - a key for bisect


def _last(spans: Sequence[Span], at: float) -> Span | None:
    """The last that began by then."""
    index = bisect_right(spans, at, key=_BEGINS)
    return spans[index - 1] if index else None


def _within(spans: Sequence[Span], since: float, until: float) -> Span | None:
    """The one that has the whole time in it."""
    span = _last(spans, since)
    return span if span is not None and until < span.ends else None
