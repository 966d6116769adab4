"""From what relays were answered to when their pools must, and when they can, be listed.

*Certain*: from a good answer until one lease after the call was sent that was answered
last, and longer where a sole server was surely deaf when the lease ran. *Possible*:
whatever any call may have done, also one that was never answered and lay in a link that
swallowed it, until its lease with all its extensions has surely ended. Only a call that
was refused for want of a right did nothing.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from chaos.history import REFUSALS, Call, Deaf, History, Withdrawal

EXTENSIONS = 3
UNANSWERED_SECONDS = 1.0
"""How long a server may still work at a call that was given up: a store's repetitions. And
what it runs late."""
WRITTEN_SECONDS = 1.5
"""How far the file of a server may be behind when it ends: it writes once a second which
leases have ended, and looks at a lease within some tenths after its end. What had ended for
no longer than that was alive by what the file says, and is restored."""


class Span(NamedTuple):
    """From a moment to another."""

    begins: float
    ends: float


def certain(history: History, pool: str) -> list[Span]:
    """When a pool was registered beyond doubt, as its relays were answered."""
    by_relay: dict[str, list[Call]] = defaultdict(list)
    for call in history.calls:
        if call.pool == pool and call.granted:
            by_relay[call.relay].append(call)
    spans: list[Span] = []
    for relay, calls in by_relay.items():
        ended = [w for w in history.withdrawals if (w.pool, w.relay) == (pool, relay)]
        spans += _certain_of_a_share(history, calls, ended)
    return _merged(spans)


def _certain_of_a_share(
    history: History, calls: list[Call], ended: list[Withdrawal]
) -> Iterable[Span]:
    calls.sort(key=lambda call: call.ended)
    begins = ends = float("-inf")
    withdrawn = sorted(w.sent for w in ended)
    for call in calls:
        if any(ends > sent for sent in withdrawn if begins <= sent <= call.ended):
            ends = min(sent for sent in withdrawn if begins <= sent <= call.ended)
        if call.ended > ends:
            if begins < ends:
                yield Span(begins, ends)
            begins = call.ended
        ends = max(ends, _surely_until(history, call.slot, call.sent + history.terms.lease))
    cut = min((sent for sent in withdrawn if sent >= begins), default=float("inf"))
    if begins < min(ends, cut):
        yield Span(begins, min(ends, cut))


def _surely_until(history: History, slot: str, ends: float) -> float:
    """The end of a lease that a sole server's deafness made longer.

    What may have been one uses up an extension too: no more than three are promised.
    """
    if history.terms.shared:
        return ends
    extended = 0
    for deaf in _of_slot(history.deaf, slot):
        if extended < EXTENSIONS and deaf.heard_until < ends:
            runs = ends - history.terms.lease <= deaf.gone_by < ends
            if deaf.certain and runs:
                ends = max(ends, deaf.back_from + history.terms.lease)
            extended += deaf.back_by > ends - history.terms.lease
    return ends


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and span.begins <= merged[-1].ends:
            merged[-1] = Span(merged[-1].begins, max(merged[-1].ends, span.ends))
        else:
            merged.append(span)
    return merged


def possible(history: History, pool: str, slot: str, bound: float) -> list[Span]:
    """When a server may list a pool, without the second that it has to see a lease's end."""
    spans = []
    for call in history.calls:
        if call.pool == pool and call.error not in REFUSALS:
            took = _took_by(history, call)
            if history.terms.shared:
                took = _read_by(history, slot, took, bound)
            until = _at_most_until(history, slot, took + history.terms.lease)
            spans.append(Span(call.sent, until))
    return _merged(spans)


def _took_by(history: History, call: Call) -> float:
    """By when a call had done what it did."""
    if call.granted:
        return call.ended
    latest = call.ended
    for target in (f"relay:{call.pool}", f"slot:{call.slot}"):
        for window in history.done_to(target, call.sent, call.ended):
            latest = max(latest, window.ended)
    return latest + UNANSWERED_SECONDS + history.lag(call.sent, latest + 1.0, call.slot)


def _read_by(history: History, slot: str, took: float, bound: float) -> float:
    """By when another server had seen it in the store."""
    moved = True
    while moved:
        moved = False
        for target in ("store", f"slot:{slot}"):
            for window in history.done_to(target, took, took + bound):
                if window.ended > took:
                    took, moved = window.ended, True
    return took + bound


def _at_most_until(history: History, slot: str, ends: float) -> float:
    """With all extensions that there may have been, each counted as late as it can be.

    A suspension of ours counts as one of the three only when the server says so.
    """
    lease = history.terms.lease
    extended = 0
    for deaf in _of_slot(history.deaf, slot):
        unwritten = WRITTEN_SECONDS if deaf.restart and history.terms.file else 0.0
        if deaf.heard_until < ends + unwritten and deaf.back_by + 2 * lease > ends:
            if extended < EXTENSIONS:
                ends = max(ends, _listens_by(history, slot, deaf) + lease)
            extended += deaf.told or deaf.restart
    return ends


def _listens_by(history: History, slot: str, deaf: Deaf) -> float:
    """By when it listened: with the first call that it surely heard, else one lease later."""
    heard = (
        call.ended
        for call in history.calls
        if call.slot == slot and call.granted and call.sent >= deaf.back_by
    )
    return min(deaf.back_by + history.terms.lease, min(heard, default=float("inf")))


def _of_slot(deaf: list[Deaf], slot: str) -> list[Deaf]:
    return sorted((each for each in deaf if each.slot == slot), key=lambda each: each.gone_by)
