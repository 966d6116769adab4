"""What a shared store tells of shares that other instances hear."""

from functools import partial

import pytest

from global_discovery.domain.change import Departure
from global_discovery.domain.completeness import Reason
from global_discovery.domain.errors import LeaseWithdrawn
from global_discovery.domain.events import Event
from global_discovery.storage.store import StoreState
from support.lease_world import KEY, LeaseWorld, a_seen_share, keys


@pytest.fixture
def replica() -> LeaseWorld:
    return LeaseWorld(shared=True)


def test_a_share_at_first_sight_runs_for_what_its_lease_has_left(replica: LeaseWorld) -> None:
    replica.take(a_seen_share(remaining=4.0))
    replica.run(3.75)
    assert replica.listed()
    replica.run(0.5)
    assert replica.listed() is None


def test_one_that_was_never_seen_renewed_leaves_as_unlisted(replica: LeaseWorld) -> None:
    replica.take(a_seen_share(remaining=4.0))
    assert replica.listed()
    replica.run(5)
    replica.drain()
    assert replica.departures[KEY] == [Departure.UNLISTED]


def test_one_that_was_seen_renewed_leaves_as_removed(replica: LeaseWorld) -> None:
    replica.take(a_seen_share(remaining=4.0))
    replica.run(2)
    replica.take(a_seen_share(renewed=True))
    replica.run(14.75)
    assert replica.listed()
    replica.run(1)
    assert replica.listed() is None
    assert replica.departures[KEY] == [Departure.REMOVED]


def test_one_that_was_heard_here_leaves_as_removed(replica: LeaseWorld) -> None:
    replica.take(a_seen_share("s1", remaining=4.0))
    replica.register(relay_id="r1", lease_id="s1")
    assert replica.listed()
    replica.run(16)
    replica.drain()
    assert replica.departures[KEY] == [Departure.REMOVED]


def test_an_old_share_at_first_sight_is_not_listed_until_it_is_renewed(
    replica: LeaseWorld,
) -> None:
    replica.take(a_seen_share(remaining=0.0))
    assert replica.listed() is None
    replica.take(a_seen_share(renewed=True))
    assert replica.listed()


def test_a_stall_before_it_was_seen_does_not_extend_it(replica: LeaseWorld) -> None:
    replica.clock.stop(20.0)
    replica.tick()
    replica.take(a_seen_share(renewed=True))
    replica.run(15.5)
    assert replica.listed() is None


def test_a_reading_never_shortens_a_lease(replica: LeaseWorld) -> None:
    lease = replica.register(relay_id="r1")
    replica.take(a_seen_share(lease, remaining=1.0), a_seen_share(lease, remaining=1.0))
    replica.run(14)
    assert replica.listed()


def test_relays_at_different_instances_that_stay_with_what_they_say_are_warned_about(
    replica: LeaseWorld,
) -> None:
    theirs = partial(a_seen_share, "s2", relay_id="r2", model="b", renewed=True)
    replica.register(relay_id="r1", model="a")
    replica.take(theirs())
    assert replica.count(Event.RELAYS_DISAGREE) == 0
    replica.run(5)
    replica.take(theirs())
    assert replica.count(Event.RELAYS_DISAGREE) == 0
    replica.register(relay_id="r1", model="a")
    assert replica.count(Event.RELAYS_DISAGREE) == 1


def test_an_older_reading_does_not_bring_back_an_older_length(replica: LeaseWorld) -> None:
    replica.take(a_seen_share("s1", granted=60.0))
    assert replica.registrations.renew(["s1"]).regranted
    replica.take(a_seen_share("s1", granted=60.0, remaining=1.0))
    assert not replica.registrations.renew(["s1"]).regranted


def test_the_highest_number_decides_what_a_share_says(replica: LeaseWorld) -> None:
    replica.take(a_seen_share(number=5, model="five", renewed=True))
    replica.take(a_seen_share(number=4, model="four", renewed=True))
    assert replica.model() == "five"
    replica.take(a_seen_share(number=6, model="six", renewed=True))
    assert replica.model() == "six"


def test_a_change_here_counts_above_what_was_seen(replica: LeaseWorld) -> None:
    replica.take(a_seen_share("s1", number=5, model="five"))
    replica.register(relay_id="r2", model="here")
    assert replica.model() == "here"
    replica.take(a_seen_share("s1", number=6, model="there", renewed=True))
    # Equal numbers are decided by the share's identity, here as everywhere.
    assert replica.model() == "here"
    replica.take(a_seen_share("s1", number=7, model="there", renewed=True))
    assert replica.model() == "there"


def test_relays_alone_are_taken_with_a_renewal(replica: LeaseWorld) -> None:
    replica.take(a_seen_share(relays=("ip:10.0.0.1",)))
    replica.take(a_seen_share(relays=("ip:10.0.0.2",), renewed=True))
    assert replica.relays() == ("ip:10.0.0.2",)


def test_an_unchanged_renewal_wakes_nobody(replica: LeaseWorld) -> None:
    replica.take(a_seen_share())
    replica.drain()
    wakes = replica.wakes
    replica.take(a_seen_share(renewed=True))
    assert replica.wakes == wakes
    assert replica.drain() == []


# -- incarnations ----------------------------------------------------------------


def test_a_newer_incarnation_takes_over_the_share(replica: LeaseWorld) -> None:
    replica.take(a_seen_share("s1", model="older", number=8))
    replica.take(a_seen_share("s2", model="newer", number=1, renewed=True))
    assert replica.registrations.shares == 1
    assert replica.model() == "newer"
    assert replica.renew("s1", "s2") == ["s1"]


def test_a_reading_older_than_an_incarnation_begun_here_does_not_end_it(
    replica: LeaseWorld,
) -> None:
    replica.take(a_seen_share("s1"))
    newer = replica.register(relay_id="r1", model="newer")
    replica.take(a_seen_share("s1", model="older", number=9, renewed=True))
    assert replica.model() == "newer"
    assert replica.renew(newer, "s1") == ["s1"]


# -- withdrawals -----------------------------------------------------------------


def test_a_withdrawal_elsewhere_removes_the_pool(replica: LeaseWorld) -> None:
    replica.take(a_seen_share("s1"))
    assert replica.listed()
    replica.take(withdrawn={"s1": 150.0})
    assert replica.listed() is None
    assert replica.departures[KEY] == [Departure.REMOVED]
    with pytest.raises(LeaseWithdrawn):
        replica.register(relay_id="r1", lease_id="s1")


def test_a_later_incarnation_that_was_withdrawn_takes_the_known_one_along(
    replica: LeaseWorld,
) -> None:
    replica.take(a_seen_share("s1", renewed=True))
    replica.take(withdrawn={"s2": 150.0})
    replica.take(a_seen_share("s2", remaining=0.0))
    assert replica.listed() is None
    assert replica.departures[KEY] == [Departure.REMOVED]


def test_one_that_was_replaced_here_takes_nothing_along(replica: LeaseWorld) -> None:
    replica.take(a_seen_share("s1", renewed=True))
    replica.register(relay_id="r1")
    replica.take(withdrawn={"s1": 150.0})
    replica.take(a_seen_share("s1", remaining=0.0))
    assert replica.listed()


def test_whatever_is_written_later_to_a_withdrawn_share_it_is_not_live(
    replica: LeaseWorld,
) -> None:
    replica.take(a_seen_share("s1", renewed=True), withdrawn={"s1": 150.0})
    assert replica.listed() is None
    replica.take(a_seen_share("s1", renewed=True, number=99))
    assert replica.listed() is None


def test_a_new_incarnation_after_a_withdrawal_is_live(replica: LeaseWorld) -> None:
    replica.take(a_seen_share("s1"))
    replica.take(a_seen_share("s2", renewed=True), withdrawn={"s1": 150.0})
    assert replica.listed()


# -- start and doubt --------------------------------------------------------------


def test_first_sight_at_the_start_is_not_restored() -> None:
    replica = LeaseWorld(ready=False, shared=True)
    replica.restore(a_seen_share(remaining=4.0))
    replica.registrations.ready()
    replica.register(keys(1)[0])
    assert replica.listed()
    replica.run(4.5)
    assert replica.listed() is None
    assert replica.departures[KEY] == [Departure.UNLISTED]


def test_the_start_lasts_as_long_as_the_longest_lease_that_was_found() -> None:
    replica = LeaseWorld(ready=False, shared=True)
    replica.restore(a_seen_share(granted=60.0))
    replica.registrations.ready()
    replica.register(keys(1)[0])
    replica.take(a_seen_share("s2", relay_id="r2", granted=600.0))  # no more a matter of the start
    replica.run(59)
    assert replica.mark() == {"STARTING"}
    replica.run(2)
    assert replica.mark() == set()


@pytest.mark.parametrize("reason", [Reason.STORE_UNREADABLE, Reason.REGION_SILENT])
def test_a_reason_of_the_store_holds_for_one_lease_after_it_ended(reason: Reason) -> None:
    replica = LeaseWorld(shared=True)
    replica.register()
    replica.run(40)
    assert replica.mark() == set()
    replica.store = StoreState(reasons=frozenset({reason}))
    replica.registrations.store_changed()
    assert replica.mark() == {reason.value}
    replica.run(3)
    replica.store = StoreState()
    replica.run(14.5)
    assert replica.mark() == {reason.value}
    replica.run(1)
    assert replica.mark() == set()


def test_a_lease_that_ends_in_doubt_leaves_as_unlisted_and_before_or_after_as_removed() -> None:
    replica = LeaseWorld(shared=True)
    before, within, lag, after = keys(4)
    for key in (before, within, lag, after):
        replica.register(key, relay_id="r")
    replica.run(5)
    for key in (within, lag, after):
        replica.register(key, relay_id="r")
    replica.run(10.25)
    replica.drain()
    replica.store = StoreState(reasons=frozenset({Reason.STORE_UNREADABLE}))
    for key in (lag, after):
        replica.register(key, relay_id="r")
    replica.run(6)
    replica.store = StoreState()
    replica.run(8)
    replica.register(after, relay_id="r")
    replica.run(20)
    replica.drain()
    assert {key: kinds[-1].value for key, kinds in replica.departures.items()} == {
        before: "removed",
        within: "unlisted",
        lag: "unlisted",
        after: "removed",
    }


def test_doubt_is_judged_by_when_the_lease_ended_not_by_when_that_was_seen(
    replica: LeaseWorld,
) -> None:
    replica.register()
    replica.store = StoreState(reasons=frozenset({Reason.STORE_UNREADABLE}))
    replica.run(0.25)
    replica.store = StoreState()
    replica.run(14.625)
    assert replica.listed()
    replica.clock.advance(0.5)  # within it the lease ends, and a moment later the doubt
    replica.tick()
    assert replica.mark() == set()
    assert replica.departures[KEY] == [Departure.UNLISTED]


def test_the_bound_is_the_stores(replica: LeaseWorld) -> None:
    replica.store = StoreState(bound=2.5)
    assert replica.registrations.drain().mark.bound == 2.5
