"""Following pools where only HTTP is reachable: `GET /pools`, again and again.

What comes is told as the messages of a watch, so that one fold serves both: a
list is a snapshot, and one that has not changed (304) an idle message. There is
no position. The process that answers is the one that the answer names; whenever
it is another one than before, which may be so with each answer where several
stand behind one name, a new stream begins. Servers that name none are each time
another process: whether they are the same one cannot be known.

Nothing that a server answers is trusted: bodies are bounded, and whatever is not
a list of pools is a failed call.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

import aiohttp
import grpc
from google.protobuf import json_format

from global_discovery.client.errors import CallFailed
from global_discovery.client.http_answer import TooLarge, instance_of, read_bounded
from global_discovery.client.tls import ClientTls, headers, request_options
from global_discovery.domain.timer import Timer, within
from global_discovery.transport import transport_text
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2

CALL_SECONDS = 10.0
"""How long an answer may take, its body included."""
READ_SECONDS = 5.0
"""What is allowed for reading a long list once it has come."""
MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_VALUES = 2_000_000
"""A hundred thousand pools have fewer; in memory an empty value is many times its text."""
MAX_INLINE_BYTES = 64 * 1024
"""A longer body is read in a thread."""
ASSUMED_BOUND_SECONDS = 1.0
_OK, _NOT_MODIFIED, _BAD_REQUEST, _SERVER_ERROR = 200, 304, 400, 500
_MOMENTARY = {429, 502, 503, 504}
_WHO = {401: grpc.StatusCode.UNAUTHENTICATED, 403: grpc.StatusCode.PERMISSION_DENIED}
_KEY = ("cluster_id", "namespace", "dgd_name")


class _Answer(NamedTuple):
    """A good one."""

    status: int
    instance: str
    tag: str = ""
    body: bytes = b""


def longest_silence(every: float) -> float:
    """For how many seconds nothing may come of a server that is polled and works."""
    return every + CALL_SECONDS + READ_SECONDS


async def polled(
    server: str,
    *,
    wanted: pb.PoolFilter | None,
    every: int,
    timer: Timer,
    tls: ClientTls | None = None,
) -> AsyncGenerator[pb.WatchPoolsResponse, None]:
    """The messages of a watch that polls, without end. Raises CallFailed.

    The first one comes with the first good answer. `every` is in seconds, at least 1.
    """
    every = max(1, every)
    url = server.rstrip("/") + "/pools"
    tag, instance = "", None
    newest = pb.WatchPoolsResponse()
    no_limits = aiohttp.ClientTimeout(total=None, connect=None, sock_read=None, sock_connect=None)
    async with aiohttp.ClientSession(
        timeout=no_limits, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        while True:
            headers = {"If-None-Match": tag} if tag else {}
            asked = {"params": _query(wanted), "headers": headers}
            asking = _get(session, server, url, asked, tls)
            try:
                answer = await within(timer, CALL_SECONDS, asking)
            except TimeoutError as error:
                code, told = (
                    grpc.StatusCode.DEADLINE_EXCEEDED,
                    f"no answer within {CALL_SECONDS:g} s",
                )
                raise CallFailed(server, code, told) from error
            same, instance = answer.instance == instance, answer.instance
            if answer.status == _OK:
                snapshot, mark = await _read(server, answer.body)
                tag, newest = answer.tag, pb.WatchPoolsResponse(snapshot=snapshot, mark=mark)
            if not same:
                info = pb.ServerInfo(instance_id=instance, idle_interval_secs=every)
                yield pb.WatchPoolsResponse(server=info)
            if answer.status == _OK or not same:
                # Another process that has the same list tells it as its own.
                yield newest
            else:
                yield pb.WatchPoolsResponse(idle=pb.Idle(), mark=newest.mark)
            await timer.sleep(every)


async def _get(
    session: aiohttp.ClientSession,
    server: str,
    url: str,
    asked: dict[str, Any],
    tls: ClientTls | None,
) -> _Answer:
    try:
        shown = {**asked, "headers": asked["headers"] | headers(tls, server)}
        async with session.get(
            url, allow_redirects=False, **shown, **request_options(tls)
        ) as response:
            status = response.status
            instance = instance_of(response.headers)
            if status == _NOT_MODIFIED and asked["headers"]:
                return _Answer(status, instance)
            if status == _OK:
                body = await read_bounded(response, MAX_BODY_BYTES)
                return _Answer(status, instance, response.headers.get("ETag", ""), body)
    except (aiohttp.ClientError, OSError) as error:
        raise CallFailed(server, grpc.StatusCode.UNAVAILABLE, transport_text(error)) from error
    except TooLarge as error:
        raise CallFailed(server, grpc.StatusCode.INTERNAL, str(error)) from error
    except ValueError as error:
        raise CallFailed(server, grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
    raise _refusal(server, status)


def _refusal(server: str, status: int) -> CallFailed:
    code = grpc.StatusCode.INTERNAL
    if status in _MOMENTARY:
        code = grpc.StatusCode.UNAVAILABLE
    elif status in _WHO:
        code = _WHO[status]
    elif _BAD_REQUEST <= status < _SERVER_ERROR:
        code = grpc.StatusCode.INVALID_ARGUMENT
    return CallFailed(server, code, f"it answered HTTP {status}")


async def _read(server: str, body: bytes) -> tuple[pb.PoolSnapshot, pool_pb2.Mark]:
    try:
        if len(body) <= MAX_INLINE_BYTES:
            return read_list(body)
        return await asyncio.to_thread(read_list, body)
    except (ValueError, RecursionError) as error:
        what = "the answer is not a list of pools"
        raise CallFailed(server, grpc.StatusCode.INTERNAL, what) from error


def read_list(body: bytes) -> tuple[pb.PoolSnapshot, pool_pb2.Mark]:
    """The pools and the mark of an answer. Raises ValueError or RecursionError.

    An answer that does not say whether it is complete comes from a server that
    does not know; it counts as estimated.
    """
    if sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise ValueError("more values than any list of pools has")
    told = json.loads(body)
    if not isinstance(told, dict) or not isinstance(told.get("pools"), list):
        raise ValueError("no object with pools")  # noqa: TRY004 - every garbage is one error
    snapshot = pb.PoolSnapshot(pools=[_pool(each) for each in told["pools"]])
    exact = told.get("complete") is True
    mark = pool_pb2.Mark(
        completeness=pool_pb2.COMPLETENESS_EXACT if exact else pool_pb2.COMPLETENESS_ESTIMATED,
        reasons=map(pool_pb2.EstimatedReason.Value, _reasons(told.get("reasons"))),
        bound_secs=_seconds(told.get("bound_secs"), ASSUMED_BOUND_SECONDS),
    )
    if told.get("slices_bound_secs") is not None:
        mark.slices_bound_secs = _seconds(told["slices_bound_secs"], ASSUMED_BOUND_SECONDS)
    return snapshot, mark


def _pool(told: Any) -> pool_pb2.Pool:
    if not isinstance(told, dict):
        raise ValueError("a pool that is no object")  # noqa: TRY004 - every garbage is one error
    if not all(isinstance(told.get(name), str) and told[name] for name in (*_KEY, "model")):
        raise ValueError("a pool without key or model")
    if not isinstance(told.get("location"), dict | None):
        raise ValueError("a pool whose location is no object")  # noqa: TRY004 - as above
    content = {name: value for name, value in told.items() if name not in (*_KEY, "key")}
    content["key"] = {name: told[name] for name in _KEY}
    try:
        return json_format.ParseDict(content, pool_pb2.Pool(), ignore_unknown_fields=True)
    except (json_format.Error, TypeError, AttributeError) as error:
        raise ValueError("a pool with a wrong value") from error


def _reasons(told: Any) -> list[str]:
    """Those that are known here; others change nothing about what to do."""
    known = pool_pb2.EstimatedReason.keys()
    names = [f"ESTIMATED_REASON_{each}" for each in told] if isinstance(told, list) else []
    return [name for name in names if name in known]


def _seconds(told: Any, otherwise: float) -> float:
    if isinstance(told, bool) or not isinstance(told, int | float):
        return otherwise
    try:
        return float(told)
    except OverflowError as error:
        raise ValueError("a number that is too large") from error


def _query(wanted: pb.PoolFilter | None) -> list[tuple[str, str]]:
    if wanted is None:
        return []
    pairs = (
        ("model", wanted.models),
        ("region", wanted.regions),
        ("cluster_id", wanted.cluster_ids),
        ("namespace", wanted.namespaces),
    )
    return [(name, value) for name, values in pairs for value in values]
