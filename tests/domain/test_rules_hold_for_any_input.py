"""What must be true of every registration, tried on generated ones."""

import random
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.domain.errors import MAX_BYTES_TOLD, MAX_VIOLATIONS_TOLD, InvalidInput
from global_discovery.domain.pool import Registration
from global_discovery.domain.rules import (
    RawRegistration,
    check_registration,
    encoded_size,
)
from global_discovery.serving.wire import raw_registration, registration_message

letters = st.characters(exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp"))
strings = st.text(letters, min_size=1, max_size=60)
long_strings = st.text(letters, min_size=1, max_size=250)
key_parts = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,200}[a-z0-9]", fullmatch=True)
addresses = st.ip_addresses().map(lambda ip: f"ip:{ip}")
hosts = st.ip_addresses(v=6).map(lambda ip: f"[{ip}]") | st.from_regex(
    r"[A-Za-z]{1,20}(\.[a-z]{1,9})?", fullmatch=True
)
frontends = st.builds(
    "{}://{}:{}{}".format,
    st.sampled_from(["http", "HTTPS"]),
    hosts,
    st.integers(1, 65_535),
    st.sampled_from(["", "/", "/v1", "/v1/"]),
)
valid = st.builds(
    RawRegistration,
    cluster_id=key_parts,
    namespace=key_parts,
    dgd_name=key_parts,
    model=long_strings,
    region=strings,
    availability_zone=st.just("") | strings,
    datacenter=st.just("") | strings,
    capabilities=st.lists(strings, max_size=8),
    capacity=st.lists(
        st.tuples(st.sampled_from(["a100", "h100"]) | strings, st.integers(1, 100_000)), max_size=8
    ),
    frontends=st.lists(frontends, max_size=8),
    relays=st.lists(addresses, max_size=8),
)

MARKED = "sEcReT"
hostile = st.text(max_size=12).map(lambda text: text + MARKED) | st.just("") | st.text(max_size=3)
broken = st.builds(
    RawRegistration,
    cluster_id=hostile,
    namespace=hostile,
    dgd_name=hostile,
    model=hostile,
    region=hostile,
    availability_zone=hostile,
    datacenter=hostile,
    capabilities=st.lists(hostile, max_size=50),
    capacity=st.lists(st.tuples(hostile, st.integers(-5, 2_000_000)), max_size=50),
    frontends=st.lists(hostile | hostile.map(lambda text: f"http://{text}"), max_size=50),
    relays=st.lists(hostile | hostile.map(lambda text: f"ip:{text}"), max_size=50),
)


def raw(registration: Registration) -> RawRegistration:
    """The registration as somebody would send back what he was shown."""
    key, content, location = (
        registration.key,
        registration.content,
        registration.content.location,
    )
    return RawRegistration(
        *key,
        content.model,
        location.region,
        location.availability_zone,
        location.datacenter,
        content.capabilities,
        content.capacity,
        content.frontends,
        registration.relays,
    )


@given(valid)
def test_what_was_normalised_is_accepted_and_stays_as_it_is(given_: RawRegistration) -> None:
    registration = check_registration(given_)
    assert check_registration(raw(registration)) == registration


@given(valid, st.randoms(use_true_random=False))
def test_neither_order_nor_repetition_is_content(
    given_: RawRegistration, chance: random.Random
) -> None:
    shuffled = RawRegistration(**asdict(given_))
    for name in ("capabilities", "frontends", "relays"):
        twice = list(getattr(given_, name)) * 2
        chance.shuffle(twice)
        setattr(shuffled, name, twice)
    shuffled.capacity = chance.sample(list(given_.capacity), len(given_.capacity))
    assert check_registration(shuffled) == check_registration(given_)


@given(valid)
def test_the_lists_of_a_registration_are_sorted_sets(given_: RawRegistration) -> None:
    registration = check_registration(given_)
    content = registration.content
    skus = tuple(sku for sku, _ in content.capacity)
    for values in (content.capabilities, content.frontends, registration.relays, skus):
        assert list(values) == sorted(set(values))


@given(valid)
def test_the_encoded_size_is_what_protobuf_makes_of_it(given_: RawRegistration) -> None:
    registration = check_registration(given_)
    message = registration_message(registration)
    assert encoded_size(registration) == message.ByteSize() == len(message.SerializeToString())


@given(valid)
def test_a_registration_survives_the_wire(given_: RawRegistration) -> None:
    registration = check_registration(given_)
    assert check_registration(raw_registration(registration_message(registration))) == registration


@pytest.mark.parametrize("length", [1, 127, 128, 129, 1024])
def test_the_encoded_size_is_right_where_a_length_needs_one_more_byte(length: int) -> None:
    registration = check_registration(
        RawRegistration(
            "c", "n", "d", "x" * length, "r", capacity=[("h" * min(length, 253), length)]
        )
    )
    assert encoded_size(registration) == registration_message(registration).ByteSize()


@given(broken)
def test_no_error_repeats_what_the_caller_sent(given_: RawRegistration) -> None:
    try:
        check_registration(given_)
    except InvalidInput as error:
        told = [str(error), *(text for violation in error.violations for text in violation)]
        count, total = len(error.violations), error.total
    else:
        told, count, total = [], 0, 0
    assert not any(MARKED in text for text in told)
    assert all(text.isascii() for text in told)
    assert count == min(total, MAX_VIOLATIONS_TOLD)
    assert sum(len(text) for text in told[1:]) <= MAX_BYTES_TOLD
