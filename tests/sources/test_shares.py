"""Several relays of one pool: who holds which share, and what is listed of them."""

import pytest

from global_discovery.domain.errors import TooManyShares
from global_discovery.domain.events import Event
from global_discovery.domain.rules import relay_identity
from support.lease_world import KEY, LeaseWorld, keys


def test_relays_with_their_own_ids_hold_shares_of_their_own(world: LeaseWorld) -> None:
    world.register(relay_id="r1")
    world.register(relay_id="r2")
    assert world.registrations.shares == 2
    assert len(world.registrations) == 1


def test_without_a_relay_id_the_relays_of_the_call_tell_shares_apart(world: LeaseWorld) -> None:
    world.register(relays=("ip:10.1.0.1",))
    world.register(relays=("ip:10.1.0.2",))
    world.register(relays=("ip:10.1.0.1",), caller="10.0.0.9")
    assert world.registrations.shares == 2


def test_without_both_the_address_of_the_caller_tells_shares_apart(world: LeaseWorld) -> None:
    world.register(caller="10.0.0.1")
    world.register(caller="10.0.0.2")
    world.register(caller="10.0.0.1")
    assert world.registrations.shares == 2


def test_a_name_of_one_kind_is_never_taken_for_one_of_another(world: LeaseWorld) -> None:
    address = relay_identity("ip:10.0.0.1")
    world.register(relay_id=address)
    world.register(relays=(address,))
    world.register(caller=address)
    assert world.registrations.shares == 3


def test_the_same_relay_id_in_two_pools_is_two_shares(world: LeaseWorld) -> None:
    first, second = keys(2)
    world.register(first, relay_id="r1")
    world.register(second, relay_id="r1")
    assert world.withdraw(first, relay_id="r1") == 1
    assert world.listed(second)


def test_any_live_share_keeps_the_pool_alive(world: LeaseWorld) -> None:
    world.register(relay_id="r1")
    kept = world.register(relay_id="r2")
    for _ in range(6):
        world.run(5)
        assert world.renew(kept) == []
    assert world.registrations.shares == 1
    assert world.listed()


def test_a_pool_takes_64_shares_and_refuses_one_more(world: LeaseWorld) -> None:
    for number in range(64):
        world.register(relay_id=f"r{number}")
    with pytest.raises(TooManyShares) as refused:
        world.register(relay_id="r64", model="other")
    assert refused.value.retry_after == 15
    assert world.registrations.shares == 64
    assert world.model() == "m"
    world.register(relay_id="r63")
    world.withdraw(relay_id="r0")
    world.register(relay_id="r64")
    assert world.registrations.shares == 64


def test_a_refused_share_is_no_sign_that_the_instance_listens(world: LeaseWorld) -> None:
    ids = [world.register(relay_id=f"r{number}") for number in range(64)]
    world.clock.stop(6)
    world.tick()
    with pytest.raises(TooManyShares):
        world.register(relay_id="r64")
    world.run(3)
    world.renew(*ids)
    world.run(14.5)
    assert world.mark() == {"STALLED"}
    world.run(1)
    assert world.mark() == set()


# -- content -----------------------------------------------------------------


def test_the_content_that_changed_last_is_listed(world: LeaseWorld) -> None:
    first = world.register(relay_id="r1", model="a")
    second = world.register(relay_id="r2", model="b")
    assert world.model() == "b"
    world.register(relay_id="r1", model="c", lease_id=first)
    assert world.model() == "c"
    world.register(relay_id="r2", model="b", lease_id=second)
    assert world.model() == "c"


def test_relays_that_disagree_do_not_alternate_and_warn_once(world: LeaseWorld) -> None:
    world.register(relay_id="r1", model="a")
    world.register(relay_id="r2", model="b")
    world.drain()
    changes = 0
    for _ in range(20):
        world.run(1)
        world.register(relay_id="r1", model="a")
        world.register(relay_id="r2", model="b")
        changes += len(world.drain())
    assert changes == 0
    assert world.count(Event.RELAYS_DISAGREE) == 1


def repeat(world: LeaseWorld, **models: str) -> None:
    """Each relay says once more, a second later, what it said."""
    world.run(1)
    for relay_id, model in models.items():
        world.register(relay_id=relay_id, model=model)


def test_a_third_relay_that_disagrees_too_is_no_further_warning(world: LeaseWorld) -> None:
    for _ in range(2):
        repeat(world, r0="m0", r1="m1")
    assert world.count(Event.RELAYS_DISAGREE) == 1
    for _ in range(2):
        repeat(world, r0="m9", r1="m1", r2="m2")
    assert world.count(Event.RELAYS_DISAGREE) == 1


def test_relays_that_agreed_in_between_are_warned_about_again(world: LeaseWorld) -> None:
    for _ in range(2):
        repeat(world, r1="a", r2="b")
    assert world.count(Event.RELAYS_DISAGREE) == 1
    repeat(world, r1="a", r2="a")
    for _ in range(2):
        repeat(world, r1="a", r2="b")
    assert world.count(Event.RELAYS_DISAGREE) == 2


def test_relays_that_follow_a_change_one_after_the_other_do_not_disagree(
    world: LeaseWorld,
) -> None:
    repeat(world, r1="a", r2="a")
    repeat(world, r1="b", r2="a")
    repeat(world, r2="a")
    repeat(world, r2="b")
    repeat(world, r1="b", r2="b")
    assert world.count(Event.RELAYS_DISAGREE) == 0


def test_a_relay_that_is_gone_is_not_waited_for(world: LeaseWorld) -> None:
    repeat(world, r1="a", r2="b", r3="c")
    repeat(world, r1="a", r2="b")
    assert world.count(Event.RELAYS_DISAGREE) == 0
    world.run(14)
    for _ in range(2):
        repeat(world, r1="a", r2="b")
    assert world.count(Event.RELAYS_DISAGREE) == 1


def test_when_the_listed_share_ends_the_content_that_changed_before_it_counts(
    world: LeaseWorld,
) -> None:
    world.register(relay_id="r1", model="a")
    world.register(relay_id="r2", model="b")
    world.register(relay_id="r3", model="c")
    world.register(relay_id="r1", model="a2")
    assert world.model() == "a2"
    world.withdraw(relay_id="r1")
    assert world.model() == "c"
    world.withdraw(relay_id="r3")
    assert world.model() == "b"


def test_a_change_after_the_highest_share_ended_is_numbered_above_all_that_live(
    world: LeaseWorld,
) -> None:
    world.register(relay_id="r9", model="a")
    world.register(relay_id="r2", model="b")
    world.withdraw(relay_id="r2")
    world.register(relay_id="r1", model="c")
    assert world.model() == "c"


def test_a_change_of_relays_alone_is_seen_but_does_not_make_the_content_listed(
    world: LeaseWorld,
) -> None:
    world.register(relay_id="r1", model="a", relays=("ip:10.1.0.1",))
    world.register(relay_id="r2", model="b", relays=("ip:10.1.0.2",))
    world.register(relay_id="r1", model="a", relays=("ip:10.1.0.3",))
    assert world.model() == "b"
    assert world.relays() == ("ip:10.1.0.2", "ip:10.1.0.3")


def test_model_and_frontends_changed_in_one_call_are_one_change(world: LeaseWorld) -> None:
    world.register(model="a", relays=("ip:10.1.0.1",))
    world.drain()
    world.register(model="b", relays=("ip:10.1.0.1", "ip:10.1.0.2"), relay_id="")
    assert world.drain() == [KEY]


def test_an_unchanged_renewal_leaves_nothing_to_drain_and_wakes_nobody(world: LeaseWorld) -> None:
    lease = world.register(model="a")
    world.run(16)
    lease = world.register(model="a")
    world.drain()
    wakes = world.wakes
    world.register(model="a", lease_id=lease)
    world.renew(lease)
    assert world.drain() == []
    assert world.wakes == wakes


def test_a_new_incarnation_with_the_same_content_changes_nothing_in_the_view(
    world: LeaseWorld,
) -> None:
    world.register(model="a")
    world.drain()
    world.register(model="a")
    assert world.drain() == []


# -- callers that cannot be told apart ----------------------------------------


def test_of_callers_that_cannot_be_told_apart_the_last_call_counts(world: LeaseWorld) -> None:
    world.register(model="a")
    world.register(model="b")
    assert world.registrations.shares == 1
    assert world.model() == "b"


def test_callers_that_cannot_be_told_apart_and_alternate_are_warned_about_once(
    world: LeaseWorld,
) -> None:
    for _ in range(10):
        world.register(model="a")
        world.run(1)
        world.register(model="b")
        world.run(1)
    assert world.count(Event.RELAY_ID_NEEDED) == 1


def test_two_relays_with_one_relay_id_are_warned_about_once(world: LeaseWorld) -> None:
    first = second = ""
    for _ in range(10):
        first = world.register(model="a", relay_id="same", lease_id=first)
        world.run(1)
        second = world.register(model="b", relay_id="same", lease_id=second)
        world.run(1)
    assert world.count(Event.RELAY_ID_NEEDED) == 1


def test_relays_that_alternate_under_one_relay_id_are_warned_about_once(world: LeaseWorld) -> None:
    for _ in range(10):
        world.register(relays=("ip:10.0.0.1",), relay_id="same")
        world.register(relays=("ip:10.0.0.2",), relay_id="same")
    assert world.count(Event.RELAY_ID_NEEDED) == 1


def test_six_callers_behind_one_address_are_warned_about_too(world: LeaseWorld) -> None:
    for round_ in range(2):
        assert world.count(Event.RELAY_ID_NEEDED) == 0
        for number in range(6):
            world.register(model=f"m{number}")
            if round_ == 0:
                world.run(0.5)
    assert world.count(Event.RELAY_ID_NEEDED) == 1


def test_a_content_that_comes_back_after_more_than_a_lease_warns_nobody(world: LeaseWorld) -> None:
    world.register(model="a")
    world.register(model="b")
    for _ in range(4):
        world.run(4)
        world.register(model="b")
    world.register(model="a")
    assert world.count(Event.RELAY_ID_NEEDED) == 0


def test_content_that_only_moves_on_warns_nobody(world: LeaseWorld) -> None:
    for number in range(5):
        world.register(model=f"m{number}")
    assert world.count(Event.RELAY_ID_NEEDED) == 0


def test_one_caller_that_carries_its_lease_may_go_back(world: LeaseWorld) -> None:
    lease = world.register(model="a")
    for model in ("b", "a", "b", "a"):
        world.register(model=model, lease_id=lease)
    assert world.count(Event.RELAY_ID_NEEDED) == 0


# -- relays ------------------------------------------------------------------


def test_relays_is_the_sorted_union_over_the_live_shares(world: LeaseWorld) -> None:
    world.register(relay_id="r1", relays=("ip:10.1.0.2", "ip:10.1.0.3"))
    world.register(relay_id="r2", relays=("ip:10.1.0.1", "ip:10.1.0.3"))
    assert world.relays() == ("ip:10.1.0.1", "ip:10.1.0.2", "ip:10.1.0.3")
    world.withdraw(relay_id="r1")
    assert world.relays() == ("ip:10.1.0.1", "ip:10.1.0.3")


def test_of_more_than_256_relays_those_of_the_newest_shares_are_listed(world: LeaseWorld) -> None:
    def block(number: int) -> tuple[str, ...]:
        return tuple(sorted(f"ip:10.{number}.0.{host}" for host in range(200)))

    world.register(relay_id="old", relays=block(1))
    world.register(relay_id="new", relays=block(2))
    world.register(relay_id="old", relays=block(1))
    listed = world.relays()
    assert len(listed) == 256
    assert set(block(2)) < set(listed)
    assert list(listed) == sorted(listed)
    world.withdraw(relay_id="new")
    assert world.relays() == block(1)


def test_without_relays_the_address_of_the_call_that_began_the_share_is_recorded(
    world: LeaseWorld,
) -> None:
    lease = world.register(relay_id="r1", caller="10.0.0.1")
    world.register(relay_id="r1", caller="10.0.0.2")
    world.register(relay_id="r1", caller="10.0.0.3", lease_id=lease)
    assert world.relays() == ("ip:10.0.0.1",)


def test_relays_that_a_later_call_gives_are_taken(world: LeaseWorld) -> None:
    lease = world.register(relay_id="r1", caller="10.0.0.1")
    world.register(relay_id="r1", relays=("ip:10.1.0.1",), lease_id=lease)
    assert world.relays() == ("ip:10.1.0.1",)


# -- sequence ----------------------------------------------------------------


def test_a_call_that_was_overtaken_changes_nothing(world: LeaseWorld) -> None:
    lease = world.register(model="a")
    world.register(model="new", lease_id=lease, sequence=7)
    world.run(14)
    assert world.register(model="old", lease_id=lease, sequence=6) == lease
    assert world.model() == "new"
    world.run(1.25)
    assert world.listed() is None


def test_a_repeated_sequence_and_an_absent_one_are_taken(world: LeaseWorld) -> None:
    lease = world.register(model="a", sequence=7)
    world.register(model="b", lease_id=lease, sequence=7)
    assert world.model() == "b"
    world.register(model="c", lease_id=lease)
    assert world.model() == "c"
    world.register(model="d", lease_id=lease, sequence=6)
    assert world.model() == "c"


def test_a_sequence_begins_anew_with_each_lease_id(world: LeaseWorld) -> None:
    world.register(model="a", sequence=7)
    lease = world.register(model="b", sequence=1)
    assert world.model() == "b"
    world.register(model="c", lease_id=lease, sequence=2)
    assert world.model() == "c"


def test_a_sequence_of_the_former_incarnation_holds_nothing_back(world: LeaseWorld) -> None:
    world.register(model="a", sequence=7)
    lease = world.register(model="b")
    world.register(model="c", lease_id=lease, sequence=1)
    assert world.model() == "c"
