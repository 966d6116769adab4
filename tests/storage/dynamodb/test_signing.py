"""Our signature is the one that AWS's own library makes."""

from datetime import UTC, datetime

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from global_discovery.storage.dynamodb.signing import Keys, Signer

NOW = 1_796_000_000.0


TARGET = "DynamoDB_20120810.Query"
REGION = "eu-west-1"


def signature_of_botocore(url: str, body: bytes, keys: Keys, now: float) -> str:
    request = AWSRequest(
        method="POST",
        url=url,
        data=body,
        headers={"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": TARGET},
    )
    credentials = Credentials(keys.access_key, keys.secret_key, keys.token or None)
    auth = SigV4Auth(credentials, "dynamodb", REGION)
    request.context["timestamp"] = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    auth._modify_request_before_signing(request)
    canonical = auth.canonical_request(request)
    signature = auth.signature(auth.string_to_sign(request, canonical), request)
    auth._inject_signature_to_request(request, signature)
    return str(request.headers["Authorization"]).replace(", ", ",")


TEXTS = st.text("abcXYZ019/+=", min_size=1, max_size=60)


@given(
    body=st.binary(max_size=300),
    keys=st.builds(Keys, st.text("ABC019", min_size=1), TEXTS, st.one_of(st.just(""), TEXTS)),
    now=st.integers(1_000_000_000, 4_000_000_000),
    url=st.sampled_from(
        [
            "https://dynamodb.eu-west-1.amazonaws.com/",
            "http://127.0.0.1:8000/",
            "https://[fd00::1]:8443/",
        ]
    ),
)
def test_the_signature_is_botocores(body: bytes, keys: Keys, now: int, url: str) -> None:
    signer = Signer(region=REGION, host=url.split("/")[2])
    for _ in range(2):  # the second time with the key that was kept
        ours = signer.headers(TARGET, body, keys, now=float(now))
        theirs = signature_of_botocore(url, body, keys, float(now))
        assert ours["authorization"].replace(", ", ",") == theirs


@pytest.mark.parametrize("changed", [{"secret_key": "other"}, {"access_key": "other"}])
def test_renewed_credentials_are_used_at_once(changed: dict[str, str]) -> None:
    signer = Signer(region="r", host="h")
    keys = Keys("access", "secret", "token")
    first = signer.headers("t", b"{}", keys, now=NOW)
    second = signer.headers("t", b"{}", keys._replace(**changed), now=NOW)
    assert first["authorization"] != second["authorization"]
    assert second["x-amz-security-token"] == "token"


def test_a_new_day_has_a_new_key() -> None:
    signer = Signer(region="r", host="h")
    keys = Keys("access", "secret")
    signer.headers("t", b"{}", keys, now=NOW)
    later = signer.headers("t", b"{}", keys, now=NOW + 86_400)
    assert later == Signer(region="r", host="h").headers("t", b"{}", keys, now=NOW + 86_400)
