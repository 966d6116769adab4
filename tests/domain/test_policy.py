"""The policy: what it allows, and what it refuses to be."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.domain.policy import MAX_BYTES, BadPolicy, matches, parse
from global_discovery.domain.pool import PoolKey

RULE = """
[[rule]]
identities = ["sa:east/dynamo/relay"]
may = ["register"]
clusters = ["east"]
namespaces = ["models-*"]
"""
KEY = PoolKey("east", "models-1", "qwen")


def refusal(text: str) -> str:
    with pytest.raises(BadPolicy) as bad:
        parse(text.encode())
    return str(bad.value)


def test_a_rule_allows_what_it_says_and_nothing_else() -> None:
    rights = parse(RULE.encode()).rights("sa:east/dynamo/relay")
    assert rights.register.holds(KEY)
    assert not rights.register.holds(KEY._replace(cluster_id="west"))
    assert not rights.register.holds(KEY._replace(namespace="other"))
    assert rights.read.empty


def test_whom_no_rule_names_may_nothing() -> None:
    rights = parse(RULE.encode()).rights("sa:east/dynamo/other")
    assert (rights.read.empty, rights.register.empty) == (True, True)


def test_without_namespaces_a_rule_is_about_all_of_them() -> None:
    policy = parse(RULE.replace('namespaces = ["models-*"]', "").encode())
    assert policy.rights("sa:east/dynamo/relay").register.holds(KEY._replace(namespace="x"))


def test_what_several_rules_allow_adds_up() -> None:
    more = RULE.replace("register", "read").replace('"east"', '"*"').replace("models-*", "*")
    rights = parse((RULE + more).encode()).rights("sa:east/dynamo/relay")
    assert (rights.read.unlimited, rights.register.unlimited) == (True, False)


@pytest.mark.parametrize(
    ("pattern", "identity", "means"),
    [
        ("*", "anything", True),
        ("sa:east/dynamo/relay", "sa:east/dynamo/relay", True),
        ("sa:east/dynamo/relay", "sa:east/dynamo/relay-2", False),
        ("sa:east/*", "sa:east/dynamo/relay", True),
        ("sa:east/*", "sa:east-2/dynamo/relay", False),
        ("sa:east/dynamo/*", "sa:east/dynamo-2/relay", False),
        ("spiffe://e/*", "spiffe://e/ns/a", True),
        ("spiffe://e/*", "spiffe://e/", False),
        ("spiffe://e/*", "spiffe://e", False),
        ("spiffe://e/*", "spiffe://e.evil/ns/a", False),
        ("spiffe://e/ns/a", "spiffe://e/ns/A", False),
        ("dns:*.example", "dns:relay.example", True),
        ("dns:*.example", "dns:a.relay.example", False),
        ("dns:*.example", "dns:example", False),
        ("dns:*.example", "dns:.example", False),
        ("dns:*.example", "spiffe://x.example", False),
        ("dns:*.example", "dns://relay.example", False),
        ("dns:*.example", "dns:/relay.example", False),
    ],
)
def test_a_pattern_means_these_identities(pattern: str, identity: str, *, means: bool) -> None:
    assert matches(pattern, identity) is means


@pytest.mark.parametrize(
    ("changed", "to", "told"),
    [
        (RULE, "", "has no [[rule]]"),
        (RULE, "rule = 5", "has no [[rule]]"),
        (RULE, "rule = [5]", "rule 1: is no table"),
        (RULE, "[[rules]]", "'rules': is no entry of a policy"),
        (RULE, "[[rule]\n", "is no TOML"),
        (RULE, RULE + "[rule]\n", "is no TOML"),
        ("may", "can", "rule 1: 'can': is no field of a rule"),
        ('may = ["register"]', "", "rule 1: may: is missing"),
        ('clusters = ["east"]', "", "rule 1: clusters: is missing"),
        ('["register"]', '"register"', "rule 1: may: must be a list"),
        ('["register"]', "[]", "rule 1: may: must be a list with at least one string"),
        ('["register"]', '["register", "write"]', "rule 1: may[1] 'write': must be"),
        ('["east"]', "[1]", "rule 1: clusters[0]: must be a string"),
        ('["east"]', '["e*st"]', "rule 1: clusters[0] 'e*st': is no name"),
        ('["east"]', '["ea/st"]', "rule 1: clusters[0]"),
        ('["east"]', '["Zoë"]', "rule 1: clusters[0] 'Zo\\xeb'"),
        ('["models-*"]', '["a", ""]', "rule 1: namespaces[1] '': is no name"),
        ("sa:east/dynamo/relay", "relay", "rule 1: identities[0] 'relay': is no identity"),
        ("sa:east/dynamo/relay", "sa:east/dyn*", "rule 1: identities[0]"),
        ("sa:east/dynamo/relay", "sa:*", "rule 1: identities[0]"),
        ("sa:east/dynamo/relay", "spiffe://*", "rule 1: identities[0]"),
        ("sa:east/dynamo/relay", "spiffe://e*", "rule 1: identities[0]"),
        ("sa:east/dynamo/relay", "spiffe://e/a*", "rule 1: identities[0]"),
        ("sa:east/dynamo/relay", "dns:a.*.example", "rule 1: identities[0]"),
        ("sa:east/dynamo/relay", "dns:Upper.example", "rule 1: identities[0]"),
    ],
)
def test_a_policy_that_is_not_understood_is_refused_and_its_entry_named(
    changed: str, to: str, told: str
) -> None:
    assert told in refusal(RULE.replace(changed, to))


def test_the_number_of_the_offending_rule_is_told() -> None:
    assert refusal(RULE + RULE.replace("may", "can")).startswith("rule 2: ")


def test_what_is_too_long_or_no_utf8_is_refused() -> None:
    with pytest.raises(BadPolicy, match="longer"):
        parse(b"#" * (MAX_BYTES + 1))
    with pytest.raises(BadPolicy, match="UTF-8"):
        parse(RULE.encode() + b"#\xff")
    assert "is no TOML" in refusal("a = " + "[" * 100_000)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("rule = " + "9" * 5_000, "is no TOML: Exceeds the limit"),
        (".".join(["a"] * 500_000) + " = 1", "has a name of more than 8 parts"),
        ("[" + '."#"'.join(["a"] * 200_000) + "]", "has a name of more than 8 parts"),
        ("[" + "x" * 100_000 + "]\n" + RULE, "'xxx"),
        ("[" + "x" * 100_000 + "]\n[" + "x" * 100_000 + "]", "is no TOML: Cannot declare"),
        (RULE + "y" * 100_000 + " = 1", "rule 1: 'yyy"),
    ],
)
def test_what_the_parser_would_choke_on_is_refused_with_a_short_sentence(
    text: str, told: str
) -> None:
    assert told in refusal(text)
    assert len(refusal(text)) < 400


def test_dots_in_texts_and_comments_are_no_parts_of_a_name() -> None:
    dots = ".".join("a" * 100)
    for text in (f'"""{dots}"" "\n{dots}""""', f"'''{dots}''''", f'"\\"{dots}"', f"'{dots}'"):
        assert "'x': is no entry" in refusal(f"x = [{text}] # {dots}\n")
    parse(RULE.replace("sa:east/dynamo/relay", f"dns:{dots}").encode())


@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: (RULE + text).encode()))
def test_any_bytes_are_a_policy_or_refused(content: bytes) -> None:
    with contextlib.suppress(BadPolicy):
        parse(content)
