"""Asks an API server whether a service-account token is good, for one audience.

A TokenReview (authentication.k8s.io/v1) with an audience, as KEP-1205 has it: the
server checks signature, lifetime, audience, and that the account and the pod that
the token is bound to still exist. A server that does not know audiences answers
without one, and its word is not taken.

The token goes to the API server and nowhere else; no text of an answer that could
repeat it is told.
"""

from typing import Any

import msgspec

from global_discovery.domain.timer import Timer, within
from global_discovery.kubernetes.connection import ApiConnection
from global_discovery.kubernetes.failures import CallFailed, Failure

PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
ANSWER_SECONDS = 3.0
_MAX_ANSWER = 256 * 1024


class _User(msgspec.Struct):
    username: str = ""


class _Status(msgspec.Struct):
    authenticated: bool | None = False
    user: _User | None = None
    audiences: list[str] | None = None


class _Review(msgspec.Struct):
    status: _Status


_DECODER = msgspec.json.Decoder(_Review)


class TokenReviewer:
    """The reviews of one API server."""

    def __init__(self, connection: ApiConnection, *, audience: str, timer: Timer) -> None:
        """Owns the connection; close it."""
        self._connection = connection
        self._audience = audience
        self._timer = timer

    async def review(self, token: str) -> str | None:
        """The name of the user that the token is good for; None when it is not good.

        Raises CallFailed when the server did not say.
        """
        document = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [self._audience]},
        }
        try:
            async with self._connection.post(
                PATH, document, answer_seconds=ANSWER_SECONDS, read_seconds=ANSWER_SECONDS
            ) as response:
                body = await within(self._timer, ANSWER_SECONDS, _body(response))
        except TimeoutError as error:
            raise CallFailed(Failure.SILENT, "no answer in time") from error
        except CallFailed as failed:
            if token in failed.message:
                raise CallFailed(failed.failure, "withheld", status=failed.status) from None
            raise
        try:
            status = _DECODER.decode(body).status
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise CallFailed(Failure.UNDECODABLE, "not a TokenReview") from None
        good = status.authenticated and self._audience in (status.audiences or ())
        return status.user.username if good and status.user is not None else None

    async def close(self) -> None:
        """Closes the connection."""
        await self._connection.close()


async def _body(response: Any) -> bytes:
    body = bytearray()
    while chunk := await response.content.readany():
        body += chunk
        if len(body) > _MAX_ANSWER:
            raise CallFailed(Failure.TOO_LONG, "an answer that is too long")
    return bytes(body)
