"""What a store of one's own had, after a restart: whole leases, from when we listen."""

import pytest

from global_discovery.domain.change import Departure
from global_discovery.domain.errors import LeaseWithdrawn
from support.lease_world import KEY, LeaseWorld, a_seen_share, keys


@pytest.fixture
def starting() -> LeaseWorld:
    """Its store is read and nobody can reach it yet."""
    return LeaseWorld(ready=False)


def test_a_restored_share_is_listed_as_it_was(starting: LeaseWorld) -> None:
    starting.restore(a_seen_share(model="kept", relays=("ip:10.0.0.7",)))
    assert starting.model() == "kept"
    assert starting.relays() == ("ip:10.0.0.7",)
    listed = starting.listed()
    assert listed is not None
    assert listed.registered_time == listed.changed_time == 1.0
    assert starting.mark() == {"STARTING"}


@pytest.mark.parametrize("remaining", [0.25, 7.0, 15.0])
def test_its_lease_is_a_whole_one_from_when_the_instance_listens(
    starting: LeaseWorld, remaining: float
) -> None:
    starting.restore(a_seen_share(remaining=remaining))
    starting.run(40)  # until somebody can reach it
    starting.registrations.ready()
    starting.run(6)
    starting.register(keys(1)[0])  # now it listens
    starting.run(14.5)
    assert starting.listed()
    starting.run(1)
    assert starting.listed() is None
    assert starting.departures[KEY] == [Departure.REMOVED]


def test_when_nobody_calls_it_ends_two_leases_after_the_instance_is_ready(
    starting: LeaseWorld,
) -> None:
    starting.restore(a_seen_share())
    starting.registrations.ready()
    starting.run(29.75)
    assert starting.listed()
    assert starting.mark() == {"STARTING"}
    starting.run(1)
    assert starting.listed() is None
    assert starting.mark() == set()


def test_its_id_stays_valid(starting: LeaseWorld) -> None:
    starting.restore(a_seen_share("kept"))
    starting.registrations.ready()
    assert starting.register(relay_id="r1", lease_id="kept") == "kept"
    assert starting.renew("kept") == []


def test_a_share_whose_lease_had_ended_is_not_restored(starting: LeaseWorld) -> None:
    starting.restore(a_seen_share(remaining=0.0))
    assert starting.listed() is None


def test_a_longer_lease_is_restored_whole_and_lengthens_the_start(starting: LeaseWorld) -> None:
    starting.restore(a_seen_share(granted=60.0, remaining=10.0))
    starting.registrations.ready()
    starting.register(keys(1)[0], relay_id="other")
    starting.run(59)
    assert starting.listed()
    assert starting.mark() == {"STARTING"}
    starting.run(2)
    assert starting.listed() is None
    assert starting.mark() == set()


def test_a_longer_lease_that_is_renewed_becomes_one_of_this_instances_length(
    starting: LeaseWorld,
) -> None:
    starting.restore(a_seen_share("kept", granted=60.0))
    starting.registrations.ready()
    assert starting.renew("kept") == []
    starting.run(14.5)
    assert starting.listed()
    starting.run(1)
    assert starting.listed() is None


def test_a_longer_lease_that_begins_anew_becomes_one_of_this_instances_length(
    starting: LeaseWorld,
) -> None:
    starting.restore(a_seen_share(granted=3600.0))
    starting.registrations.ready()
    starting.register(relay_id="r1")
    starting.run(15.5)
    assert starting.listed() is None


@pytest.mark.parametrize(("before", "lives"), [(2, True), (3, False)])
def test_restorations_and_extensions_are_three_in_all_without_a_renewal(
    starting: LeaseWorld, before: int, *, lives: bool
) -> None:
    starting.restore(a_seen_share(remaining=2.0, extensions=before))
    starting.registrations.ready()
    starting.register(keys(1)[0])
    starting.run(2.5)
    assert (starting.listed() is not None) is lives
    starting.clock.stop(20.0)  # the fourth time, for the one that lived
    starting.run(0.25)
    assert starting.listed() is None


def test_a_renewal_makes_them_three_again(starting: LeaseWorld) -> None:
    starting.restore(a_seen_share("kept", extensions=3))
    starting.registrations.ready()
    starting.renew("kept")
    for _ in range(3):
        starting.clock.stop(20.0)
        starting.run(0.25)
        starting.register(keys(1)[0])
    assert starting.listed()


def test_a_withdrawn_id_is_refused_after_a_restart_as_long_as_it_is_remembered(
    starting: LeaseWorld,
) -> None:
    starting.restore(a_seen_share("gone"), withdrawn={"gone": 20.0})
    starting.registrations.ready()
    assert starting.listed() is None
    with pytest.raises(LeaseWithdrawn):
        starting.register(relay_id="r1", lease_id="gone")
    starting.run(21)
    assert starting.register(relay_id="r1", lease_id="gone") == "id-1"


def test_a_sequence_goes_on_over_a_restart(starting: LeaseWorld) -> None:
    starting.restore(a_seen_share("kept", model="newer", sequence=7))
    starting.registrations.ready()
    starting.register(relay_id="r1", lease_id="kept", sequence=6, model="late")
    assert starting.model() == "newer"


def test_what_changes_after_a_restart_counts_above_what_was_restored(
    starting: LeaseWorld,
) -> None:
    starting.restore(
        a_seen_share("s1", relay_id="r1", number=4, model="four"),
        a_seen_share("s2", relay_id="r2", number=9, model="nine"),
    )
    starting.registrations.ready()
    assert starting.model() == "nine"
    starting.register(relay_id="r1", lease_id="s1", model="ten")
    assert starting.model() == "ten"


def test_shares_that_were_moved_are_told_to_the_store(starting: LeaseWorld) -> None:
    starting.restore(a_seen_share("kept", remaining=1.0))
    starting.registrations.ready()
    starting.register(keys(1)[0])
    starting.registrations.take_judged()
    starting.run(2)
    judged, (moved,) = starting.registrations.take_judged()
    assert (moved.lease_id, moved.extensions) == ("kept", 1)
    assert moved.deadline == pytest.approx(starting.clock.monotonic() + 13)
    assert judged == pytest.approx(starting.clock.monotonic() - 0.2)
    assert starting.registrations.take_judged()[1] == []


def test_while_lease_ends_are_behind_they_are_not_judged(starting: LeaseWorld) -> None:
    starting.registrations.ready()
    for key in keys(6000):
        starting.register(key)
    starting.run(5)
    before, _ = starting.registrations.take_judged()
    starting.clock.advance(0.5)
    for _ in range(27):
        starting.clock.advance(0.5)
        more = starting.registrations.tick()
        if more:
            break
        before, _ = starting.registrations.take_judged()
    assert more
    assert starting.registrations.take_judged()[0] == before
