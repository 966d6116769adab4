"""A token in `authorization: Bearer`, looked at as far as that costs nothing.

Whatever is refused here never reaches an API server. Nothing that a token says of
itself is believed: it is used to refuse, and to choose who is to be asked.
"""

import base64
import json
import math
import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

MAX_TOKEN = 8 * 1024
_BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*) *", re.IGNORECASE)
_PART = re.compile(r"[A-Za-z0-9_-]+")
_PARTS = 3
_SUBJECT = "system:serviceaccount:"


TokenFault = Literal[
    "malformed",
    "no_bearer_token",
    "several_headers",
    "no_service_account",
    "audience",
    "issuer",
    "expired",
    "refused",
]
"""Why a token is not accepted."""


class BadToken(ValueError):
    """It is no token that could be good here. Says why in a fixed word, and nothing of it."""

    def __init__(self, fault: TokenFault) -> None:
        """Its text is that word."""
        super().__init__(fault)


class Claims(NamedTuple):
    """What a token says of itself."""

    issuer: str
    expires: float
    """Seconds since the epoch; infinite for one that does not say."""
    holder: str
    """What the tokens of one pod have in common, one after the other; of other tokens, the account.

    A pod's uid is in it, which strangers do not know."""


def bearer_token(authorization: Sequence[str | bytes]) -> str:
    """The token in the values of the header (RFC 6750, 2.1). Raises BadToken."""
    if len(authorization) != 1:
        raise BadToken("several_headers")
    value = authorization[0]
    if not isinstance(value, str) or len(value) > MAX_TOKEN + len("bearer  "):
        raise BadToken("malformed")
    found = _BEARER.fullmatch(value)
    if found is None:
        raise BadToken("no_bearer_token")
    return found[1]


def claims_of(token: str, *, audience: str) -> Claims:
    """What is needed of a service-account token. Raises BadToken.

    Whether it has expired is not judged here: a clock that was stepped would refuse
    every caller.
    """
    parts = token.split(".")
    if len(parts) != _PARTS or not all(map(_PART.fullmatch, parts)):
        raise BadToken("malformed")
    header, claims = _json(parts[0]), _json(parts[1])
    if not isinstance(header.get("alg"), str) or header["alg"].lower() == "none":
        raise BadToken("malformed")
    issuer, subject, audiences = claims.get("iss"), claims.get("sub"), claims.get("aud")
    if not isinstance(issuer, str) or not isinstance(subject, str):
        raise BadToken("malformed")
    if not subject.startswith(_SUBJECT):
        raise BadToken("no_service_account")
    if audience not in (audiences if isinstance(audiences, list) else [audiences]):
        raise BadToken("audience")
    holder = json.dumps([issuer, subject, _pod(claims)])
    return Claims(issuer, _time(claims.get("exp")), holder)


def _pod(claims: dict[str, Any]) -> str:
    bound = claims.get("kubernetes.io")
    pod = bound.get("pod") if isinstance(bound, dict) else None
    uid = pod.get("uid") if isinstance(pod, dict) else None
    return uid if isinstance(uid, str) else ""


def _time(value: Any) -> float:
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadToken("malformed")
    try:
        seconds = float(value)
    except OverflowError:
        raise BadToken("malformed") from None
    if math.isnan(seconds):
        raise BadToken("malformed")
    return seconds


def _json(part: str) -> dict[str, Any]:
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        raise BadToken("malformed") from None
    if not isinstance(value, dict):
        raise BadToken("malformed")
    return value
