"""The judge itself: what it calls a breach, and what it does not."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from chaos.history import (
    POLICY_SECONDS,
    TORN,
    Call,
    Deaf,
    History,
    Listing,
    Offer,
    Restart,
    Terms,
    Told,
    Window,
    Withdrawal,
)
from chaos.judge import Judge

OWN = Terms(lease=3.0, interval=1.0, shared=False)
SHARED = Terms(lease=3.0, interval=1.0, shared=True)
SOON = 0.01


def a_call(at: float, *, granted: str = "id", lease_id: str = "id", version: int = 0) -> Call:
    return Call("p", "relay", "slot-0", version, lease_id, at, at + SOON, granted)


def beats(since: float, until: float) -> list[Call]:
    """One a second, each answered."""
    return [a_call(since + second) for second in range(int(until - since) + 1)]


def a_history(calls: Iterable[Call], *, terms: Terms = OWN, deaf: Iterable[Deaf] = ()) -> History:
    return History(terms, calls=list(calls), deaf=list(deaf))


def listed(
    at: float, *pools: str, exact: bool = True, bound: float = 1.0, slot: str = "slot-0"
) -> Listing:
    return Listing(slot, "grpc", at, at + SOON, exact, bound, dict.fromkeys(pools, 0))


def breaches(history: History) -> list[str]:
    return [breach.split(":")[0] for breach in Judge(history).verdict().breaches]


MISSING = "nothing older than the bound is missing from an exact view"
DEAD = "nothing is listed longer than its lease with all extensions"
WITHDRAWN = "a withdrawn pool stays away"


@pytest.mark.parametrize(
    ("at", "exact", "found"),
    [
        (100.9, True, []),  # not yet longer than the bound
        (101.1, True, [MISSING]),
        (101.1, False, []),
        (107.9, True, [MISSING]),  # the last beat was at 105
        (108.1, True, []),
    ],
)
def test_an_exact_list_lacks_no_pool_that_was_registered_for_longer_than_its_bound(
    at: float, *, exact: bool, found: list[str]
) -> None:
    history = a_history(beats(100, 105))
    history.listings = [listed(at, exact=exact)]
    assert breaches(history) == found


def test_nothing_is_certain_of_a_pool_whose_renewal_came_after_its_lease() -> None:
    history = a_history([a_call(100), a_call(103.5)])
    history.listings = [listed(103.2), listed(104.4)]
    assert breaches(history) == []
    history.listings = [listed(104.6)]
    assert breaches(history) == [MISSING]


def test_a_withdrawal_ends_what_is_certain_when_it_is_sent() -> None:
    history = a_history(beats(100, 105))
    history.withdrawals = [Withdrawal("p", "relay", "slot-0", "id", 105.5, 105.6, done=False)]
    history.listings = [listed(105.55)]
    assert breaches(history) == []


def test_a_sole_server_that_was_surely_deaf_keeps_what_it_had_for_one_lease_more() -> None:
    deaf = Deaf("slot-0", 105, 105.1, 109, 109.1)
    history = a_history(beats(100, 105), deaf=[deaf])
    history.listings = [listed(111.9)]
    assert breaches(history) == [MISSING]
    deaf.certain = False
    assert breaches(history) == []


@pytest.mark.parametrize(
    ("at", "found"),
    [(99.0, [DEAD]), (105.0, []), (109.4, []), (109.6, [DEAD])],
)
def test_a_pool_is_listed_from_its_first_call_to_a_second_after_its_lease(
    at: float, found: list[str]
) -> None:
    history = a_history(beats(100, 105))
    history.listings = [listed(at, "p")]
    assert breaches(history) == found


def test_a_restart_may_keep_a_pool_for_one_lease_after_it_listens_and_three_in_all() -> None:
    def deaf(at: float) -> Deaf:
        return Deaf("slot-0", at, at, at + 2, at + 2, restart=True)

    history = a_history(beats(100, 105), deaf=[deaf(106)])
    history.listings = [listed(115.4, "p")]  # listens at 111 at the latest
    assert breaches(history) == []
    history.listings = [listed(115.6, "p")]
    assert breaches(history) == [DEAD]
    history.deaf += [deaf(113), deaf(119), deaf(125)]
    history.listings = [listed(128.4, "p")]
    assert breaches(history) == []
    history.listings = [listed(128.6, "p")]
    assert breaches(history) == [DEAD]


def test_a_stall_that_only_the_server_told_keeps_a_pool_for_one_lease_after_it_listens() -> None:
    history = a_history(beats(100, 105))
    history.listings = [listed(112.4, "p")]
    assert breaches(history) == [DEAD]
    history.deaf = [Deaf("slot-0", 104.9, 106, 106, 106, certain=False, told=True)]
    assert breaches(history) == []  # it listens at 109 at the latest
    history.listings = [listed(113.6, "p")]
    assert breaches(history) == [DEAD]


def test_a_suspension_uses_up_an_extension_only_where_the_server_says_that_it_stalled() -> None:
    def suspended(at: float) -> Deaf:
        return Deaf("slot-0", at, at, at + 0.5, at + 0.5, certain=False)

    history = a_history(
        beats(100, 105), deaf=[suspended(at) for at in (106, 106.6, 107.2, 107.8, 111, 115)]
    )
    history.listings = [listed(122.9, "p")]  # listens at 118.5 at the latest
    assert breaches(history) == []
    for deaf in history.deaf:
        deaf.told = True
    history.listings = [listed(114.9, "p")]  # the third: listens at 110.7 at the latest
    assert breaches(history) == []
    history.listings = [listed(115.3, "p")]
    assert breaches(history) == [DEAD]


def test_stalls_of_which_nobody_is_certain_may_have_used_up_all_extensions() -> None:
    told = [Deaf("slot-0", at, at, at, at, certain=False, told=True) for at in (106, 106.5, 107)]
    suspended = Deaf("slot-0", 107.5, 107.5, 109, 109)
    history = a_history(beats(100, 105), deaf=[*told[:2], suspended])
    history.listings = [listed(111.9)]
    assert breaches(history) == [MISSING]
    history.deaf = [*told, suspended]
    assert breaches(history) == []


def test_what_a_server_ran_late_is_given_to_it_and_to_no_other() -> None:
    history = a_history(beats(100, 105))
    history.listings = [listed(110.4, "p")]
    history.server_lags = {"slot-1": [(109.0, 1.0)]}
    assert breaches(history) == [DEAD]
    history.server_lags = {"slot-0": [(109.0, 1.0)]}
    assert breaches(history) == []
    history.listings = [listed(110.6, "p")]
    assert breaches(history) == [DEAD]


def test_a_file_may_restore_what_had_ended_since_it_was_written() -> None:
    restart = Deaf("slot-0", 109, 109, 110, 110, restart=True)
    history = a_history(beats(100, 105), terms=replace(OWN, file=True), deaf=[restart])
    history.listings = [listed(116.9, "p")]  # listens at 113 at the latest
    assert breaches(history) == []
    restart.heard_until = restart.gone_by = 109.6  # it was written at 108.1 at the latest
    assert breaches(history) == [DEAD]
    history.terms, restart.heard_until = OWN, 109
    assert breaches(history) == [DEAD]


def test_a_call_that_lay_in_a_silent_link_may_count_when_the_link_speaks_again() -> None:
    history = a_history([*beats(100, 105), a_call(106, granted="")])
    history.listings = [listed(113, "p")]
    assert breaches(history) == [DEAD]
    history.windows = [Window("swallow", frozenset({"relay:p"}), 105.5, 110)]
    assert breaches(history) == []
    history.listings = [listed(115.6, "p")]
    assert breaches(history) == [DEAD]


def test_another_server_of_a_shared_store_has_one_bound_more() -> None:
    history = a_history(beats(100, 105), terms=SHARED)
    history.listings = [listed(111.9, "p", bound=2.5, slot="slot-1")]
    assert breaches(history) == []
    history.listings = [listed(112.1, "p", bound=2.5, slot="slot-1")]
    assert breaches(history) == [DEAD]
    history.windows = [Window("cut", frozenset({"store"}), 105, 106)]
    assert breaches(history) == []


def test_a_withdrawn_pool_is_listed_only_when_it_was_registered_anew() -> None:
    history = a_history(beats(100, 105))
    history.withdrawals = [Withdrawal("p", "relay", "slot-0", "id", 105.5, 105.6, done=True)]
    history.listings = [listed(106.5, "p")]
    assert breaches(history) == []
    history.listings = [listed(106.7, "p")]
    assert breaches(history) == [WITHDRAWN]
    history.calls.append(a_call(106.6, lease_id=""))
    assert breaches(history) == []


def test_a_first_call_that_nobody_answered_may_bring_a_withdrawn_pool_back() -> None:
    history = a_history([a_call(99, granted="", lease_id=""), *beats(100, 105)])
    history.withdrawals = [Withdrawal("p", "relay", "slot-0", "id", 105.5, 105.6, done=True)]
    history.listings = [listed(106.7, "p")]
    assert breaches(history) == []


def test_a_stream_may_be_a_second_late_and_no_more() -> None:
    history = a_history(beats(100, 110))
    history.told = [Told("slot-0", 102.0, True, 1.0, {}, ())]
    assert breaches(history) == []
    history.told = [Told("slot-0", 102.1, True, 1.0, {}, ())]
    assert breaches(history) == [MISSING]
    history.lags = [(102.0, 0.5)]
    assert breaches(history) == []


def test_no_stream_removes_a_live_pool_whatever_its_mark() -> None:
    history = a_history(beats(100, 110))
    history.told = [Told("slot-0", 105, False, 1.0, {}, ("p",))]
    assert breaches(history) == ["no live pool is removed"]


def test_a_router_that_has_a_live_pool_keeps_it() -> None:
    def offers(*offered: tuple[float, bool]) -> list[Offer]:
        return [Offer("r", at, False, frozenset({"p"} if has else ())) for at, has in offered]

    history = a_history(beats(100, 120))
    history.offers = offers((106, False), (107, True), (108, True), (124, False))
    assert breaches(history) == []
    history.offers = offers((106, True), (107, False))
    assert breaches(history) == ["a router never loses a live pool"]
    history.windows = [Window("swallow", frozenset({"router:r"}), 103, 104)]
    assert breaches(history) == []  # it may not have heard of its return yet


def test_a_router_begins_with_all_that_it_knew_as_an_estimate() -> None:
    def restarted(*after: str, exact: bool = False) -> History:
        history = a_history([])
        known = frozenset({"p", "q"})
        history.restarts = [Restart("r", 100.0, exact, known, frozenset(after))]
        return history

    broken = ["a router begins with what it knew, and calls it an estimate"]
    assert breaches(restarted("p", "q")) == []
    assert breaches(restarted("p")) == broken
    assert breaches(restarted("p", "q", "s")) == broken
    assert breaches(restarted("p", "q", exact=True)) == broken


def test_an_exact_router_offers_nothing_that_is_long_gone() -> None:
    history = a_history(beats(100, 105))
    history.offers = [Offer("r", 113.4, True, frozenset({"p"}))]
    assert breaches(history) == []
    history.offers = [Offer("r", 113.6, False, frozenset({"p"}))]
    assert breaches(history) == []
    history.offers = [Offer("r", 113.6, True, frozenset({"p"}))]
    assert breaches(history) == ["an exact router drops what is gone"]


@pytest.mark.parametrize("bound", [0.0, 90.0])
def test_a_router_may_carry_what_a_process_told_that_is_no_more(bound: float) -> None:
    history = a_history(beats(100, 105))
    history.slices_bound = bound
    history.deaf = [Deaf("slot-0", float("-inf"), 99, 99, 99, restart=True)]
    history.offers = [Offer("r", 113.6, True, frozenset({"p"}))]
    assert breaches(history) == ["an exact router drops what is gone"]
    history.deaf.append(Deaf("slot-0", 120, 120, 121, 121, restart=True))
    assert breaches(history) == ["an exact router drops what is gone"]  # it was still the same
    history.deaf.append(Deaf("slot-0", 104, 104, 104.5, 104.5, restart=True))
    carried = max(bound, 1.0)
    history.offers = [Offer("r", 113.4 + carried, True, frozenset({"p"}))]
    assert breaches(history) == []
    history.offers = [Offer("r", 113.6 + carried, True, frozenset({"p"}))]
    assert breaches(history) == ["an exact router drops what is gone"]


def test_a_pool_that_came_again_unheard_is_still_carried_from_an_ended_process() -> None:
    unheard = a_call(112, granted="")
    history = a_history([*beats(100, 105), unheard])
    history.slices_bound = 90.0
    history.offers = [Offer("r", 124.0, True, frozenset({"p"}))]
    assert breaches(history) == ["an exact router drops what is gone"]
    history.deaf = [Deaf("slot-0", 106, 106, 107, 107, restart=True)]
    assert breaches(history) == []


def test_contents_are_whole_and_not_older_than_the_bound() -> None:
    history = a_history([*beats(100, 103), a_call(104, version=1), *beats(105, 107)])
    history.calls = [
        call._replace(version=1) if call.sent >= 104 else call for call in history.calls
    ]
    history.listings = [listed(104.9, "p")]
    assert breaches(history) == []
    history.listings = [listed(105.1, "p")]
    assert breaches(history) == ["an exact view has no content older than the bound"]
    history.listings = [listed(105.1)._replace(pools={"p": TORN})]
    assert breaches(history) == ["one content is one"]


REFUSED = "PERMISSION_DENIED"


def narrowed(since: float, until: float) -> Window:
    return Window("narrowed", frozenset({"policy:p"}), since, until)


def test_a_relay_that_may_register_is_not_refused() -> None:
    denied = a_call(110, granted="")._replace(error=REFUSED)
    history = a_history([*beats(100, 105), denied])
    assert breaches(history) == ["a relay that may register is not refused"]
    history.windows = [narrowed(109, 112)]
    assert breaches(history) == []
    history.windows = [narrowed(100, 111 - POLICY_SECONDS)]
    assert breaches(history) == []  # the wider policy need not be in force again
    history.windows = [narrowed(100, 109 - POLICY_SECONDS)]
    assert breaches(history) == ["a relay that may register is not refused"]


def test_a_relay_that_may_not_register_any_more_is_refused_once_that_is_in_force() -> None:
    history = a_history(beats(100, 110))
    history.windows = [narrowed(106, 120)]
    assert breaches(history) == []
    history.windows = [narrowed(104.9, 120)]
    assert breaches(history) == ["a policy is in force"]
    history.deaf = [Deaf("slot-0", 106, 106, 107, 107, certain=False)]
    assert breaches(history) == []  # it was suspended for a second
    history.deaf, history.windows = [], [narrowed(104.9, 110)]
    assert breaches(history) == []  # nor is it sure that it is still in force


def test_a_refused_call_keeps_no_pool_alive() -> None:
    denied = [call._replace(granted="", error=REFUSED) for call in beats(106, 110)]
    history = a_history([*beats(100, 105), *denied])
    history.windows = [narrowed(100, 111)]
    history.listings = [listed(109.4, "p")]
    assert breaches(history) == []
    history.listings = [listed(109.6, "p")]
    assert breaches(history) == [DEAD]


def test_a_breach_tells_what_was_done_for_its_pool_in_short() -> None:
    history = a_history(beats(100, 105))
    history.listings = [listed(103)]
    (told,) = Judge(history).verdict().breaches
    assert "100.000 to 105.000, 6 times: relay calls slot-0 (v0): answered" in told
