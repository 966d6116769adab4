"""The names of callers: of each kind in a form of its own."""

import pytest

from global_discovery.serving.access.identity import (
    certificate_identity,
    service_account_identity,
)


@pytest.mark.parametrize(
    ("uris", "dns_names", "identity"),
    [
        (["spiffe://east/ns/a"], ["relay.example"], "spiffe://east/ns/a"),
        (["SPIFFE://east/ns/A"], [], "spiffe://east/ns/A"),
        (["spiffe://east/a", "spiffe://west/a"], ["relay.example"], ""),
        ([], ["Relay.Example", "other.example"], "dns:relay.example"),
        ([], [], ""),
        (["urn:uuid:1"], ["relay.example"], ""),
        (["sa:east/dynamo/relay"], [], ""),
        (["dns:relay.example"], [], ""),
        (["dns://relay.example"], [], ""),
        (["DNS://relay.example"], ["relay.example"], ""),
        (["sa://east/dynamo/relay"], [], ""),
        (["dnsx://relay.example"], [], "dnsx://relay.example"),
        (["spiffe://east/*"], [], ""),
        (["spiffe://east/a b"], [], ""),
        (["spiffe://east/" + "a" * 3000], [], ""),
        ([], ["*.example"], ""),
        ([], ["a/b"], ""),
    ],
)
def test_a_certificate_is_known_by_one_uri_else_by_its_first_dns_name(
    uris: list[str], dns_names: list[str], identity: str
) -> None:
    assert certificate_identity(uris, dns_names) == identity


@pytest.mark.parametrize(
    ("username", "identity"),
    [
        ("system:serviceaccount:dynamo:relay", "sa:east/dynamo/relay"),
        ("system:serviceaccount:dynamo:relay/x", ""),
        ("system:serviceaccount:dynamo", ""),
        ("system:serviceaccount:dynamo:*", ""),
        ("system:admin", ""),
        ("relay", ""),
        ("", ""),
    ],
)
def test_only_service_accounts_are_known_by_a_token(username: str, identity: str) -> None:
    assert service_account_identity("east", username) == identity
