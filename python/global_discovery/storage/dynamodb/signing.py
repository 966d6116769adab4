"""Signature version 4 of AWS, for the one kind of request that DynamoDB takes.

Written out because botocore's own signer costs more than the rest of a call;
what is signed is always a POST of JSON to `/`. Tests compare it with botocore's.
"""

import hashlib
import hmac
from datetime import UTC, datetime
from typing import NamedTuple

CONTENT_TYPE = "application/x-amz-json-1.0"
_ALGORITHM = "AWS4-HMAC-SHA256"


class Keys(NamedTuple):
    """Credentials at one moment."""

    access_key: str
    secret_key: str
    token: str = ""


class Signer:
    """Signs for one host in one region. Keeps the key that is derived once a day."""

    def __init__(self, *, region: str, host: str) -> None:
        """`host` with its port where that is not the scheme's own."""
        self._region = region
        self._host = host
        self._derived_from: tuple[str, str] = ("", "")
        self._derived = b""

    def headers(self, target: str, body: bytes, keys: Keys, *, now: float) -> dict[str, str]:
        """All headers of the request but Host; `now` in seconds since the epoch."""
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
        signed = {
            "content-type": CONTENT_TYPE,
            "host": self._host,
            "x-amz-date": stamp,
        }
        if keys.token:
            signed["x-amz-security-token"] = keys.token
        signed["x-amz-target"] = target
        names = ";".join(signed)
        lines = "".join(f"{name}:{value}\n" for name, value in signed.items())
        request = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
        day = stamp[:8]
        scope = f"{day}/{self._region}/dynamodb/aws4_request"
        digest = hashlib.sha256(request.encode()).hexdigest()
        to_sign = f"{_ALGORITHM}\n{stamp}\n{scope}\n{digest}"
        signature = hmac.digest(self._key(day, keys.secret_key), to_sign.encode(), "sha256").hex()
        del signed["host"]
        signed["authorization"] = (
            f"{_ALGORITHM} Credential={keys.access_key}/{scope}, "
            f"SignedHeaders={names}, Signature={signature}"
        )
        return signed

    def _key(self, day: str, secret: str) -> bytes:
        if self._derived_from != (day, secret):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, "dynamodb", "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._derived_from, self._derived = (day, secret), key
        return self._derived
