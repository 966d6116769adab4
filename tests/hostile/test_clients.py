"""Servers and files that say anything: a client takes it, or says why not, and goes on."""

import contextlib
import json
from typing import Any

from hypothesis import note
from hypothesis import strategies as st

from global_discovery.client import http_answer, rest_registration
from global_discovery.client.carrying import CarryingFold, KnownPool
from global_discovery.client.fold import PoolKey
from global_discovery.client.polling import read_list
from global_discovery.client.saved_view import FORMAT, VERSION, SavedView, UnusableFile, decode
from global_discovery.client.saved_view import _digest as digest
from global_discovery.client.saved_view import encode as encode_view
from global_discovery.v1 import pool_discovery_pb2 as pb
from global_discovery.v1 import pool_pb2
from support.hostile import hostile
from support.hostile_json import damaged_json
from support.hostile_protobuf import a_message
from support.hostile_protobuf import damaged as damaged_bytes

RESPONSE = pb.WatchPoolsResponse.DESCRIPTOR
NAMES = st.sampled_from(["a", "b", "c"])


def a_pool(name: str) -> pool_pb2.Pool:
    key = pool_pb2.PoolKey(cluster_id="c", namespace="n", dgd_name=name)
    return pool_pb2.Pool(key=key, model="m")


VIEW = SavedView(1e9, tuple(KnownPool(a_pool(name), 2.0, 1.0, "server") for name in "abc"))
GOOD_FILE = encode_view(VIEW)


# -- the saved view -----------------------------------------------------------


@hostile(examples=60, data=damaged_bytes(GOOD_FILE))
def test_a_damaged_file_is_refused_and_never_half_read(data: bytes) -> None:
    try:
        view = decode(data)
    except UnusableFile:
        return
    assert view == VIEW


META = json.loads(GOOD_FILE.split(b"\n")[1])


@hostile(
    examples=60,
    meta=damaged_json(META),
    pools=damaged_bytes(GOOD_FILE.split(b"\n", 2)[2]),
)
def test_a_file_that_says_anything_is_a_view_or_refused(meta: str, pools: bytes) -> None:
    """With a digest that is right."""
    rest = meta.encode(errors="surrogatepass") + b"\n" + pools
    head = b"%b %d %b\n" % (FORMAT, VERSION, digest(rest))
    try:
        view = decode(head + rest)
    except UnusableFile:
        return
    fold = CarryingFold()
    fold.restore(view.known)
    apply_all(fold, [pb.WatchPoolsResponse(mark=EXACT, position="p")])
    assert not set(fold.carried) - {PoolKey.of(each.pool.key) for each in view.known}


EXACT = pool_pb2.Mark(completeness=pool_pb2.COMPLETENESS_EXACT, bound_secs=1)
ESTIMATED = pool_pb2.Mark(completeness=pool_pb2.COMPLETENESS_ESTIMATED)


# -- what a stream says -------------------------------------------------------


def apply_all(fold: CarryingFold, messages: list[pb.WatchPoolsResponse]) -> None:
    for number, message in enumerate(messages):
        fold.apply(message, now=float(number))


def state(fold: CarryingFold) -> tuple[Any, ...]:
    return dict(fold.listed), dict(fold.carried), fold.position, fold.mark, list(fold.known())


@hostile(examples=20, messages=st.lists(a_message(RESPONSE), max_size=5))
def test_a_fold_takes_any_messages(messages: list[pb.WatchPoolsResponse]) -> None:
    fold = CarryingFold()
    apply_all(fold, messages)
    assert not set(fold.listed) & set(fold.carried)
    assert len(list(fold.known())) == len(fold.listed) + len(fold.carried)
    restored = CarryingFold()
    restored.restore(fold.known())
    assert set(restored.carried) == set(fold.listed) | set(fold.carried)


def steps() -> st.SearchStrategy[pb.WatchPoolsResponse]:
    """Messages about three pools, in any order, also such as no server sends."""
    pools = st.lists(NAMES.map(a_pool), max_size=3)
    keys = st.lists(NAMES.map(lambda name: a_pool(name).key), max_size=2)
    events = st.one_of(
        st.builds(pb.WatchPoolsResponse, snapshot=st.builds(pb.PoolSnapshot, pools=pools)),
        st.builds(
            pb.WatchPoolsResponse,
            changes=st.builds(pb.PoolChanges, pools=pools, removed=keys, unlisted=keys),
        ),
        st.builds(
            pb.WatchPoolsResponse,
            server=st.builds(pb.ServerInfo, instance_id=st.sampled_from(["", "x", "y"])),
        ),
        st.just(pb.WatchPoolsResponse(idle=pb.Idle())),
        st.just(pb.WatchPoolsResponse()),
    )
    closings = st.sampled_from(
        [
            pb.WatchPoolsResponse(),
            pb.WatchPoolsResponse(position="p", mark=ESTIMATED),
            pb.WatchPoolsResponse(mark=ESTIMATED),
            pb.WatchPoolsResponse(position="p"),
        ]
    )
    return st.builds(_merged, events, closings)


def _merged(event: pb.WatchPoolsResponse, closing: pb.WatchPoolsResponse) -> pb.WatchPoolsResponse:
    merged = pb.WatchPoolsResponse()
    merged.CopyFrom(event)
    merged.MergeFrom(closing)
    return merged


@hostile(examples=60, messages=st.lists(steps(), max_size=12))
def test_nothing_but_removed_drops_a_pool_while_no_mark_is_exact(
    messages: list[pb.WatchPoolsResponse],
) -> None:
    fold = CarryingFold()
    fold.restore(VIEW.known)
    removed = {PoolKey.of(key) for message in messages for key in message.changes.removed}
    apply_all(fold, messages)
    offered = {PoolKey.of(pool.key) for pool in fold.offered()}
    assert {PoolKey.of(each.pool.key) for each in VIEW.known} - removed <= offered


# -- what an HTTP answer says -------------------------------------------------

LIST = {
    "pools": [
        {
            "cluster_id": "c",
            "namespace": "n",
            "dgd_name": "p",
            "model": "m",
            "location": {"region": "r"},
            "capabilities": ["a"],
            "capacity": [{"gpu_sku": "H100", "gpu_count": 8}],
            "frontends": ["http://10.0.0.1"],
            "relays": ["ip:10.0.0.1"],
            "registered_time": "2026-01-01T00:00:00Z",
            "changed_time": "2026-01-01T00:00:00Z",
        }
    ],
    "complete": True,
    "reasons": ["STARTING"],
    "bound_secs": 1,
    "slices_bound_secs": 90,
}


@hostile(examples=80, body=damaged_json(LIST))
def test_a_list_is_read_or_refused(body: str) -> None:
    note(body[:2000])
    with contextlib.suppress(ValueError, RecursionError):
        snapshot, mark = read_list(body.encode(errors="surrogatepass"))
        message = pb.WatchPoolsResponse(snapshot=snapshot, mark=mark)
        message.SerializeToString()
        apply_all(CarryingFold(), [message, message])


LEASE = {"lease_duration_secs": 15, "heartbeat_interval_secs": 5, "lease_id": "x"}


@hostile(examples=60, body=damaged_json(LEASE))
def test_a_lease_is_read_or_refused(body: str) -> None:
    try:
        lease = rest_registration.granted_lease(body.encode(errors="surrogatepass"))
    except ValueError:
        return
    assert 1 <= lease.heartbeat_interval_secs <= lease.lease_duration_secs
    assert len(lease.lease_id) <= 64


PROBLEM = {
    "title": "x",
    "status": 400,
    "detail": "d",
    "code": "C",
    "errors": [{"field": "f", "message": "m"}],
    "more_errors": 3,
}


@hostile(examples=60, body=damaged_json(PROBLEM))
def test_a_problem_is_told_whatever_it_says(body: str) -> None:
    rest_registration._problem(body.encode(errors="surrogatepass"))


DATES = st.one_of(
    st.text(max_size=40),
    st.from_regex(
        r"[A-Z][a-z]{2}, [0-9]{1,2} [A-Z][a-z]{2} [0-9]{1,5} [0-9:.]{1,9} [A-Z0-9-]{0,6}"
    ),
    st.sampled_from(["Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 -2359", "9" * 99]),
)


@hostile(examples=80, told=DATES, date=DATES)
def test_a_retry_time_is_a_number_of_seconds(told: str, date: str) -> None:
    note(f"{told!r} {date!r}")
    seconds = http_answer.retry_after({"Retry-After": told, "Date": date})
    assert 0 <= seconds < float("inf")
