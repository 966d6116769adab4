"""The rules about what a call names besides the content of a pool."""

from typing import Any

import pytest

from global_discovery.domain import rules
from global_discovery.domain.errors import InvalidInput


@pytest.mark.parametrize("relay_id", ["", "r", "a b/c", "~" * 128])
def test_a_relay_id_is_short_printable_ascii(relay_id: str) -> None:
    rules.check_caller_ids(relay_id=relay_id)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"relay_id": "~" * 129}, "relay_id"),
        ({"relay_id": "ä"}, "relay_id"),
        ({"relay_id": "a\n"}, "relay_id"),
        ({"lease_id": "x" * 65}, "lease_id"),
        ({"lease_id": "a\x00"}, "lease_id"),
        ({"sequence": -1}, "sequence"),
        ({"sequence": 2**64}, "sequence"),
    ],
)
def test_an_id_or_sequence_beyond_its_limits_is_refused(given: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        rules.check_caller_ids(**given)
    assert [violation.field for violation in refused.value.violations] == [field]


def test_ids_and_a_sequence_at_their_limits_are_taken() -> None:
    rules.check_caller_ids(relay_id="x" * 128, lease_id="x" * 64, sequence=2**64 - 1)


def test_a_batch_has_at_most_10000_ids_of_at_most_64_bytes() -> None:
    rules.check_lease_ids([])
    rules.check_lease_ids(["x" * 64, "é" * 32] * 5000)
    with pytest.raises(InvalidInput) as refused:
        rules.check_lease_ids(["x"] * 10_001)
    assert [violation.field for violation in refused.value.violations] == ["lease_ids"]
    with pytest.raises(InvalidInput) as refused:
        rules.check_lease_ids(["ok", "x" * 65, "ok", "é" * 33, "\ud800" * 22])
    fields = [violation.field for violation in refused.value.violations]
    assert fields == ["lease_ids[1]", "lease_ids[3]", "lease_ids[4]"]


def test_a_key_alone_follows_the_same_rules() -> None:
    assert rules.check_key("c", "n", "d") == ("c", "n", "d")
    with pytest.raises(InvalidInput) as refused:
        rules.check_key("", "a/b", "..")
    fields = [violation.field for violation in refused.value.violations]
    assert fields == ["cluster_id", "namespace", "dgd_name"]


def test_relays_alone_follow_the_same_rules() -> None:
    assert rules.check_relays(["ip:10.0.0.2", "ip:::ffff:10.0.0.1"]) == (
        "ip:10.0.0.1",
        "ip:10.0.0.2",
    )
    with pytest.raises(InvalidInput):
        rules.check_relays(["x"])


def test_a_call_is_refused_with_every_field_at_once_also_those_beside_the_registration() -> None:
    with pytest.raises(InvalidInput) as refused:
        rules.check_registration(rules.RawRegistration(model="m"), relay_id="ä", sequence=-1)
    fields = {violation.field for violation in refused.value.violations}
    key = {"cluster_id", "namespace", "dgd_name"}
    assert fields == {"relay_id", "sequence", "location.region"} | key
