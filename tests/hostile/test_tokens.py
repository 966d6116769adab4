"""Positions and page tokens, changed bit by bit, of other filters and of other processes."""

import base64
import struct
import zlib
from typing import Any

import grpc
from hypothesis import note
from hypothesis import strategies as st

from global_discovery.v1 import pool_discovery_pb2 as pb
from support.hostile import hostile
from support.hostile_protobuf import damaged, odd_text
from support.hostile_target import ALLOWED, Target

FILTERS = st.sampled_from(
    [pb.PoolFilter(), pb.PoolFilter(cluster_ids=["good"]), pb.PoolFilter(models=["x", "y"])]
)


def forged(token: str, values: tuple[int, int] | None, process: bytes) -> str:
    """The same kind of text, with a checksum that is right."""
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    own, fingerprint, sequence, offset = struct.unpack(">8s8sQI", raw[5:])
    sequence, offset = values if values is not None else (sequence, offset)
    body = struct.pack(">8s8sQI", process or own, fingerprint, sequence, offset)
    whole = struct.pack(">BI", 1, zlib.crc32(body)) + body
    return base64.urlsafe_b64encode(whole).decode().rstrip("=")


@hostile(
    examples=80,
    asked=FILTERS,
    again=FILTERS,
    values=st.one_of(
        st.none(),
        st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1)),
        st.tuples(st.integers(0, 40), st.integers(0, 40)),
    ),
    process=st.sampled_from([b"", b"\0" * 8, b"another1"]),
    data=st.data(),
)
def test_a_forged_token_is_refused_or_leads_to_a_whole_list(  # noqa: PLR0917 - all by name
    target: Target,
    asked: pb.PoolFilter,
    again: pb.PoolFilter,
    values: tuple[int, int] | None,
    process: bytes,
    data: Any,
) -> None:
    page = target.call("ListPools", pb.ListPoolsRequest(filter=asked, page_size=1))
    first = pb.ListPoolsResponse.FromString(page)
    token = first.next_page_token or first.position
    how = data.draw(st.sampled_from(["forged", "bytes", "text"]))
    if how == "forged":
        token = forged(token, values, process)
    elif how == "bytes":
        token = data.draw(damaged(token.encode())).decode("latin-1")
    else:
        token = data.draw(odd_text())
    note(f"{how} {token[:200]!r}")
    requests = {
        "ListPools": pb.ListPoolsRequest(filter=again, page_size=1, page_token=token),
        "ListRouters": pb.ListRoutersRequest(page_token=token),
        "WatchPools": pb.WatchPoolsRequest(filter=again, position=token),
        "WatchRouters": pb.WatchRoutersRequest(position=token),
    }
    for method, request in requests.items():
        code, _ = target.raw(method, request.SerializeToString())
        assert code in ALLOWED - {grpc.StatusCode.NOT_FOUND}, method
