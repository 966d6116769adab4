"""One connection to an API server, which outlives its credentials.

kubernetes-asyncio gives the transport: TLS, proxies, the pool. It has no time-outs
of its own and does not look at the status of an answer whose body it leaves
unread; both are done here, for every call.

An API server does not redirect, so no redirect is followed: a token is shown to no
other address than the one that was given.

The client is made anew when a file of the credentials has changed, and after a 401
or a failed handshake. Calls that still run keep the client that they began with.

HTTPS_PROXY and NO_PROXY of the environment apply to the API server too.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager

import aiohttp
from kubernetes_asyncio.client import ApiClient

from global_discovery import __version__
from global_discovery.domain.timer import Timer, within
from global_discovery.kubernetes.credentials import (
    Credentials,
    CredentialsUnreadable,
    Fingerprint,
)
from global_discovery.kubernetes.failures import CallFailed, Failure, refused
from global_discovery.transport import transport_text

CONNECT_SECONDS = 5.0
LOAD_SECONDS = 20.0
"""An exec plugin may take so long."""
_MAX_REFUSAL = 64 * 1024
_OK, _CREATED = 200, 201
_STRICT_WORDS = ("Missing", "Basic Constraints", "key usage", "Key Identifier")
_STRICT_HINT = (
    "; Python 3.13 and newer refuse certificates without the extensions of RFC 5280: "
    "renew them, or see --kubernetes-strict-x509"
)


class _Client:
    """An ApiClient with the number of calls that use it."""

    def __init__(self, api: ApiClient, fingerprint: Fingerprint) -> None:
        self.api = api
        self.fingerprint = fingerprint
        self.calls = 0
        self.retired = False

    async def close_if_unused(self) -> None:
        if self.retired and not self.calls:
            await self.api.close()


class ApiConnection:
    """Asks one API server. Close it when no call runs any more."""

    def __init__(self, credentials: Credentials, *, timer: Timer, strict_x509: bool = True) -> None:
        """`strict_x509` False takes certificates without the extensions of RFC 5280."""
        self._credentials = credentials
        self._timer = timer
        self._strict_x509 = strict_x509
        self._client: _Client | None = None
        self._forgotten = False
        """The next call reads the credentials, and makes its client anew."""
        self._making = asyncio.Lock()

    def get(
        self, path: str, params: Mapping[str, str], *, answer_seconds: float, read_seconds: float
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """The answer to one GET, whose status is 200 and whose body is unread.

        Headers come within `answer_seconds`, and no read of the body waits longer than
        `read_seconds`. Raises CallFailed for everything else, also when the body
        breaks off while it is read here or by the caller. Leaving closes the answer.
        """
        return self._answer(
            "GET", path, params, answer_seconds=answer_seconds, read_seconds=read_seconds
        )

    def post(
        self, path: str, document: object, *, answer_seconds: float, read_seconds: float
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """The answer to one POST of JSON, as with `get`; its status may be 201 too."""
        return self._answer(
            "POST",
            path,
            {},
            document,
            answer_seconds=answer_seconds,
            read_seconds=read_seconds,
        )

    @contextlib.asynccontextmanager
    async def _answer(  # noqa: PLR0913 - the parts of one call, the times by name
        self,
        method: str,
        path: str,
        params: Mapping[str, str],
        document: object = None,
        *,
        answer_seconds: float,
        read_seconds: float,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        client = await self._current()
        client.calls += 1
        # Not a result: who is cancelled at the moment it comes would never see it.
        answers: list[aiohttp.ClientResponse] = []
        try:
            asked = (method, path, params, document)
            opening = self._open(client, asked, read_seconds, answers)
            await within(self._timer, answer_seconds, opening)
            response = answers[0]
            if response.status != _OK and (method, response.status) != ("POST", _CREATED):
                body = await within(self._timer, answer_seconds, _beginning(response))
                raise refused(response.status, response.headers, body)
            yield response
        except CallFailed as failed:
            self._forgotten |= failed.failure is Failure.UNAUTHORIZED
            raise
        except (aiohttp.ClientError, OSError) as error:
            told = _failed(error, answered=bool(answers), strict=self._strict_x509)
            self._forgotten |= told.failure is Failure.TLS
            raise told from error
        finally:
            for answer in answers:
                answer.close()
            client.calls -= 1
            await client.close_if_unused()

    async def close(self) -> None:
        """Closes what is open."""
        await self._retire()

    async def _open(
        self,
        client: _Client,
        asked: tuple[str, str, Mapping[str, str], object],
        read_seconds: float,
        answers: list[aiohttp.ClientResponse],
    ) -> None:
        """Adds the answer, once its headers are there."""
        method, path, params, document = asked
        headers = {"Accept": "application/json"}
        if document is not None:
            headers["Content-Type"] = "application/json"
        answer = await client.api.call_api(
            path,
            method,
            query_params=list(params.items()),
            header_params=headers,
            body=document,
            auth_settings=["BearerToken"],
            _preload_content=False,
            _request_timeout=aiohttp.ClientTimeout(
                connect=CONNECT_SECONDS, sock_connect=CONNECT_SECONDS, sock_read=read_seconds
            ),
        )
        answers.append(answer)

    async def _current(self) -> _Client:
        async with self._making:
            fingerprint = self._credentials.fingerprint()
            client = self._client
            if client is not None and not self._forgotten and client.fingerprint == fingerprint:
                return client
            try:
                made = _Client(await self._make(), fingerprint)
            except CallFailed:
                # Half of a rotation: what still works goes on, and the next call looks again.
                if client is not None and not self._forgotten:
                    return client
                raise
            await self._retire()
            self._client, self._forgotten = made, False
            return made

    async def _make(self) -> ApiClient:
        try:
            configuration = await within(self._timer, LOAD_SECONDS, self._credentials.load())
            configuration.disable_strict_ssl_verification = not self._strict_x509
            api = ApiClient(configuration)
        except TimeoutError as error:
            message = f"the credentials were not there within {LOAD_SECONDS:g} s"
            raise CallFailed(Failure.CREDENTIALS, message) from error
        except (CredentialsUnreadable, OSError, ValueError) as error:
            # ssl.SSLError, for a certificate without its key, is an OSError.
            raise CallFailed(Failure.CREDENTIALS, str(error)) from error
        api.user_agent = f"global-discovery/{__version__}"
        api.rest_client.pool_manager.trace_configs.append(_no_redirects())
        return api

    async def _retire(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.retired = True
            await client.close_if_unused()


def _no_redirects() -> aiohttp.TraceConfig:
    """For a session: a redirect is a refusal. Its requests are made where we cannot say so."""

    async def refuse(
        session: aiohttp.ClientSession, context: object, params: aiohttp.TraceRequestRedirectParams
    ) -> None:
        del session, context
        answer = params.response
        answer.close()
        raise refused(answer.status, answer.headers, b"")

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(refuse)
    trace.freeze()
    return trace


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """As much of a refusal as is worth reading."""
    body = bytearray()
    while len(body) < _MAX_REFUSAL and (chunk := await response.content.readany()):
        body += chunk
    return bytes(body)


def _failed(error: Exception, *, answered: bool, strict: bool) -> CallFailed:
    """What the transport raised, in our words."""
    text = transport_text(error)
    cause = error if isinstance(error, ssl.SSLError) else error.__cause__
    if isinstance(error, aiohttp.ClientSSLError) or isinstance(cause, ssl.SSLError):
        told = getattr(cause, "verify_message", text)
        hint = _STRICT_HINT if strict and any(word in told for word in _STRICT_WORDS) else ""
        return CallFailed(Failure.TLS, text + hint)
    if answered:
        silent = isinstance(error, TimeoutError)
        return CallFailed(Failure.SILENT if silent else Failure.CUT, text)
    if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
        return CallFailed(Failure.SILENT, "no answer in time")
    return CallFailed(Failure.UNREACHABLE, text)
