"""DynamoDB over HTTP: credentials and endpoint from botocore, the rest here.

Every kind of AWS credentials works, for aiobotocore's session finds and renews
them (environment, profiles, SSO, IRSA, Pod Identity, instance roles). The calls
themselves are a signed POST of JSON and are made here, for a tenth of the time
that botocore's layers take (docs/decisions/0040). A machine whose clock is off
signs with the time that the server's answers show, so that it is not refused.
"""

import email.utils
import logging
import os
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, NoRegionError

from global_discovery.domain.clock import Clock
from global_discovery.storage.dynamodb.api import (
    CallFailed,
    ConditionFailed,
    Refused,
    Throttled,
    Unreachable,
)
from global_discovery.storage.dynamodb.signing import Keys, Signer
from global_discovery.transport import transport_text

CONNECTIONS = 96
"""More than writes at once, so that no read waits for one."""
CONNECT_SECONDS = 1.0
TOLERATED_SKEW_SECONDS = 60.0
CREDENTIALS_LOG = "aiobotocore.credentials"
QUIET_SECONDS = 60.0
"""How long that log is quiet after a line: it says the same with each call."""
_SERVER_ERROR = 500
_THROTTLES = frozenset(
    {
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)


class HttpDynamoDB:
    """One region's endpoint. Made by `connect`."""

    def __init__(
        self, *, endpoint: str, region: str, credentials: Any, clock: Clock, call_seconds: float
    ) -> None:
        """`credentials` are aiobotocore's; `call_seconds` is how long one call may take."""
        self.region = region
        self.endpoint = endpoint
        self._credentials = credentials
        self._clock = clock
        self._skew = 0.0
        self._signer = Signer(region=region, host=_host_of(endpoint))
        self._timeout = aiohttp.ClientTimeout(total=call_seconds, sock_connect=CONNECT_SECONDS)
        self._session: aiohttp.ClientSession | None = None
        self._proxy = _proxy_to(endpoint)
        self._ssl: ssl.SSLContext | bool = True

    def trust(self, ca_bundle: str) -> None:
        """Verifies servers with the certificates of this file alone. Raises OSError."""
        self._ssl = ssl.create_default_context(cafile=ca_bundle)

    async def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Does one operation, once."""
        body = orjson.dumps(request)
        headers = self._signer.headers(
            f"DynamoDB_20120810.{operation}",
            body,
            await self._keys(),
            now=self._clock.wall() + self._skew,
        )
        try:
            async with self._opened().post(
                self.endpoint,
                data=body,
                headers=headers,
                ssl=self._ssl,
                proxy=self._proxy,
                allow_redirects=False,
            ) as answer:
                self._follow_clock(answer.headers.get("Date", ""))
                status, text = answer.status, await answer.read()
        except (aiohttp.ClientError, OSError) as error:  # a TimeoutError is an OSError
            told = f"{type(error).__name__}: {transport_text(error)}"
            raise Unreachable(told) from error
        try:
            content: dict[str, Any] = orjson.loads(text)
        except orjson.JSONDecodeError:
            raise Unreachable(f"status {status} without JSON") from None
        if status != 200:  # noqa: PLR2004 - the status that says OK
            raise _failure(status, content)
        return content

    async def close(self) -> None:
        """Closes the connections."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        """Made with the first call, for it belongs to the loop that runs then."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=CONNECTIONS),
                timeout=self._timeout,
            )
        return self._session

    async def _keys(self) -> Keys:
        try:
            frozen = await self._credentials.get_frozen_credentials()
        except Exception as error:  # providers raise what they like, and none may end the service
            raise Unreachable(f"no credentials: {error}") from error
        return Keys(frozen.access_key, frozen.secret_key, frozen.token or "")

    def _follow_clock(self, date: str) -> None:
        """AWS refuses signatures that are five minutes off; its answers say what time it is."""
        try:
            theirs = email.utils.parsedate_to_datetime(date).timestamp()
        except ValueError:
            return
        skew = theirs - self._clock.wall()
        if abs(skew - self._skew) > TOLERATED_SKEW_SECONDS:
            self._skew = skew if abs(skew) > TOLERATED_SKEW_SECONDS else 0.0


class Seldom(logging.Filter):
    """Lets one line through, and no other for a while."""

    def __init__(self, clock: Clock) -> None:
        """Measures on the monotonic clock."""
        super().__init__()
        self._clock = clock
        self._until = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it may pass."""
        del record
        now = self._clock.monotonic()
        if now < self._until:
            return False
        self._until = now + QUIET_SECONDS
        return True


async def connect(
    *, clock: Clock, region: str = "", endpoint_url: str = "", call_seconds: float = 1.5
) -> HttpDynamoDB:
    """Finds region, endpoint and credentials, without a call to DynamoDB.

    What is not given is found as AWS's tools find it; AWS_REGION too, which botocore
    alone does not read. Raises OSError with a sentence for the operator.
    """
    logging.getLogger(CREDENTIALS_LOG).addFilter(Seldom(clock))
    session = get_session()
    region = region or os.environ.get("AWS_REGION", "")
    try:
        credentials = await session.get_credentials()
        async with session.create_client(
            "dynamodb", region_name=region or None, endpoint_url=endpoint_url or None
        ) as client:
            endpoint, found = client.meta.endpoint_url, client.meta.region_name
    except NoRegionError as error:
        raise OSError("no AWS region is given: set --dynamodb-region or AWS_REGION") from error
    except (BotoCoreError, ValueError) as error:
        raise OSError(f"DynamoDB cannot be used: {error}") from error
    if credentials is None:
        raise OSError(
            "there are no AWS credentials: none in the environment, in a profile, "
            "from a web identity, or from the machine's or pod's role"
        )
    api = HttpDynamoDB(
        endpoint=endpoint,
        region=found,
        credentials=credentials,
        clock=clock,
        call_seconds=call_seconds,
    )
    bundle = session.get_config_variable("ca_bundle")
    if bundle:
        api.trust(bundle)
    return api


def _host_of(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    own = {"http": 80, "https": 443}.get(parts.scheme)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return host if parts.port in (None, own) else f"{host}:{parts.port}"


def _proxy_to(endpoint: str) -> str | None:
    """As the environment says; asked once, for aiohttp would ask in a thread for each call."""
    parts = urlsplit(endpoint)
    if proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get(parts.scheme)


def _failure(status: int, content: Mapping[str, Any]) -> CallFailed:
    code = str(content.get("__type", "")).rpartition("#")[2] or f"status {status}"
    message = str(content.get("message") or content.get("Message") or "")
    if code == ConditionFailed.code:
        return ConditionFailed(content.get("Item") or None)
    if code == "TransactionCanceledException":
        reasons = {reason.get("Code") for reason in content.get("CancellationReasons") or ()}
        if reasons <= {"None", None, "TransactionConflict", "ThrottlingError"}:
            return Throttled(code, message)
    if code in _THROTTLES:
        return Throttled(code, message)
    if status >= _SERVER_ERROR:
        return Unreachable(f"{code}: {message}")
    return Refused(code, message)
