"""Which model is registered: each sentence of the rule."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.client.topology import (
    RegistrationChoice,
    ServedModel,
    UnregisteredReason,
    choose_model,
)

NOTHING = RegistrationChoice(None, UnregisteredReason.NO_MODEL)
SEVERAL = RegistrationChoice(None, UnregisteredReason.SEVERAL_MODELS)


def ready(*names: str) -> list[ServedModel]:
    return [ServedModel(name, ready=True) for name in names]


def loading(*names: str) -> list[ServedModel]:
    return [ServedModel(name, ready=False) for name in names]


def registers(model: str) -> RegistrationChoice:
    return RegistrationChoice(model, None)


def test_without_a_model_nothing_is_registered() -> None:
    assert choose_model([], None) == NOTHING


def test_the_one_ready_model_is_registered() -> None:
    assert choose_model(ready("a"), None) == registers("a")


def test_the_one_ready_model_is_registered_beside_others_that_are_not_ready() -> None:
    assert choose_model([*loading("a", "c"), *ready("b")], None) == registers("b")


def test_the_only_model_is_registered_while_none_is_ready() -> None:
    assert choose_model(loading("a"), None) == registers("a")


def test_of_several_ready_models_none_is_registered() -> None:
    assert choose_model(ready("a", "b"), None) == SEVERAL


def test_of_several_models_of_which_none_is_ready_none_is_registered() -> None:
    assert choose_model(loading("a", "b"), None) == SEVERAL


def test_the_registered_model_is_kept_when_it_is_no_longer_ready() -> None:
    assert choose_model(loading("a"), "a") == registers("a")


def test_the_registered_model_is_kept_when_another_one_is_the_only_ready_one() -> None:
    assert choose_model([*loading("a"), *ready("b")], "a") == registers("a")


def test_the_registered_model_is_kept_when_several_are_ready() -> None:
    assert choose_model(ready("a", "b", "c"), "b") == registers("b")


def test_a_registered_model_that_disappeared_makes_room_for_the_one_that_is_there() -> None:
    assert choose_model(ready("b"), "a") == registers("b")


def test_a_registered_model_that_disappeared_leaves_nothing_when_none_is_left() -> None:
    assert choose_model([], "a") == NOTHING


def test_a_registered_model_that_disappeared_leaves_nothing_when_several_are_left() -> None:
    assert choose_model(ready("b", "c"), "a") == SEVERAL


def test_a_model_that_returns_is_registered_again() -> None:
    registered = choose_model([], "a").model
    assert choose_model(loading("a"), registered) == registers("a")


def test_a_model_that_returns_does_not_displace_the_one_registered_meanwhile() -> None:
    registered = choose_model(ready("b"), "a").model
    assert choose_model([*ready("a"), *loading("b")], registered) == registers("b")


def test_adapters_do_not_count_beside_their_model() -> None:
    adapters = [ServedModel("lora-1", True, parent="a"), ServedModel("lora-2", True, parent="a")]
    assert choose_model([*adapters, *ready("a")], None) == registers("a")


def test_adapters_alone_are_no_model() -> None:
    assert choose_model([ServedModel("lora", True, parent="a")], None) == NOTHING


def test_a_registered_model_that_is_now_an_adapter_is_gone() -> None:
    entries = [ServedModel("a", True, parent="b"), *loading("b")]
    assert choose_model(entries, "a") == registers("b")


def test_entries_of_one_name_are_one_model_ready_when_one_of_them_is() -> None:
    entries = [*ready("a"), *loading("a", "a", "b")]
    assert choose_model(entries, None) == registers("a")


@pytest.mark.parametrize("views", list(itertools.product([ready, loading], repeat=4)))
def test_two_relays_that_see_different_readiness_do_not_split(views: object) -> None:
    """Both registered `a`; then each sees `a` and `b` in states of its own."""
    first_a, first_b, second_a, second_b = views  # type: ignore[misc]
    one = choose_model([*first_a("a"), *first_b("b")], "a")
    other = choose_model([*second_b("b"), *second_a("a")], "a")
    assert one == other == registers("a")


ENTRIES = st.lists(
    st.builds(
        ServedModel,
        st.sampled_from("abcd"),
        st.booleans(),
        st.sampled_from(["", "", "", "parent"]),
    ),
    max_size=6,
)


@given(ENTRIES, st.sampled_from([None, *"abcd"]), st.randoms(use_true_random=False))
def test_the_order_of_the_entries_does_not_matter(
    entries: list[ServedModel], registered: str | None, random: object
) -> None:
    shuffled = list(entries)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert choose_model(entries, registered) == choose_model(shuffled, registered)


@given(ENTRIES, st.sampled_from([None, *"abcd"]))
def test_what_is_registered_is_served_and_settles(
    entries: list[ServedModel], registered: str | None
) -> None:
    choice = choose_model(entries, registered)
    assert (choice.model is None) == (choice.reason is not None)
    if choice.model is not None:
        assert choice.model in {entry.name for entry in entries if not entry.parent}
        assert choose_model(entries, choice.model) == choice
