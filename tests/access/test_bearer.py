"""What a token is refused for before anyone is asked."""

import base64
import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.serving.access.bearer import BadToken, bearer_token, claims_of
from support.access import AUDIENCE, ISSUER, a_token
from support.clock import EPOCH


def refused_for(authorization: list[str | bytes]) -> str:
    with pytest.raises(BadToken) as bad:
        claims_of(bearer_token(authorization), audience=AUDIENCE)
    return str(bad.value)


def test_a_token_in_form_tells_its_issuer_and_its_end() -> None:
    claims = claims_of(bearer_token(["bEaReR  " + a_token()]), audience=AUDIENCE)
    assert claims[:2] == (ISSUER, EPOCH + 3600)


@pytest.mark.parametrize("bound", [None, 1, {}, {"pod": None}, {"pod": {"uid": 5}}])
def test_the_tokens_of_one_pod_and_no_others_have_a_holder_in_common(bound: object) -> None:
    def holder(account: str = "relay", **told: object) -> str:
        token = a_token(account, **told)
        return claims_of(token, audience=AUDIENCE).holder

    def pod(uid: str) -> dict[str, object]:
        return {"kubernetes.io": {"pod": {"name": "relay-0", "uid": uid}}}

    first = holder(exp=EPOCH + 10, jti="1", **pod("a"))
    assert holder(exp=EPOCH + 20, jti="2", **pod("a")) == first
    others = [holder(**pod("b")), holder("other", **pod("a")), holder(iss="b", **pod("a"))]
    others.append(holder(**{"kubernetes.io": bound}))
    assert len({first, *others}) == 5


@pytest.mark.parametrize(
    ("authorization", "reason"),
    [
        (["Bearer a", "Bearer b"], "several_headers"),
        (["Bearer " + "a" * 9000], "malformed"),
        ([b"Bearer \xff"], "malformed"),
        (["Bearer tök.en.x"], "no_bearer_token"),
        (["Bearer a b"], "no_bearer_token"),
        (["Bearer"], "no_bearer_token"),
        (["Basic dXNlcjpwYXNz"], "no_bearer_token"),
        ([""], "no_bearer_token"),
        (["Bearer abc"], "malformed"),
        (["Bearer a.b"], "malformed"),
        (["Bearer a.b.c.d"], "malformed"),
        (["Bearer ..."], "malformed"),
        (["Bearer e30.e30.x"], "malformed"),
        (["Bearer a=.b.c"], "no_bearer_token"),
    ],
)
def test_what_is_no_token_is_refused_unasked(authorization: list[str | bytes], reason: str) -> None:
    assert refused_for(authorization) == reason


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"aud": ["https://kubernetes.default.svc"]}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": {"global-discovery": 1}}, "audience"),
        ({"exp": "soon"}, "malformed"),
        ({"exp": True}, "malformed"),
        ({"exp": float("nan")}, "malformed"),
        ({"exp": 10**400}, "malformed"),
        ({"sub": "system:admin"}, "no_service_account"),
        ({"sub": 5}, "malformed"),
        ({"iss": None}, "malformed"),
    ],
)
def test_a_token_that_says_itself_that_it_is_not_for_here_is_refused_unasked(
    claims: dict[str, object], reason: str
) -> None:
    assert refused_for(["Bearer " + a_token(**claims)]) == reason


def test_an_unsigned_token_is_refused() -> None:
    header = base64.urlsafe_b64encode(json.dumps({"alg": "None"}).encode()).decode().rstrip("=")
    assert refused_for([f"Bearer {header}.{a_token().split('.')[1]}.x"]) == "malformed"


def test_json_nested_without_end_is_refused() -> None:
    deep = base64.urlsafe_b64encode(b"[" * 4000).decode().rstrip("=")
    assert refused_for([f"Bearer {a_token().split('.')[0]}.{deep}.x"]) == "malformed"


def test_no_refusal_repeats_anything_of_the_token() -> None:
    for token in (a_token(aud=["x"]), a_token(sub="somebody"), "abc.def.ghi"):
        reason = refused_for(["Bearer " + token])
        assert all(part not in reason for part in token.split("."))


@given(st.lists(st.text() | st.binary(), max_size=3))
def test_whatever_is_sent_is_a_token_or_refused(authorization: list[str | bytes]) -> None:
    with contextlib.suppress(BadToken):
        bearer_token(authorization)
